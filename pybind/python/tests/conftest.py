"""A small packed dataset of real JPEG files, made anew for each test run."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from collections.abc import Callable
from typing import NoReturn

import numpy as np
import pytest
from PIL import Image
from stepahead._cli import program

CLASSES = ("ants", "bees", "crabs")
EACH = 14


def paint(index: int) -> Image.Image:
    """A picture with structure at every scale, of a size of its own."""
    rng = np.random.default_rng(index)
    width, height = 150 + 7 * (index % 11), 140 + 5 * (index % 13)
    coarse = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
    picture = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)).astype(np.int16)
    noise = rng.integers(-12, 13, picture.shape)
    return Image.fromarray(np.clip(picture + noise, 0, 255).astype(np.uint8))


def make_photos(folder: pathlib.Path) -> None:
    for number, label in enumerate(CLASSES):
        (folder / label).mkdir(parents=True)
        for i in range(EACH):
            paint(100 * number + i).save(folder / label / f"{i:02}.jpg", quality=90)


def missing(what: str) -> NoReturn:
    """Skip the test for what is not on this machine. In CI, where CI is "true", fail it: what CI needs, the set-up installs."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"missing, and CI=true: {what}")
    pytest.skip(f"missing: {what}")


def real(name: str) -> pathlib.Path:
    """A file or folder of the real test data, as the Go tests find it."""
    root = os.environ.get("STEPAHEAD_TESTDATA")
    if root and (pathlib.Path(root) / name).exists():
        return pathlib.Path(root) / name
    missing(f"{name}: STEPAHEAD_TESTDATA is {root!r}")


def run(*arguments: object) -> str:
    command = [str(program("stepahead")), *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("photos")
    make_photos(folder)
    return folder


@pytest.fixture(scope="session")
def dataset(photos: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A dataset of 42 JPEG files in three classes."""
    target = tmp_path_factory.mktemp("store") / "photos"
    run("pack", photos, "-o", target)
    return target


@pytest.fixture
def slow_dataset(photos: pathlib.Path, tmp_path: pathlib.Path) -> Callable[[float], pathlib.Path]:
    """Makes the same in a store whose only node takes so many seconds to answer."""

    def make(latency: float) -> pathlib.Path:
        target = tmp_path / "photos"
        run("pack", photos, "-o", target)
        node = {"name": "slow", "rack": "/r", "latency_us": int(1e6 * latency)}
        topology = {"nodes": [node], "block_size": 1 << 27, "replication": 1}
        (tmp_path / ".stepahead" / "store.json").write_text(json.dumps(topology))
        return target

    (tmp_path / ".stepahead").mkdir()
    return make
