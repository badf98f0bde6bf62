"""An independent jpeg/dct-scaled@1: simplejpeg (TurboJPEG) decodes the scaled picture, Pillow resizes its box.

    python scaled.py FOLDER > scaled.json

FOLDER holds the test data. Cases are boxes and sizes on the JPEG vectors beside this folder and on photographs; the
answer is the SHA-256 of the pixels.
"""

import hashlib
import json
import random
import sys
from pathlib import Path
from typing import Any

import PIL
import simplejpeg
from PIL import Image

FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}

PHOTOGRAPHS = "photos/dali/*.jpg", "jpeg/zune/*.jpg", "jpeg/pillow/*.jpg"


def denominator(box: list[int], width: int, height: int) -> int:
    return max((d for d in (1, 2, 4, 8) if box[2] >= d * width and box[3] >= d * height), default=1)


def reference(data: bytes, box: list[int], width: int, height: int, resample: Image.Resampling) -> str:
    full_height, full_width, space, _ = simplejpeg.decode_jpeg_header(data)
    d = denominator(box, width, height)
    h, w = -(-full_height // d), -(-full_width // d)
    inks = space in ("CMYK", "YCCK")
    pixels = simplejpeg.decode_jpeg(data, "CMYK" if inks else "RGB", min_height=h, min_width=w, min_factor=d)
    assert pixels.shape[:2] == (h, w), (pixels.shape, h, w)
    im = Image.fromarray(255 - pixels, "CMYK").convert("RGB") if inks else Image.fromarray(pixels)
    x, y, n, m = box
    if d == 1:
        im = im.crop((x, y, x + n, y + m)).resize((width, height), resample)
    else:
        im = im.resize((width, height), resample, box=(x / d, y / d, (x + n) / d, (y + m) / d))
    return hashlib.sha256(im.tobytes()).hexdigest()


def cases(root: Path) -> list[dict[str, Any]]:
    rng = random.Random(7)
    vectors = sorted((Path(__file__).parent.parent / "vectors").glob("jpeg-*.jpg"))
    photographs = [p for pattern in PHOTOGRAPHS for p in sorted(root.glob(pattern))]
    files = [(p, "vectors/" + p.name) for p in vectors for _ in range(20)]
    files += [(p, "data/" + str(p.relative_to(root))) for p in photographs for _ in range(3)]
    rows = []
    for path, name in files:
        data = path.read_bytes()
        try:
            full_height, full_width, _, _ = simplejpeg.decode_jpeg_header(data)
            simplejpeg.decode_jpeg(data, "RGB")
        except ValueError:
            continue
        w, h = rng.randint(1, full_width), rng.randint(1, full_height)
        box = [rng.randint(0, full_width - w), rng.randint(0, full_height - h), w, h]
        size = [max(1, int(w / rng.uniform(0.9, 12))), max(1, int(h / rng.uniform(0.9, 12)))]
        kind = rng.choice(sorted(FILTERS))
        rows.append(
            {
                "file": name,
                "box": box,
                "size": size,
                "filter": kind,
                "sha256": reference(data, box, *size, FILTERS[kind]),
            }
        )
    return rows


def main() -> None:
    rows = cases(Path(sys.argv[1]))
    head = {"pillow": PIL.__version__, "simplejpeg": simplejpeg.__version__, "cases": rows}
    print(json.dumps(head, separators=(",", ":")).replace('{"file"', '\n{"file"'))


main()
