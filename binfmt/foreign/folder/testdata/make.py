"""Writes imagefolder.json: the samples and classes that torchvision's ImageFolder finds in a folder of pictures.

pip install torchvision==0.29.2 torch pillow
python binfmt/foreign/folder/testdata/make.py
"""

from __future__ import annotations

import json
import pathlib
import tempfile

from PIL import Image
from torchvision.datasets import ImageFolder

NAMES = [
    "cat/10.png",
    "cat/2.png",
    "cat/B.png",
    "cat/a-1.png",
    "cat/a.png",
    "dog/x.y.png",
    "dog/ä.png",
    "Zebra/1.png",
    "dog sled/1.png",
    "cat/sub/0.png",
    "cat/sub-2/1.png",
    "cat/zz.png",
]


def main() -> None:
    with tempfile.TemporaryDirectory() as root:
        for i, name in enumerate(NAMES):
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (i + 1, 2), (i, 0, 0)).save(path)
        found = ImageFolder(root)
        samples = [[str(pathlib.Path(path).relative_to(root)), label] for path, label in found.samples]
    expect = {"classes": found.classes, "samples": samples}
    (pathlib.Path(__file__).parent / "imagefolder.json").write_text(json.dumps(expect, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
