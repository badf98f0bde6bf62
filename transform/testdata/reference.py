"""An independent implementation of what transform draws and computes; prints the golden files.

    python reference.py draws          needs only the standard library
    python reference.py tables         needs torch and torchvision
    python reference.py torchvision    needs torch and torchvision

It was written from docs/randomness.md and torchvision's documentation, not from the Go code.
"""

import hashlib
import json
import math
import struct
import sys

LN2 = float.fromhex("0x1.62e42fefa39efp-1")
LN2_HI = float.fromhex("0x1.62e42feep-1")
LN2_LO = float.fromhex("0x1.a39ef35793c76p-33")


def op_key(seed, source, epoch, sample, index):
    name = source.encode()
    text = struct.pack("<QI", seed, len(name)) + name + struct.pack("<QQI", epoch, sample, index)
    return hashlib.sha256(text).digest()[:16]


def words(key):
    block = 0
    while True:
        yield from struct.unpack("<4Q", hashlib.sha256(key + struct.pack("<I", block)).digest())
        block += 1


class Draws:
    def __init__(self, key):
        self.words = words(key)

    def uniform(self):
        return (next(self.words) >> 11) * 2.0**-53

    def below(self, n):
        return (next(self.words) * n) >> 64

    def between(self, lo, hi):
        return lo + self.uniform() * (hi - lo)


def log(x):
    m, e = math.frexp(x)
    if m < float.fromhex("0x1.6a09e667f3bcdp-1"):
        m, e = m * 2, e - 1
    s = (m - 1) / (m + 1)
    z = s * s
    p = 0.0
    for k in range(10, -1, -1):
        p = p * z + 1 / (2 * k + 1)
    return e * LN2 + 2 * s * p


def exp(y):
    n = round(y / LN2)
    r = (y - n * LN2_HI) - n * LN2_LO
    p = 0.0
    for k in range(13, -1, -1):
        p = p * r + 1 / math.factorial(k)
    return math.ldexp(p, n)


def sin(x, ahead=0):
    n = round(x * float.fromhex("0x1.45f306dc9c883p-1"))
    r = (x - n * float.fromhex("0x1.921fb544p0")) - n * float.fromhex("0x1.0b4611a626331p-34")
    z, p, turn = r * r, 0.0, (n + ahead) % 4
    odd = 1 - turn % 2
    for k in range(8, -1, -1):
        p = p * z + (-1) ** k / math.factorial(2 * k + odd)
    p = r * p if odd else p
    return -p if turn >= 2 else p


def cos(x):
    return sin(x, 1)


def random_resized_crop(w, h, scale, ratio, draws):
    area = float(w * h)
    lo, hi = log(ratio[0]), log(ratio[1])
    for _ in range(10):
        target = area * draws.between(*scale)
        aspect = exp(draws.between(lo, hi))
        bw = round(math.sqrt(target * aspect))
        bh = round(math.sqrt(target / aspect))
        if 0 < bw <= w and 0 < bh <= h:
            y = draws.below(h - bh + 1)
            x = draws.below(w - bw + 1)
            return [x, y, bw, bh]
    bw, bh = w, h
    if w / h < ratio[0]:
        bh = max(1, round(w / ratio[0]))
    elif w / h > ratio[1]:
        bw = max(1, round(h * ratio[1]))
    return [(w - bw) // 2, (h - bh) // 2, bw, bh]


def draws():
    keys = [
        (0, "", 0, 0, 1),
        (7, "", 0, 1, 1),
        (2**64 - 1, "photos", 3, 2**40, 2),
        (42, "ünïcode", 2**63, 5, 63),
    ]
    streams = []
    for k in keys:
        key = op_key(*k)
        w = words(key)
        d = Draws(key)
        streams.append(
            {
                "seed": k[0],
                "source": k[1],
                "epoch": k[2],
                "sample": k[3],
                "index": k[4],
                "key": key.hex(),
                "words": [f"{next(w):016x}" for _ in range(6)],
                "uniform": [d.uniform().hex() for _ in range(2)],
                "below1000": [d.below(1000) for _ in range(2)],
            }
        )
    functions = [
        {"x": x.hex(), "log": log(x).hex(), "exp": exp(log(x)).hex()}
        for x in [0.75, 4 / 3, 1.0, 0.5, 2.0, 1 / 65535, 65535.0, 1e-3, 0.9999999, 1.0000001, 3.3]
    ]
    angles = [
        {"x": x.hex(), "sin": sin(x).hex(), "cos": cos(x).hex()}
        for x in [
            0.0,
            1e-9,
            *(math.radians(d) for d in (-30.0, -9.3, -45.0, -90.0, -135.5, -330.0, -354.6, -359.99, 30.0, 700.0)),
        ]
    ]
    sizes = [(500, 375), (375, 500), (1, 1), (1, 500), (4000, 3), (224, 224), (31, 17), (65500, 65500)]
    ranges = [
        ((0.08, 1.0), (3 / 4, 4 / 3)),
        ((0.5, 0.5), (1.0, 1.0)),
        ((2.0, 3.0), (0.1, 10.0)),
        ((0.9, 1.0), (3.0, 4.0)),
    ]
    crops = []
    for w, h in sizes:
        for scale, ratio in ranges:
            boxes = [
                random_resized_crop(w, h, scale, ratio, Draws(op_key(7, "", 1, sample, 1))) for sample in range(12)
            ]
            crops.append({"width": w, "height": h, "scale": scale, "ratio": ratio, "boxes": boxes})
    flips = [Draws(op_key(7, "", 0, sample, 2)).uniform() < 0.5 for sample in range(64)]
    applied = []
    for sample in range(64):
        act = Draws(op_key(7, "", 0, sample, 2)).uniform() < 0.5
        inner = [Draws(op_key(7, "", 0, sample, 2 + 65536 * (j + 1))).uniform() < 0.5 for j in range(2)]
        applied.append([act and flip for flip in inner])
    return {
        "streams": streams,
        "functions": functions,
        "angles": angles,
        "crops": crops,
        "flips": flips,
        "applied": applied,
        "resizes": resizes(sizes),
        "centres": [[have, n, centre(have, n)] for have in (1, 2, 3, 10, 375, 500) for n in range(1, 12)],
    }


def resizes(sizes):
    out = []
    for w, h in [*sizes[:6], (640, 427), (1023, 769), (3, 1000)]:
        for size, most in ((224, None), (256, 300), (1, 2), (7, 500), (333, None)):
            short, long = min(w, h), max(w, h)
            new_short, new_long = size, int(size * long / short)
            if most is not None and new_long > most:
                new_short, new_long = int(most * new_short / new_long), most
            ok = new_short > 0 and new_long < 65536
            got = [new_short, new_long] if w <= h else [new_long, new_short]
            out.append({"in": [w, h], "size": size, "max": most or 0, "out": got if ok else None})
    return out


def centre(have, n):
    if n > have:  # padded first, floor to the left, and nothing is left to cut
        return -((n - have) // 2)
    return round((have - n) / 2.0)


MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def tails():
    cast = [
        {"op": "ToDtype", "dtype": d, "scale": s} for d in ("float32", "float16", "bfloat16") for s in (False, True)
    ]
    normalize = {"op": "Normalize", "mean": MEAN, "std": STD}
    yield from ([c] for c in cast)
    yield from ([c, normalize] for c in cast)
    for scale in ("divide", "multiply", "none"):
        yield [dict(normalize, scale=scale)]
        yield [dict(normalize, scale=scale), {"op": "ToDtype", "dtype": "float16", "scale": False}]
        yield [dict(normalize, scale=scale), {"op": "ToDtype", "dtype": "bfloat16", "scale": False}]
    yield [{"op": "Normalize", "mean": [0.1], "std": [3e-5], "scale": "divide"}, {"op": "ToDtype", "dtype": "float16"}]
    yield [{"op": "Normalize", "mean": [-1e30], "std": [1e-9], "scale": "none"}, {"op": "ToDtype", "dtype": "bfloat16"}]
    yield [cast[0], normalize, cast[3], dict(normalize, mean=[0.5]), cast[4]]


def tables():
    import numpy as np
    import torch
    import torchvision
    from torchvision.transforms import v2

    out = []
    pixels = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2)
    for tail in tails():
        x = torch.from_numpy(pixels).permute(2, 0, 1)
        for op in tail:
            if op["op"] == "ToDtype":
                x = v2.functional.to_dtype(x, getattr(torch, op["dtype"]), scale=op.get("scale", False))
                continue
            if x.dtype == torch.uint8:
                x = {
                    "divide": lambda x: torchvision.transforms.functional.to_tensor(pixels),
                    "multiply": lambda x: v2.functional.to_dtype(x, torch.float32, scale=True),
                    "none": lambda x: x.to(torch.float32),
                }[op["scale"]](x)
            n = 3 if len(op["mean"]) == 1 else 1
            x = v2.functional.normalize(x, op["mean"] * n, op["std"] * (3 if len(op["std"]) == 1 else 1))
        x = x.permute(1, 2, 0).contiguous()
        raw = x.view(torch.uint8).numpy().tobytes()
        out.append(
            {
                "ops": tail,
                "dtype": str(x.dtype).removeprefix("torch."),
                "sha256": hashlib.sha256(raw).hexdigest(),
                "hex": raw[-48:].hex(),
            }
        )
    return {"torch": torch.__version__, "torchvision": torchvision.__version__, "tables": out}


def torchvision_draws():
    import torchvision_draws

    return torchvision_draws.golden()


if __name__ == "__main__":
    golden = {"draws": draws, "tables": tables, "torchvision": torchvision_draws}[sys.argv[1]]()
    parts = []
    for name, value in golden.items():
        if isinstance(value, list):  # one record a line, so that a change reads well
            value = "[\n" + ",\n".join(json.dumps(record) for record in value) + "\n]"
        else:
            value = json.dumps(value)
        parts.append(json.dumps(name) + ": " + value)
    print("{" + ",\n".join(parts) + "}")
