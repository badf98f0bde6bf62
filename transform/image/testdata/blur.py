"""What torchvision makes of blurs of PIL images: blur.json, pictures of noise as in pillow.py.

python blur.py > blur.json
"""

import base64
import json

import torchvision
from PIL import Image
from pillow import noise
from torchvision.transforms.v2 import functional as F

CASES = [
    (1, 24, 19, 3, 3, 0.1, 0.1),
    (2, 24, 19, 3, 3, 0.5, 0.5),
    (3, 24, 19, 5, 5, 2.0, 2.0),
    (4, 24, 19, 23, 23, 1.3, 1.3),
    (5, 24, 19, 47, 37, 6.0, 9.0),
    (6, 24, 19, 1, 9, 1.0, 1.7),
    (7, 24, 19, 9, 1, 1.7, 1.0),
    (8, 2, 40, 3, 21, 0.8, 4.0),
    (9, 40, 2, 21, 3, 4.0, 0.8),
    (10, 31, 33, 15, 15, 100.0, 100.0),
]


def main() -> None:
    rows = []
    for seed, w, h, kx, ky, sx, sy in CASES:
        im = Image.frombytes("RGB", (w, h), noise(seed, w * h * 3))
        out = F.gaussian_blur(im, [kx, ky], [sx, sy])
        pixels = base64.b64encode(out.tobytes()).decode()
        rows.append({"seed": seed, "width": w, "height": h, "kernel": [kx, ky], "sigma": [sx, sy], "pixels": pixels})
    head = {"torchvision": torchvision.__version__, "cases": rows}
    print(json.dumps(head, separators=(",", ":")).replace('{"seed"', '\n{"seed"'))


main()
