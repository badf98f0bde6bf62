"""How torchvision's operators draw, with torch's own generator: prints distributions.json.

For each operator, size and feature of what was drawn, points [value, share of draws not above it].
"""

import json
import math

import numpy as np
import torch
import torchvision
from torchvision import transforms as T

DRAWS = 20000


def crop(box, w, h):
    y, x, bh, bw = box
    return {
        "area": bw * bh / (w * h),
        "aspect": math.log(bw / bh),
        "x": x / max(w - bw, 1),
        "y": y / max(h - bh, 1),
        "found": 1.0,
    }


def resized_crop(w, h, op):
    image = torch.empty(3, h, w)
    scale, ratio = op.get("scale", (0.08, 1.0)), op.get("ratio", (3 / 4, 4 / 3))
    return crop(T.RandomResizedCrop.get_params(image, list(scale), list(ratio)), w, h)


def random_crop(w, h, op):
    return crop(T.RandomCrop.get_params(torch.empty(3, h, w), op["size"]), w, h)


def erasing(w, h, op):
    image = torch.empty(3, h, w)
    scale, ratio = op.get("scale", (0.02, 0.33)), op.get("ratio", (0.3, 3.3))
    if torch.rand(1) >= op.get("p", 0.5):
        return {"found": 0.0}
    y, x, bh, bw, _ = T.RandomErasing.get_params(image, scale, ratio, [0.0])
    return crop((y, x, bh, bw), w, h) if (bh, bw) != (h, w) and bh * bw > 0 else {"found": 0.0}


def jitter(w, h, op):
    ranges = {k: (max(0.0, 1 - op[k]), 1 + op[k]) for k in ("brightness", "contrast", "saturation")}
    order, b, c, s, hue = T.ColorJitter.get_params(*ranges.values(), (-op["hue"], op["hue"]))
    order = order.tolist()
    places = {f"place of {name}": order.index(i) for i, name in enumerate((*ranges, "hue"))}
    return {"brightness": b, "contrast": c, "saturation": s, "hue": int(np.int8(int(hue * 255))), **places}


CASES = [
    (resized_crop, {"op": "RandomResizedCrop", "size": 8}, 500, 375),
    (resized_crop, {"op": "RandomResizedCrop", "size": 8}, 64, 400),
    (resized_crop, {"op": "RandomResizedCrop", "size": 8, "scale": [0.3, 0.9], "ratio": [0.2, 5]}, 130, 90),
    (random_crop, {"op": "RandomCrop", "size": [50, 70]}, 100, 90),
    (erasing, {"op": "RandomErasing"}, 224, 224),
    (erasing, {"op": "RandomErasing", "p": 1, "scale": [0.3, 1], "ratio": [0.1, 10]}, 120, 60),
    (jitter, {"op": "ColorJitter", "brightness": 0.4, "contrast": 0.8, "saturation": 0.3, "hue": 0.25}, 9, 9),
]


def points(values):
    """At most fifty of the values, with the share of all that is not above each."""
    values = np.sort(np.array(values))
    at = np.unique(np.quantile(values, np.linspace(0, 1, 50), method="lower"))
    return [[float(f"{v:.9g}"), float(np.mean(values <= v * (1 + np.sign(v) * 1e-7)))] for v in at]


def main():
    torch.manual_seed(4)
    rows = []
    for draw, op, w, h in CASES:
        features = {}
        for _ in range(DRAWS):
            for name, value in draw(w, h, op).items():
                features.setdefault(name, []).append(value)
        rows.append({"op": op, "width": w, "height": h, "features": {k: points(v) for k, v in features.items()}})
    text = json.dumps({"torchvision": torchvision.__version__, "draws": DRAWS, "cases": rows}, separators=(",", ":"))
    print(text.replace('{"op":{', '\n{"op":{').replace("}}]}", "}}\n]}"))


main()
