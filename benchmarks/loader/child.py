"""Runs one loader in a process of its own and prints, as JSON, what it cost: `python -m benchmarks.loader.child NAME BATCHES`.

torch is imported before anything is measured, because training has it anyway.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any

import torch  # noqa: F401

from benchmarks.loader import contestants, tree

# Batches before the clock starts: what was made ahead while the process started is used up.
WARM_UP = 6


def measure(contestant: contestants.Contestant, batches: int) -> dict[str, Any]:
    pid = os.getpid()
    print(json.dumps({"torch_pss_mb": tree.pss(pid)}), flush=True)
    began, cpu_began = time.perf_counter(), tree.cpu(pid)
    for module in contestant.imports.split():
        importlib.import_module(module)
    imported, cpu_imported = time.perf_counter(), tree.cpu(pid)
    source = contestant.batches()
    check(next(source))
    first, cpu_first = time.perf_counter(), tree.cpu(pid)
    tree.line_up(pid)
    for _ in range(WARM_UP):
        check(next(source))
    start, cpu_start = time.perf_counter(), tree.cpu(pid)
    for _ in range(batches):
        check(next(source))
    end, cpu_end = time.perf_counter(), tree.cpu(pid)
    images = batches * contestants.BATCH
    return {
        "import_s": imported - began,
        "import_cpu_s": cpu_imported - cpu_began,
        "first_s": first - imported,
        "first_cpu_s": cpu_first - cpu_imported,
        "img_per_s": images / (end - start),
        "cpu_s_per_1000": (cpu_end - cpu_start) / images * 1000,
    }


def check(batch: Any) -> None:
    """The gate before any speed: whole batches of uint8 pictures that are not blank."""
    shape = tuple(batch.shape)
    if shape[0] != contestants.BATCH or sorted(shape[1:]) != [3, contestants.SIDE, contestants.SIDE]:
        raise ValueError(f"a batch of shape {shape}")
    if "uint8" not in str(batch.dtype):
        raise ValueError(f"a batch of {batch.dtype}")
    picture = batch[0]
    if int(picture.min()) == int(picture.max()):
        raise ValueError("a blank picture")


def main() -> None:
    print(json.dumps(measure(contestants.ALL[sys.argv[1]], int(sys.argv[2]))), flush=True)
    os._exit(0)  # some loaders do not end by themselves


if __name__ == "__main__":
    main()
