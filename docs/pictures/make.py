"""Make the pictures of docs/operators.md: what `stepahead transform` makes of one photograph, a sheet a group of operators.

    .venv/bin/python docs/pictures/make.py            # after `make build`; all sheets, or those that are named

The photograph is `chelsea` of scikit-image: Stefan van der Walt's cat, in the public domain (CC0).
"""

from __future__ import annotations

import io
import json
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import zipfile
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = pathlib.Path(__file__).resolve().parent
CELL = (180, 120)
LABEL, GAP = 36, 6
PACKAGE, PHOTOGRAPH = "scikit-image==0.26.0", "skimage/data/chelsea.png"

Op = dict[str, Any]
SMALL: Op = {"op": "Resize", "size": CELL[1]}


class Tile:
    """One cell: its label, the operators behind DecodeImage, and what is special about it."""

    def __init__(
        self, label: str, *ops: Op, decode: Op | None = None, sample: int = 0, file: str = "plain", zoom: int = 1
    ) -> None:
        self.label, self.sample, self.file, self.zoom = label, sample, file, zoom
        self.plan = {"plan": 1, "ops": [{"op": "DecodeImage", **(decode or {})}, *ops]}


def op(name: str, **parameters: Any) -> Op:
    return {"op": name, **parameters}


def jitter(**change: list[float]) -> Tile:
    name, (low, _) = next(iter(change.items()))
    return Tile(f"{name} {low:g}", SMALL, op("ColorJitter", **change))


def enlarged(interpolation: str) -> Tile:
    to = op("Resize", size=[120, 180], interpolation=interpolation)
    return Tile(f"{interpolation}, from 45 x 30", op("Resize", size=[30, 45]), to)


def reduced(interpolation: str) -> Tile:
    return Tile(f"{interpolation}, to 60 x 40", op("Resize", size=[40, 60], interpolation=interpolation), zoom=3)


def padded(mode: str, **more: Any) -> Tile:
    label = f"padding_mode={mode}" + "".join(f", {k}={v}" for k, v in more.items())
    return Tile(label, op("Resize", size=76), op("Pad", padding=[32, 22], padding_mode=mode, **more))


SHEETS: dict[str, list[Tile]] = {
    "decode": [
        Tile('orientation="stored"', op("Resize", size=80), file="turned"),
        Tile('orientation="apply"', SMALL, decode={"orientation": "apply"}, file="turned"),
        Tile('truncated="fill", a file cut in half', SMALL, decode={"truncated": "fill"}, file="cut"),
        Tile('jpeg="exact"', op("Resize", size=[40, 60]), zoom=3),
        Tile('jpeg="dct-scaled"', op("Resize", size=[40, 60]), decode={"jpeg": "dct-scaled"}, zoom=3),
    ],
    "resize": [
        *(enlarged(name) for name in ("nearest", "box", "bilinear", "bicubic", "lanczos")),
        *(reduced(name) for name in ("nearest", "box", "bilinear", "bicubic", "lanczos")),
    ],
    "crop": [
        Tile("Resize(120)", SMALL),
        Tile("CenterCrop(120)", op("CenterCrop", size=120)),
        *(Tile(f"RandomResizedCrop(120), sample {i}", op("RandomResizedCrop", size=120), sample=i) for i in range(3)),
        *(Tile(f"RandomCrop(120), sample {i}", op("RandomCrop", size=120), sample=i) for i in range(3)),
        Tile("RandomHorizontalFlip(p=1)", SMALL, op("RandomHorizontalFlip", p=1)),
        Tile("RandomVerticalFlip(p=1)", SMALL, op("RandomVerticalFlip", p=1)),
    ],
    "pad": [
        padded("constant"),
        padded("constant", fill=[200, 120, 40]),
        padded("edge"),
        padded("reflect"),
        padded("symmetric"),
    ],
    "colour": [
        Tile("Grayscale()", SMALL, op("Grayscale")),
        *(jitter(brightness=[f, f]) for f in (0.5, 1.5)),
        *(jitter(contrast=[f, f]) for f in (0.5, 1.8)),
        *(jitter(saturation=[f, f]) for f in (0.2, 2.5)),
        *(jitter(hue=[f, f]) for f in (-0.25, 0.1, 0.4)),
    ],
    "blur": [
        *(
            Tile(f"GaussianBlur(9, {s:g})", SMALL, op("GaussianBlur", kernel_size=9, sigma=[s, s]))
            for s in (0.5, 1, 2, 4)
        ),
        Tile("GaussianBlur([25, 1], 6)", SMALL, op("GaussianBlur", kernel_size=[25, 1], sigma=[6, 6])),
    ],
    "randaugment": [
        *(
            Tile(f"magnitude {m}, sample {i}", SMALL, op("RandAugment", magnitude=m), sample=i)
            for m in (9, 20)
            for i in range(5)
        ),
    ],
    "erase": [
        Tile("value=0", SMALL, op("RandomErasing", p=1)),
        Tile("value=[200, 120, 40]", SMALL, op("RandomErasing", p=1, value=[200, 120, 40]), sample=1),
        Tile('value="random"', SMALL, op("RandomErasing", p=1, value="random"), sample=2),
    ],
}


def photograph(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """The files that tiles are made of: plain, turned (says in EXIF that it lies on its side), cut."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--only-binary=:all:", "--dest", str(folder), PACKAGE], check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        picture = Image.open(io.BytesIO(archive.read(PHOTOGRAPH))).convert("RGB")
    files = {name: folder / f"{name}.jpg" for name in ("plain", "turned", "cut")}
    picture.save(files["plain"], quality=95)
    exif = Image.Exif()
    exif[0x0112] = 6
    picture.transpose(Image.Transpose.ROTATE_90).save(files["turned"], quality=95, exif=exif)
    whole = files["plain"].read_bytes()
    files["cut"].write_bytes(whole[: len(whole) // 2])
    return files


def transformed(tile: Tile, files: dict[str, pathlib.Path], folder: pathlib.Path) -> Image.Image:
    plan, out = folder / "plan.json", folder / "out.npy"
    plan.write_text(json.dumps(tile.plan))
    command = [ROOT / "bin" / "stepahead", "transform", "--plan", plan, "--seed", "7", "--sample", str(tile.sample)]
    subprocess.run([*command, files[tile.file], "-o", out], check=True, capture_output=True)
    pixels = np.load(out)
    pixels = pixels.repeat(tile.zoom, axis=0).repeat(tile.zoom, axis=1)
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).convert("RGB")


def sheet(tiles: list[Tile], files: dict[str, pathlib.Path], folder: pathlib.Path) -> Image.Image:
    """The tiles in rows of five, each over its label."""
    columns = min(5, len(tiles))
    rows = -(-len(tiles) // columns)
    width, height = CELL[0] + GAP, CELL[1] + LABEL
    page = Image.new("RGB", (columns * width + GAP, rows * height + GAP), "white")
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(size=11)
    for i, tile in enumerate(tiles):
        x, y = GAP + i % columns * width, GAP + i // columns * height
        picture = transformed(tile, files, folder)
        page.paste(picture, (x + (CELL[0] - picture.width) // 2, y + (CELL[1] - picture.height) // 2))
        for line, text in enumerate(textwrap.wrap(tile.label, 28)):
            draw.text((x + CELL[0] // 2, y + CELL[1] + 4 + 13 * line), text, fill="black", font=font, anchor="ma")
    return page


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        files = photograph(folder)
        for chosen in sys.argv[1:] or SHEETS:
            sheet(SHEETS[chosen], files, folder).save(FOLDER / f"{chosen}.jpg", quality=88, optimize=True)
            print(chosen, (FOLDER / f"{chosen}.jpg").stat().st_size)


if __name__ == "__main__":
    main()
