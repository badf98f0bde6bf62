"""What Pillow and torchvision make of pictures: the independent reference of the tests here and of whole plans.

With --golden it writes golden.json: cases and the SHA-256 of what Pillow makes of them. Without, it
reads cases (a JSON list) and writes their digests (a JSON list); with --time it writes instead the least of the
times that each took, in milliseconds. What torchvision adds to Pillow, padding and hue on PIL images, is done
here in the same few lines, since importing torchvision takes 20 s; with --torchvision it is done by torchvision itself.

A case is {"seed", "width", "height", "few", "steps"}, {"file", "steps"} or {"colours", "steps"}. Byte i of a
seed's pixels is mixed from both by a hash; `few` > 0 leaves so many different values, from the middle of the range.
`colours` k is the 1024 x 1024 colours whose upper bits are k. Steps are those of transform.Step. "channels": 1 asks
for the first channel of the result.
"""

import hashlib
import json
import math
import random
import sys
import time
from typing import Any

import numpy as np
import PIL
from PIL import Image, ImageEnhance, ImageOps

if "--torchvision" in sys.argv:
    from torchvision.transforms import functional as F

Case = dict[str, Any]


def mixed(seed: int, n: int) -> np.ndarray:
    with np.errstate(over="ignore"):
        v = np.arange(n, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(seed * 40503 & 0xFFFFFFFF)
        v = (v ^ (v >> np.uint32(15))) * np.uint32(2246822519)
        v = (v ^ (v >> np.uint32(13))) * np.uint32(3266489917)
    return (v >> np.uint32(24)).astype(np.uint8)


def picture(case: Case) -> Image.Image:
    if "file" in case:
        return Image.open(case["file"]).convert("RGB")
    if "colours" in case:
        n = np.arange(1 << 20, dtype=np.uint32) + np.uint32(case["colours"] << 20)
        return Image.fromarray(np.stack([n >> 16, n >> 8, n], axis=1).astype(np.uint8).reshape(1024, 1024, 3))
    w, h, few = case["width"], case["height"], case.get("few", 0)
    pixels = mixed(case["seed"], w * h * 3)
    if few:
        pixels = pixels % few + (128 - few // 2)
    return Image.fromarray(pixels.astype(np.uint8).reshape(h, w, 3))


def pad(im: Image.Image, margins: list[int], fill: tuple[int, ...], mode: str) -> Image.Image:
    left, top, right, bottom = margins
    if "--torchvision" in sys.argv:
        return F.pad(im, margins, fill if mode == "constant" else 0, mode)
    if mode == "constant":
        return ImageOps.expand(im, (left, top, right, bottom), fill)
    widths = ((top, bottom), (left, right), (0, 0))
    return Image.fromarray(np.pad(np.asarray(im), widths, mode))  # type: ignore[call-overload]


def crop(im: Image.Image, s: Case) -> Image.Image:
    x, y, w, h = s["box"]
    margins = [max(-x, 0), max(-y, 0), max(x + w - im.width, 0), max(y + h - im.height, 0)]
    im = pad(im, margins, tuple(s.get("fill", (0, 0, 0))), s.get("pad", "constant"))
    x, y = x + margins[0], y + margins[1]
    return im.crop((x, y, x + w, y + h))


def affine(im: Image.Image, s: Case) -> Image.Image:
    filters = {"nearest": Image.Resampling.NEAREST, "bilinear": Image.Resampling.BILINEAR}
    fill = tuple(s.get("fill", (0, 0, 0)))
    size = (s["width"], s["height"])
    return im.transform(size, Image.Transform.AFFINE, s["matrix"], filters[s["filter"]], fillcolor=fill)


def resize(im: Image.Image, s: Case) -> Image.Image:
    resample = Image.Resampling[s["filter"].upper()]
    if s["version"] == 1:  # horizontal pass first, as Pillow up to 12.1
        im = im.resize((s["width"], im.height), resample)
    return im.resize((s["width"], s["height"]), resample)


def erase(im: Image.Image, s: Case) -> Image.Image:
    x, y, w, h = s["box"]
    pixels = np.array(im)
    if s.get("noise"):
        key = bytes.fromhex(s["key"])
        blocks = (hashlib.sha256(key + j.to_bytes(4, "little")).digest() for j in range(-(-w * h * 3 // 32)))
        noise = np.frombuffer(b"".join(blocks)[: w * h * 3], dtype=np.uint8)
        pixels[y : y + h, x : x + w] = noise.reshape(h, w, 3)
    else:
        pixels[y : y + h, x : x + w] = s.get("fill", (0, 0, 0))
    return Image.fromarray(pixels)


def hue(im: Image.Image, level: int) -> Image.Image:
    signed = (level & 255) - (256 if level & 128 else 0)
    part = (signed + math.copysign(0.5, signed)) / 255
    if "--torchvision" in sys.argv and abs(part) <= 0.5:  # all but 128, which torchvision cannot reach
        return F.adjust_hue(im, part)
    h, s, v = im.convert("HSV").split()
    turned = Image.fromarray(np.array(h, dtype=np.uint8) + np.uint8(level & 255))
    return Image.merge("HSV", (turned, s, v)).convert("RGB")


ENHANCE = {
    "brightness": ImageEnhance.Brightness,
    "contrast": ImageEnhance.Contrast,
    "saturation": ImageEnhance.Color,
    "sharpness": ImageEnhance.Sharpness,
}

OTHERS = {
    "crop": crop,
    "flip": lambda im, s: im.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    "flip-vertical": lambda im, s: im.transpose(Image.Transpose.FLIP_TOP_BOTTOM),
    "affine": affine,
    "resize": resize,
    "erase": erase,
    "grayscale": lambda im, s: im.convert("L").convert("RGB"),
    "hue": lambda im, s: hue(im, s.get("level", 0)),
    "invert": lambda im, s: ImageOps.invert(im),
    "posterize": lambda im, s: ImageOps.posterize(im, s["level"]),
    "solarize": lambda im, s: ImageOps.solarize(im, s.get("level", 0)),
    "autocontrast": lambda im, s: ImageOps.autocontrast(im),
    "equalize": lambda im, s: ImageOps.equalize(im),
}


def apply(im: Image.Image, step: Case) -> Image.Image:
    kind = step["kind"]
    if kind in ENHANCE:
        return ENHANCE[kind](im).enhance(step.get("factor", 0))
    return OTHERS[kind](im, step)


def digest(case: Case) -> str:
    im = picture(case)
    for step in case["steps"]:
        im = apply(im, step)
    pixels = im.tobytes()
    return hashlib.sha256(pixels[::3] if case.get("channels") == 1 else pixels).hexdigest()


def least(case: Case) -> float:
    im = picture(case)
    times = []
    for _ in range(60):
        start = time.perf_counter()
        for step in case["steps"]:
            apply(im, step)
        times.append(time.perf_counter() - start)
    return min(times) * 1000


# Sides from one pixel up, odd ones, and more than one block of whatever a kernel may take at once.
SHAPES = [(1, 1), (1, 2), (7, 2), (3, 3), (5, 4), (33, 17), (101, 67)]

FACTORS = [0, 1, 2, 10, 0.5, 0.9, 1.1, 1e-9, 0.3333333333333333, 1.9, -1, -0.25, 1000, 3e38, 0.99609375]


def rotation(degrees: float, w: int, h: int, scale: float = 1.0, shear: float = 0.0) -> list[float]:
    a = math.radians(degrees)
    m = [math.cos(a) / scale, math.sin(a + shear) / scale, 0.0, -math.sin(a) / scale, math.cos(a + shear) / scale, 0.0]
    m[2] = w / 2 - m[0] * w / 2 - m[1] * h / 2
    m[5] = h / 2 - m[3] * w / 2 - m[4] * h / 2
    return m


def matrices(rng: random.Random, w: int, h: int) -> list[list[float]]:
    """Of every way that Pillow goes: scaling, fixed point, float64; the edges between them; nothing in sight."""
    return [
        [1, 0, 0, 0, 1, 0],
        [1, 0, 3, 0, 1, -2],
        [0.37, 0, -1.25, 0, 2.5, 0.1],
        [-1, 0, w, 0, -1, h],
        [0, 1, 0, -1, 0, h],
        [1e9, 0, 0, 0, 1e-9, 0],
        rotation(rng.uniform(-180, 180), w, h),
        rotation(rng.uniform(-30, 30), w, h, rng.uniform(0.3, 3), rng.uniform(-1, 1)),
        [1, 0.3, 0, 0, 1, 0],
        [1, 0, 0, -0.3, 1, 0],
        [0.5, 32000 / h, -32000 / h, 0.25, 1, 0],
        [0.5, 40000 / h, -40000 / h, 0.25, 1, 0],
        [1, 1e-7, 0, 1e-7, 1, 0],
        [1, 0.5, 1e6, 0.5, 1, 1e6],
        [1, 0.1, 1e300, 0.1, 1, -1e300],
        [rng.uniform(-2, 2) for _ in range(6)],
        [rng.uniform(-2, 2) * w if i % 3 == 2 else rng.uniform(-2, 2) for i in range(6)],
    ]


def steps(rng: random.Random, w: int, h: int) -> list[Case]:
    out: list[Case] = [
        {"kind": k} for k in ("flip", "flip-vertical", "grayscale", "invert", "autocontrast", "equalize")
    ]
    out += [{"kind": k, "factor": f} for k in ENHANCE for f in FACTORS]
    out += [{"kind": "hue", "level": v} for v in (0, 1, 25, 127, 128, 200, 255)]
    out += [{"kind": "posterize", "level": v} for v in range(1, 9)]
    out += [{"kind": "solarize", "level": v} for v in (-1, 0, 1, 77, 128, 255, 256)]
    for m in matrices(rng, w, h):
        fill = [rng.randrange(256) for _ in range(3)]
        size = {"width": w, "height": h} if rng.random() < 0.7 else {"width": h + 3, "height": w + 1}
        out += [{"kind": "affine", "matrix": m, "filter": f, "fill": fill, **size} for f in ("nearest", "bilinear")]
    for pad in ("constant", "edge", "reflect", "symmetric"):
        for reach in (0, 2, 5 * max(w, h)):
            x, y = rng.randint(-reach, reach), rng.randint(-reach, reach)
            box = [x, y, rng.randint(1, w + reach), rng.randint(1, h + reach)]
            out.append({"kind": "crop", "box": box, "pad": pad, "fill": [9, 200, 30]})
    x, y = rng.randrange(w), rng.randrange(h)
    box = [x, y, rng.randint(1, w - x), rng.randint(1, h - y)]
    out.append({"kind": "erase", "box": box, "fill": [1, 2, 3]})
    out.append({"kind": "erase", "box": box, "noise": True, "key": rng.randbytes(16).hex()})
    return out


def cases() -> list[Case]:
    rng = random.Random(20264)
    out = []
    for i, (w, h) in enumerate(SHAPES):
        for j, step in enumerate(steps(rng, w, h)):
            few = (0, 0, 0, 1, 2, 30, 120)[(i + j) % 7]
            out.append({"seed": i, "width": w, "height": h, "few": few, "steps": [step]})
    return out


def main() -> None:
    if sys.argv[1:] == ["--golden"]:
        rows = [{**case, "sha256": digest(case)} for case in cases()]
        text = json.dumps({"pillow": PIL.__version__, "cases": rows}, separators=(",", ":"))
        print(text.replace('{"seed"', '\n{"seed"'))
        return
    answer = least if "--time" in sys.argv else digest
    print(json.dumps({"pillow": PIL.__version__, "answers": [answer(case) for case in json.load(sys.stdin)]}))


main()
