"""The checkpoints that are read, written by torch and by the safetensors package: `data.py FOLDER BYTES [NAME...]`; without names all.

It runs in build/peers-hdfs. `spec.json` says what is in them:

- `dcp`: 2,000 tensors of torch's distributed checkpoint in 16 files; `safetensors`: the same tensors, 16 files and an index.
- `common`: what all ranks read: 64 tensors of 512 KiB and a dict, among 2,000 tensors.
- `header.safetensors`: 100,000 tensors of 4 bytes.
"""

from __future__ import annotations

import json
import pathlib
import random
import sys
import warnings
from typing import Any

import numpy
import safetensors.numpy
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp

TENSORS, FILES = 2000, 16
SMALL = TENSORS * 65 // 100  # shorter than 16 KB
COMMON, COMMON_BYTES = 64, 512 << 10
HEADER = 100_000


def lengths(total: int) -> list[int]:
    """Of 2,000 tensors that are so many bytes together, 65 % of them shorter than 16 KB, the others equal."""
    choose = random.Random(1)
    small = [2 * choose.randrange(32, 8000) for _ in range(SMALL)]
    large = (total - sum(small)) // (TENSORS - SMALL) // 2 * 2
    out = small + [large] * (TENSORS - SMALL)
    choose.shuffle(out)
    return out


def tensors(total: int) -> dict[str, torch.Tensor]:
    make = numpy.random.default_rng(1)
    out = {}
    for i, length in enumerate(lengths(total)):
        data = bytearray(make.bytes(length))
        out[f"model.layers.{i:04}.weight"] = torch.frombuffer(data, dtype=torch.bfloat16)
    return out


def save_dcp(folder: pathlib.Path, state: dict[str, Any], files: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is one process
        dcp.save(state, storage_writer=dcp.FileSystemWriter(folder, thread_count=files, sync_files=False))


def save_safetensors(folder: pathlib.Path, state: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Files of about the same length, and where each tensor lies in them."""
    folder.mkdir()
    total = sum(t.nbytes for t in state.values())
    groups: list[dict[str, torch.Tensor]] = [{} for _ in range(FILES)]
    at = 0
    for name, tensor in state.items():
        groups[min(at * FILES // total, FILES - 1)][name] = tensor
        at += tensor.nbytes
    places: dict[str, Any] = {}
    for i, group in enumerate(groups):
        file = f"model-{i + 1:05}-of-{FILES:05}.safetensors"
        safetensors.torch.save_file(group, folder / file)
        with (folder / file).open("rb") as shard:
            length = int.from_bytes(shard.read(8), "little")
            header = json.loads(shard.read(length))
        for name in group:
            begin, end = header[name]["data_offsets"]
            places[name] = [file, 8 + length + begin, end - begin]
    index = {"metadata": {"total_size": total}, "weight_map": {name: place[0] for name, place in places.items()}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return places


def common() -> dict[str, Any]:
    make = numpy.random.default_rng(2)
    state: dict[str, Any] = {"args": {"iteration": 1000, "names": [f"argument-{i}" for i in range(500)]}}
    for i in range(COMMON):
        data = bytearray(make.bytes(COMMON_BYTES))
        state[f"common.{i:02}"] = torch.frombuffer(data, dtype=torch.bfloat16)
    return state


def save_common(folder: pathlib.Path) -> int:
    """Returns how many bytes of it all ranks read."""
    others = {f"sharded.{i:04}": torch.zeros(2048, dtype=torch.bfloat16) for i in range(TENSORS - COMMON)}
    save_dcp(folder, {**common(), **others}, 1)
    metadata = dcp.FileSystemReader(folder).read_metadata()
    items = sum(place.length for index, place in metadata.storage_data.items() if not index.fqn.startswith("sharded."))
    return int(items + (folder / ".metadata").stat().st_size)


def main() -> int:
    folder, total = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    wanted = sys.argv[3:] or ["dcp", "safetensors", "common", "header"]
    state = tensors(total)
    spec: dict[str, Any] = {"places": {name: ["", 0, tensor.nbytes] for name, tensor in state.items()}}
    if "dcp" in wanted:
        save_dcp(folder / "dcp", state, FILES)
    if "safetensors" in wanted:
        spec["places"] = save_safetensors(folder / "safetensors", state)
    if "common" in wanted:
        spec["common_bytes"] = save_common(folder / "common")
    if "header" in wanted:
        header = {f"model.layers.{i:06}.weight": numpy.zeros(1, numpy.float32) for i in range(HEADER)}
        safetensors.numpy.save_file(header, folder / "header.safetensors")
    spec["files"] = {str(p.relative_to(folder)): p.stat().st_size for p in sorted(folder.rglob("*")) if p.is_file()}
    (folder / "spec.json").write_text(json.dumps(spec))
    return 0


if __name__ == "__main__":
    sys.exit(main())
