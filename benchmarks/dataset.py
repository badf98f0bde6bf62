"""Makes small packed datasets for benchmarks, of pictures that are as large and as hard to decode as photographs."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Sequence

import numpy as np
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN = ROOT / "bin"


def pack(folder: pathlib.Path, pictures: int, nodes: Sequence[str] = ()) -> pathlib.Path:
    """Pack so many pictures into a dataset in `folder`, a store of the simulated nodes if there are any; returns its path."""
    if nodes:
        topology = {"nodes": [{"name": n, "rack": f"/{n}"} for n in nodes], "block_size": 1 << 20, "replication": 1}
        (folder / ".stepahead").mkdir()
        (folder / ".stepahead" / "store.json").write_text(json.dumps(topology))
    sources, dataset = folder / "sources", folder / "dataset"
    for i in range(pictures):
        path = sources / f"class{i % 4}" / f"{i:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        picture(i).save(path, quality=90, subsampling="4:2:0")
    subprocess.run([BIN / "stepahead", "pack", sources, "-o", dataset], check=True, capture_output=True)
    return dataset


def picture(seed: int) -> Image.Image:
    """500 x 375: soft shapes and grain, about 50 KB as JPEG, like ImageNet's average."""
    rng = np.random.default_rng(seed)
    shapes = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize(
        (500, 375), Image.Resampling.BICUBIC
    )
    grain = rng.normal(0, 6, (375, 500, 1))
    return Image.fromarray(np.clip(np.asarray(shapes) + grain, 0, 255).astype(np.uint8))
