"""Photographs to measure with, cut by a fixed recipe from ones that Debian and PyPI packages ship, kept in build/photos/.

    python -m benchmarks.photos            # makes every set that is not there yet

`inet` is 800 JPEG like ImageNet's (mostly 500 x 375, 80 KB), in 16 class folders; `large` 48 JPEG of 2 to 12 megapixels;
`png`, `webp` and `webp-lossless` are pictures of `inet` in other formats. The same versions of the packages and of
Pillow give the same bytes; `digest` says which bytes they are. Where there is no apt-get, STEPAHEAD_PHOTOS names a folder of
large photographs to cut from instead.
"""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import io
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from typing import Any

from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[1]
SETS = ROOT / "build" / "photos"

# Photographs only, no drawings. Package, and the files in it.
DEBIAN = {
    "lomiri-wallpapers-16.04": ["usr/share/backgrounds/*.jpg"],
    "lomiri-wallpapers-20.04": ["usr/share/backgrounds/[FIK]*.jpg"],
    "mate-backgrounds": [
        "usr/share/backgrounds/mate/nature/*.jpg",
        "usr/share/backgrounds/mate/abstract/Elephants_5640x3172.jpg",
    ],
    "plasma-workspace-wallpapers": [
        f"usr/share/wallpapers/{name}/contents/images/2560x1600.jpg"
        for name in (
            "Autumn",
            "BytheWater",
            "ColorfulCups",
            "EveningGlow",
            "FallenLeaf",
            "Kite",
            "OneStandsOut",
            "Path",
        )
    ],
}
PYPI = {
    "scikit-image==0.26.0": [
        f"skimage/data/{name}"
        for name in ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "motorcycle_left.png", "retina.jpg")
    ],
    "scikit-learn==1.9.1": [f"sklearn/datasets/images/{name}" for name in ("china.jpg", "flower.jpg")],
}

SEED = 20261129
USUAL = [(500, 375)] * 9 + [(375, 500)] * 4 + [(500, 333)] * 4 + [(333, 500)] * 2
USUAL += [(500, 400), (400, 300), (500, 500), (640, 480), (320, 240)]
UNUSUAL, UNUSUAL_SHARE = [(800, 600), (1024, 768), (1280, 960), (1600, 1200)], 0.12
MEGAPIXELS = [2, 3, 4, 6, 8, 12]

Source = Callable[[], Image.Image]


def folder(name: str) -> pathlib.Path:
    """The folder of a set, made first if need be."""
    path = SETS / name
    if not path.exists():
        print(f"photos: making {path}", file=sys.stderr, flush=True)
        SETS.mkdir(parents=True, exist_ok=True)
        made = pathlib.Path(tempfile.mkdtemp(dir=SETS))
        try:
            MAKERS[name](made)
            made.chmod(0o755)
            made.rename(path)  # only whole sets have their name
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return path


def files(name: str) -> list[pathlib.Path]:
    """The pictures of a set, in order."""
    return sorted(path for path in folder(name).rglob("*") if path.is_file())


def digest(name: str) -> str:
    """Names the bytes of a set: two runs that print the same digest measured the same files."""
    total = hashlib.sha256()
    for path in files(name):
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:12]


def make_inet(into: pathlib.Path) -> None:
    rng, sources, made = random.Random(SEED), photographs(), 0
    while made < 800:
        source = sources[rng.randrange(len(sources))]
        sizes = UNUSUAL if rng.random() < UNUSUAL_SHARE else USUAL
        cut = cut_from(source(), *sizes[rng.randrange(len(sizes))], rng)
        if cut is None:
            continue
        path = into / f"c{made % 16:02}" / f"{made:05}.jpg"
        path.parent.mkdir(exist_ok=True)
        cut.save(path, quality=rng.choice([90, 95, 96, 96]), subsampling="4:2:0")
        made += 1


def make_large(into: pathlib.Path) -> None:
    rng, sources, made = random.Random(SEED), photographs(), 0
    while made < 48:
        source = sources[rng.randrange(len(sources))]
        megapixels = MEGAPIXELS[made % len(MEGAPIXELS)]
        width = int((megapixels * 1e6 * 4 / 3) ** 0.5)
        cut = cut_from(source(), width, width * 3 // 4, rng)
        if cut is None:
            continue
        cut.save(into / f"{made:03}_{megapixels}MP.jpg", quality=90, subsampling="4:2:0")
        made += 1


def converted(suffix: str, every: int, **options: Any) -> Callable[[pathlib.Path], None]:
    """A maker that saves every so many pictures of `inet` in another format."""

    def make(into: pathlib.Path) -> None:
        for path in files("inet")[::every]:
            Image.open(path).save(into / f"{path.stem}.{suffix}", **options)

    return make


MAKERS = {
    "inet": make_inet,
    "large": make_large,
    "png": converted("png", 10),
    "webp": converted("webp", 5, quality=85),
    "webp-lossless": converted("webp", 25, lossless=True),
}


def cut_from(picture: Image.Image, width: int, height: int, rng: random.Random) -> Image.Image | None:
    """A part of a photograph of at least 0.7 of what fits, scaled down to a size; None if it is too small for that."""
    fits = min(picture.width / width, picture.height / height)
    if fits < 1:
        return None
    scale = max(1.0, fits * rng.uniform(0.7, 1.0))
    w, h = int(width * scale), int(height * scale)
    x, y = rng.randint(0, picture.width - w), rng.randint(0, picture.height - h)
    return picture.resize((width, height), Image.Resampling.LANCZOS, box=(x, y, x + w, y + h))


@functools.cache
def photographs() -> list[Source]:
    """What the sets are cut from. Each is decoded when it is first asked for, and kept."""
    if own := os.environ.get("STEPAHEAD_PHOTOS"):
        return [kept(path.read_bytes()) for path in sorted(pathlib.Path(own).rglob("*.jpg"))]
    if shutil.which("apt-get") is None:
        raise RuntimeError("no apt-get to fetch Debian's photographs: set STEPAHEAD_PHOTOS to a folder of large JPEG")
    with tempfile.TemporaryDirectory() as name:
        download = pathlib.Path(name)
        encoded = [data for package, wanted in DEBIAN.items() for data in from_debian(package, wanted, download)]
        encoded += [data for package, wanted in PYPI.items() for data in from_pypi(package, wanted, download)]
    return [kept(data) for data in encoded]


def kept(encoded: bytes) -> Source:
    return functools.cache(lambda: Image.open(io.BytesIO(encoded)).convert("RGB"))


def from_debian(package: str, wanted: list[str], download: pathlib.Path) -> list[bytes]:
    """The wanted files of a package, in the order of the patterns, then of their names."""
    run = functools.partial(subprocess.run, cwd=download, capture_output=True, text=True)
    fetch = ["apt-get", "download", "-qq", package]
    if run(fetch).returncode != 0:
        run(["apt-get", "update", "-qq"])
        if (second := run(fetch)).returncode != 0:
            raise RuntimeError(f"apt-get download {package}: {second.stderr.strip()}")
    found: dict[str, bytes] = {}
    archive = next(download.glob(f"{package}_*.deb"))
    with (
        subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE) as unpack,
        tarfile.open(fileobj=unpack.stdout, mode="r|") as members,
    ):
        for member in members:
            path = member.name.removeprefix("./")
            if member.isfile() and any(fnmatch.fnmatch(path, pattern) for pattern in wanted):
                found[path] = members.extractfile(member).read()  # type: ignore[union-attr]
    return [found[path] for pattern in wanted for path in sorted(fnmatch.filter(found, pattern))]


def from_pypi(requirement: str, wanted: list[str], download: pathlib.Path) -> list[bytes]:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    target = download / requirement
    subprocess.run([*command, "--only-binary=:all:", "--dest", str(target), requirement], check=True)
    with zipfile.ZipFile(next(target.glob("*.whl"))) as archive:
        return [archive.read(name) for name in wanted]


def main() -> None:
    for name in MAKERS:
        sizes = [path.stat().st_size for path in files(name)]
        print(f"{name}: {len(sizes)} files, {sum(sizes) / len(sizes) / 1000:.0f} KB on average, digest {digest(name)}")


if __name__ == "__main__":
    main()
