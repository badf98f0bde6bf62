"""Which ranks read which files of a Megatron torch_dist checkpoint, by Megatron-core's and torch's own planners.

Nothing is saved: the saves and loads of ranks of several tensor- and pipeline-parallel sizes are planned, one rank after the other
over a process group that does nothing. Prints JSON for readers_golden_test.go.
"""

import json
import sys

import torch
import torch.distributed as dist
from megatron.core.dist_checkpointing.mapping import ShardedObject, ShardedTensor
from megatron.core.dist_checkpointing.strategies.torch import (
    _replace_state_dict_keys_with_sharded_keys,
    mcore_to_pyt_state_dict,
)
from torch.distributed.checkpoint.default_planner import create_default_global_save_plan, create_default_local_load_plan
from torch.distributed.checkpoint.planner import SavePlan
from torch.distributed.checkpoint.planner_helpers import _create_write_items
from torch.testing._internal.distributed.fake_pg import FakeStore

LAYERS = 4


def state(tp: int, pp: int, dp: int, place: tuple[int, int, int]) -> dict:
    """What the rank at a place has: its layers, cut among tensor-parallel ranks or not, and what only some stages have."""
    t, p, d = place
    tensors: dict = {}

    def tensor(key, local, *offsets, prepend=0, replica=0):
        name = f"{key}.{len(tensors)}"
        tensors[name] = ShardedTensor.from_rank_offsets(
            key, torch.zeros(local), *offsets, prepend_axis_num=prepend, replica_id=(0, replica, d)
        )

    here = LAYERS // pp
    for layer in range(p * here, (p + 1) * here):
        stacked = (0, layer, LAYERS)
        tensor("decoder.layers.mlp.column.weight", (8 // tp, 3), stacked, (1, t, tp), prepend=1)
        tensor("decoder.layers.mlp.row.weight", (3, 8 // tp), stacked, (2, t, tp), prepend=1)
        tensor("decoder.layers.norm.weight", (3,), stacked, prepend=1, replica=t)
        tensors[f"extra.{layer}"] = ShardedObject(
            "decoder.layers.mlp._extra_state", b"x", (LAYERS,), (layer,), replica_id=(0, t, d)
        )
    if p == 0:
        tensor("embedding.word_embeddings.weight", (16 // tp, 3), (0, t, tp))
    if p == pp - 1:
        tensor("decoder.final_layernorm.weight", (3,), replica=t)
        tensor("output_layer.weight", (16 // tp, 3), (0, t, tp))
    tensors["rng"] = ShardedObject("rng_state", b"x", (pp, tp), (p, t), replica_id=d)
    return tensors


def on_each(sizes: tuple[int, int, int], main: bool, do) -> list:
    """What a function gives on each rank of a job, in Megatron's order of ranks."""
    tp, pp, dp = sizes
    answers = []
    for rank in range(tp * pp * dp):
        place = (rank % tp, rank // (tp * dp), rank // tp % dp)
        dist.init_process_group("fake", rank=rank, world_size=tp * pp * dp, store=FakeStore())
        by_key, _, _ = _replace_state_dict_keys_with_sharded_keys(state(tp, pp, dp, place), main)
        answers.append(do(mcore_to_pyt_state_dict(by_key, not main)))
        dist.destroy_process_group()
    return answers


def saved(sizes: tuple[int, int, int]):
    """The metadata of a save, and the file of each item."""

    def local(tensors):
        return SavePlan([item for name, value in tensors.items() for item in _create_write_items(name, value)])

    plans, metadata = create_default_global_save_plan(on_each(sizes, True, local))
    return metadata, {item.index: f"__{rank}_0.distcp" for rank, plan in enumerate(plans) for item in plan.items}


def described(metadata, files) -> tuple[list, list]:
    chunks, blobs = [], []
    for index, file in files.items():
        meta = metadata.state_dict_metadata[index.fqn]
        if not hasattr(meta, "chunks"):
            blobs.append({"name": index.fqn, "file": file})
            continue
        (chunk,) = [c for c in meta.chunks if index.offset is None or c.offsets == index.offset]
        place = {"offsets": list(chunk.offsets), "sizes": list(chunk.sizes)}
        chunks.append({"name": index.fqn, "shape": list(meta.size), **place, "file": file})
    return chunks, blobs


def main() -> None:
    cases = []
    for before in ((1, 1, 1), (2, 1, 1), (2, 2, 1), (1, 2, 2), (4, 1, 2)):
        metadata, files = saved(before)
        chunks, blobs = described(metadata, files)
        for after in ((1, 1, 2), (2, 1, 1), (2, 2, 1), (1, 4, 1), (4, 2, 2), (2, 2, 2)):
            same = before[:2] == after[:2]  # only then are states of random numbers loaded

            def plan(tensors, metadata=metadata, same=same):
                wanted = {k: v for k, v in tensors.items() if same or not k.startswith("rng_state")}
                return create_default_local_load_plan(wanted, metadata)

            readers: dict[str, set] = {file: set() for file in sorted(set(files.values()))}
            for rank, local in enumerate(on_each(after, False, plan)):
                for item in local.items:
                    readers[files[item.storage_index]].add(rank)
            job = {"tensor": after[0], "pipeline": after[1], "ranks": after[0] * after[1] * after[2]}
            kept = [b for b in blobs if same or not b["name"].startswith("rng_state")]
            counts = {file: len(ranks) for file, ranks in readers.items()}
            cases.append({"saved": list(before), **job, "chunks": chunks, "blobs": kept, "readers": counts})
    json.dump({"torch": torch.__version__.split("+")[0], "cases": cases}, sys.stdout, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()
