"""What Pillow makes of pictures: the independent reference of the tests beside this folder.

With --golden it writes pillow.json: cases and the SHA-256 of what Pillow makes of them. Without, it
reads cases (a JSON list) and writes their digests (a JSON list).

A case is {"seed", "width", "height", "steps"} or {"file", "steps"}. Pixels of a seed are SHA-256 over
u32le seed and u32le block, block after block, RGB. Steps are those of transform.Step. A resize of
version 1 (horizontal pass first, as Pillow did up to 12.1) is done as two resizes of one axis each.
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
    size = (step["width"], step["height"])
    if step["version"] == 1:
        im = im.resize((size[0], im.height), FILTERS[step["filter"]])
    return im.resize(size, FILTERS[step["filter"]])


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
    shapes += [(rng.randint(1, 300), rng.randint(1, 300), rng.randint(1, 300), rng.randint(1, 300)) for _ in range(40)]
    shapes += [(rng.randint(1, 40), rng.randint(200, 400), rng.randint(1, 40), rng.randint(1, 60)) for _ in range(12)]
    for i, (w, h, to_w, to_h) in enumerate(shapes):
        for version in (1, 2):
            steps = [{"kind": "resize", "width": to_w, "height": to_h, "version": version, "filter": "bilinear"}]
            if i % 3 == 1:
                x, y = rng.randrange(w), rng.randrange(h)
                steps.insert(0, {"kind": "crop", "box": [x, y, rng.randint(1, w - x), rng.randint(1, h - y)]})
            if i % 4 == 2:
                steps.append({"kind": "crop", "box": [(to_w - 50) // 2, (to_h - 60) // 2, 50, 60]})
            if i % 5 == 3:
                steps.append({"kind": "flip"})
            out.append({"seed": i, "width": w, "height": h, "steps": steps})
    return out


def main() -> None:
    if sys.argv[1:] == ["--golden"]:
        rows = [{**case, "sha256": digest(case)} for case in cases()]
        print(
            json.dumps({"pillow": PIL.__version__, "cases": rows}, separators=(",", ":")).replace(
                '{"seed"', '\n{"seed"'
            )
        )
        return
    print(json.dumps({"pillow": PIL.__version__, "digests": [digest(case) for case in json.load(sys.stdin)]}))


main()
