"""What Pillow makes of pictures: the independent reference of the tests beside this folder.

With --golden it writes pillow.json: cases and the SHA-256 of what Pillow makes of them. With --check FILE
it compares such a file with what the Pillow at hand makes, which may be an older one. Without, it reads
cases (a JSON list) and writes their digests (a JSON list).

A case is {"seed", "width", "height", "steps"} or {"file", "steps"}. Pixels of a seed are SHA-256 over
u32le seed and u32le block, block after block, RGB. Steps are those of transform.Step. A resize in the
order of passes that the Pillow at hand has not got (version 1: horizontal first, as up to 12.1; version 2:
as in 13.0) is done as two resizes of one axis each.
"""

import hashlib
import json
import random
import struct
import sys
from typing import Any

import PIL
from PIL import Image

Case = dict[str, Any]

FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


def noise(seed: int, n: int) -> bytes:
    blocks = (hashlib.sha256(struct.pack("<II", seed, i)).digest() for i in range(-(-n // 32)))
    return b"".join(blocks)[:n]


def picture(case: Case) -> Image.Image:
    if "file" in case:
        return Image.open(case["file"]).convert("RGB")
    w, h = case["width"], case["height"]
    return Image.frombytes("RGB", (w, h), noise(case["seed"], w * h * 3))


def apply(im: Image.Image, step: Case) -> Image.Image:
    if step["kind"] == "crop":
        x, y, w, h = step["box"]
        return im.crop((x, y, x + w, y + h))
    if step["kind"] == "flip":
        return im.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return resize(im, step["width"], step["height"], step["version"], FILTERS[step["filter"]])


def resize(im: Image.Image, w: int, h: int, version: int, resample: Image.Resampling) -> Image.Image:
    lost = im.height - h
    vertical_first = version == 2 and lost > 0 and lost > 2 * (im.width - w)
    if (version == 1) != (int(PIL.__version__.split(".")[0]) < 13):
        im = im.resize((im.width, h) if vertical_first else (w, im.height), resample)
    return im.resize((w, h), resample)


def digest(case: Case) -> str:
    im = picture(case)
    for step in case["steps"]:
        im = apply(im, step)
    return hashlib.sha256(im.tobytes()).hexdigest()


def cases() -> list[Case]:
    rng = random.Random(20261)
    out = []
    shapes = [
        (8, 1, 3, 1),
        (8, 1, 5, 1),
        (8, 1, 12, 1),
        (1, 8, 1, 3),
        (1, 1, 7, 9),
        (500, 375, 224, 224),
        (375, 500, 224, 224),
        (333, 21, 224, 224),
    ]
    shapes += [
        (1, 1, 300, 2),
        (1, 300, 1, 7),
        (3000, 2, 1, 1),
        (2, 3000, 3, 2),
        (1, 2, 2, 3000),
        (97, 1, 96, 1),
        (7, 9, 7, 9),
    ]
    shapes += [(rng.randint(1, 300), rng.randint(1, 300), rng.randint(1, 300), rng.randint(1, 300)) for _ in range(40)]
    shapes += [
        (1, 1, 300, 2),
        (1, 300, 1, 7),
        (3000, 2, 1, 1),
        (2, 3000, 3, 2),
        (1, 2, 2, 3000),
        (97, 1, 96, 1),
        (7, 9, 7, 9),
    ]
    shapes += [(rng.randint(1, 40), rng.randint(200, 400), rng.randint(1, 40), rng.randint(1, 60)) for _ in range(12)]
    for i, (w, h, to_w, to_h) in enumerate(shapes):
        for version, kind in [(v, f) for v in (1, 2) for f in FILTERS]:
            steps = [{"kind": "resize", "width": to_w, "height": to_h, "version": version, "filter": kind}]
            if i % 3 == 1:
                x, y = rng.randrange(w), rng.randrange(h)
                steps.insert(0, {"kind": "crop", "box": [x, y, rng.randint(1, w - x), rng.randint(1, h - y)]})
            if i % 4 == 2:
                steps.append({"kind": "crop", "box": [(to_w - 50) // 2, (to_h - 60) // 2, 50, 60]})
            if i % 5 == 3:
                steps.append({"kind": "flip"})
            out.append({"seed": i, "width": w, "height": h, "steps": steps})
    return out


def check(path: str) -> None:
    with open(path) as f:
        rows = json.load(f)["cases"]
    wrong = [row for row in rows if digest(row) != row["sha256"]]
    print(f"Pillow {PIL.__version__}: {len(wrong)} of {len(rows)} differ {wrong[:3]}")
    sys.exit(bool(wrong))


def main() -> None:
    if sys.argv[1:] == ["--golden"]:
        rows = [{**case, "sha256": digest(case)} for case in cases()]
        print(
            json.dumps({"pillow": PIL.__version__, "cases": rows}, separators=(",", ":")).replace(
                '{"seed"', '\n{"seed"'
            )
        )
        return
    if sys.argv[1:2] == ["--check"]:
        check(sys.argv[2])
    print(json.dumps({"pillow": PIL.__version__, "digests": [digest(case) for case in json.load(sys.stdin)]}))


if __name__ == "__main__":
    main()
