"""Which ranks read which files of a distributed checkpoint, by torch's own planners.

Nothing is saved: torch plans the saves of ranks that shard tensors in their first dimension, and the loads of others, one rank
after the other over a process group that does nothing. Prints JSON for readers_golden_test.go.
"""

import json
import sys

import torch
import torch.distributed as dist
from torch.distributed.checkpoint import DefaultSavePlanner
from torch.distributed.checkpoint.default_planner import create_default_local_load_plan
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

SHARDED = {"wide": (8, 4), "odd": (5, 3), "flat": (7,), "long": (13, 2)}
COPIES = {"norm": (6,), "scale": ()}


def state(rank: int, world: int) -> dict:
    """What a rank has: its part of each sharded tensor, and copies of the others."""
    mesh = init_device_mesh("cpu", (world,))
    tensors: dict = {"words": ["a", "b"]}
    for name, shape in SHARDED.items():
        parts = torch.zeros(shape).chunk(world)
        local = parts[rank] if rank < len(parts) else torch.zeros((0, *shape[1:]))
        strides = torch.zeros(shape).stride()
        tensors[name] = DTensor.from_local(local, mesh, [Shard(0)], shape=torch.Size(shape), stride=strides)
    for name, shape in COPIES.items():
        tensors[name] = torch.zeros(shape)
    return tensors


def on_each(world: int, do) -> list:
    """What a function gives on each rank of a world."""
    answers = []
    for rank in range(world):
        dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
        answers.append(do(rank, state(rank, world)))
        dist.destroy_process_group()
    return answers


def saved(world: int):
    """The metadata of a save, and the file of each item."""
    planner = DefaultSavePlanner()

    def local(rank, tensors):
        planner.set_up_planner(tensors, is_coordinator=rank == 0)
        return planner.create_local_plan()

    plans, metadata = planner.create_global_plan(on_each(world, local))
    files = {}
    for rank, plan in enumerate(plans):
        for item in plan.items:
            files[item.index] = f"__{rank}_0.distcp"
    return metadata, files


def described(metadata, files) -> tuple[list, list]:
    tensors, blobs = [], []
    for index, file in files.items():
        meta = metadata.state_dict_metadata[index.fqn]
        if not hasattr(meta, "chunks"):
            blobs.append({"name": index.fqn, "file": file})
            continue
        (chunk,) = [c for c in meta.chunks if index.offset is None or c.offsets == index.offset]
        tensors.append(
            {
                "name": index.fqn,
                "shape": list(meta.size),
                "offsets": list(chunk.offsets),
                "sizes": list(chunk.sizes),
                "file": file,
            }
        )
    return tensors, blobs


def main() -> None:
    cases = []
    for before in (1, 2, 3, 4):
        metadata, files = saved(before)
        tensors, blobs = described(metadata, files)
        for after in (1, 2, 3, 5, 8):
            plans = on_each(
                after, lambda _, tensors, metadata=metadata: create_default_local_load_plan(tensors, metadata)
            )
            readers: dict[str, set] = {file: set() for file in sorted(set(files.values()))}
            for rank, plan in enumerate(plans):
                for item in plan.items:
                    readers[files[item.storage_index]].add(rank)
            counts = {file: len(ranks) for file, ranks in readers.items()}
            cases.append({"saved": before, "ranks": after, "chunks": tensors, "blobs": blobs, "readers": counts})
    json.dump({"torch": torch.__version__.split("+")[0], "cases": cases}, sys.stdout, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()
