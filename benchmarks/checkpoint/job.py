"""Jobs of several ranks on this host: each line of standard input is a task that so many new processes do at the same time.

It runs in build/peers-hdfs. Ranks are forked from a process that has imported torch and nothing of ours.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import pathlib
import sys
import time
import traceback
import warnings
from typing import Any

import numpy
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

Task = dict[str, Any]

PIECE = 16 << 20  # of a tensor that is saved
READ_COMMON = 64
COMMON_ELEMENTS = 256 << 10


def saved_state(task: Task, rank: int) -> dict[str, Any]:
    """What a rank saves: tensors of its own."""
    share = task["bytes"] // task["ranks"]
    make = numpy.random.default_rng(100 + rank)
    return {
        f"rank{rank}.{i}": torch.frombuffer(bytearray(make.bytes(min(PIECE, share - at))), dtype=torch.uint8)
        for i, at in enumerate(range(0, share, PIECE))
    }


def empty_like(state: dict[str, Any]) -> dict[str, Any]:
    return {name: torch.zeros_like(value) for name, value in state.items()}


def common_state() -> dict[str, Any]:
    tensors = {f"common.{i:02}": torch.zeros(COMMON_ELEMENTS, dtype=torch.bfloat16) for i in range(READ_COMMON)}
    return {"args": {}, **tensors}


def writer(task: Task) -> Any:
    if task["as"] == "stepahead":
        from stepahead import checkpoint

        return checkpoint.Writer(task["url"])
    import native
    from torch.distributed.checkpoint.fsspec_filesystem import FsspecWriter

    native.register()
    return FsspecWriter(task["url"], sync_files=False, thread_count=task.get("threads", 1))


def reader(task: Task) -> Any:
    if task["as"] == "stepahead":
        from stepahead import checkpoint

        return checkpoint.Reader(task["url"])
    import native
    from torch.distributed.checkpoint.fsspec_filesystem import FsspecReader

    native.register(ahead=task["do"] != "common")
    return FsspecReader(task["url"])


def digest(state: dict[str, Any]) -> str:
    h = hashlib.sha256()
    for name in sorted(state):
        value = state[name]
        h.update(value.view(torch.uint8).numpy() if isinstance(value, torch.Tensor) else repr(value).encode())
    return h.hexdigest()


def together() -> None:
    if dist.is_initialized():
        dist.barrier()


def work(task: Task, rank: int) -> dict[str, Any]:
    """Save, load what was saved, or load what is common to all ranks; the digest is of what was saved or loaded."""
    state = common_state() if task["do"] == "common" else saved_state(task, rank)
    if task["do"] == "load":
        state = empty_like(state)
    storage = writer(task) if task["do"] == "save" else reader(task)
    together()
    begin, cpu = time.perf_counter(), time.process_time()
    if task["do"] == "save":
        dcp.save(state, storage_writer=storage)
    else:
        dcp.load(state, storage_reader=storage)
    cpu = time.process_time() - cpu
    together()
    wall = time.perf_counter() - begin
    return {"wall": wall, "cpu": cpu, "sha256": digest(state)}


def rank(task: Task, number: int, meet: str, results: Any) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    ranks = task["ranks"]
    names = {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
    os.environ.update({name: str(value) for name, value in names.items()})
    try:
        if ranks > 1:
            dist.init_process_group("gloo", init_method=f"file://{meet}", rank=number, world_size=ranks)
        result = work(task, number)
        if ranks > 1:
            dist.destroy_process_group()
        results.put((number, result))
    except BaseException:
        results.put((number, {"error": traceback.format_exc()}))


def run(context: Any, task: Task, meet: pathlib.Path) -> dict[str, Any]:
    meet.unlink(missing_ok=True)
    results = context.SimpleQueue()
    ranks = [context.Process(target=rank, args=(task, i, str(meet), results)) for i in range(task["ranks"])]
    for process in ranks:
        process.start()
    found: dict[int, dict[str, Any]] = {}
    while len(found) < len(ranks):
        number, result = results.get()
        if "error" in result:
            for process in ranks:
                process.kill()
            raise RuntimeError(f"rank {number}: {result['error']}")
        found[number] = result
    for process in ranks:
        process.join()
    return {
        "wall": max(r["wall"] for r in found.values()),
        "cpu": sum(r["cpu"] for r in found.values()),
        "sha256": [found[i]["sha256"] for i in range(len(ranks))],
    }


def main() -> int:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["job", "torch.distributed.checkpoint.fsspec_filesystem"])
    meet = pathlib.Path(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(run(context, json.loads(line), meet)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
