"""Measures how long a batch that is ready takes from Go to torch, against torch's own DataLoader and against one copy.

README.md says what it claims. Run from the repository's root: `python -m benchmarks.handover [--json]`.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import stepahead
import torch
from stepahead import transforms as T

from benchmarks.dataset import pack
from benchmarks.run import quartiles

BATCH, CROP = 64, 224
SHAPE = (BATCH, 3, CROP, CROP)
BAR_US = 100.0
# Batches that are built ahead, and of these taken one after the other in a round.
AHEAD, TAKEN = 10, 8
# How long a loader must have been idle to count as done with all that it builds ahead.
IDLE_SECONDS = 0.15
# A batch for which the loader itself waited longer was not ready.
READY_SECONDS = 0.001


class Crops(torch.utils.data.Dataset[torch.Tensor]):
    """Crops that are in memory already, so that torch's loader only has to collate and hand over."""

    def __init__(self) -> None:
        self.crops = torch.randint(0, 256, SHAPE, dtype=torch.uint8)

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, i: int) -> torch.Tensor:
        return self.crops[i % BATCH]


def settle(loader: stepahead.DataLoader) -> None:
    """Wait until the loader has built all that it builds ahead: then its workers use no CPU time."""
    spent, since = -1.0, time.monotonic()
    while time.monotonic() - since < IDLE_SECONDS:
        time.sleep(0.02)
        if (now := loader.worker_cpu_seconds()) != spent:
            spent, since = now, time.monotonic()


def anonymous() -> list[tuple[int, int]]:
    """The ranges of this process's memory with nothing behind them: neither a file nor the heap."""
    lines = (line.split() for line in pathlib.Path("/proc/self/maps").read_text().splitlines())
    ranges = ((int(x, 16) for x in columns[0].split("-")) for columns in lines if len(columns) == 5)
    return [(begin, end) for begin, end in ranges]


def inside(tensor: torch.Tensor, ranges: list[tuple[int, int]]) -> bool:
    begin = tensor.data_ptr()
    return any(a <= begin and begin + tensor.nbytes <= b for a, b in ranges)


def timed(f: Callable[[], Any]) -> tuple[float, Any]:
    """Microseconds that f takes, and what it returns."""
    begin = time.perf_counter()
    result = f()
    return (time.perf_counter() - begin) * 1e6, result


class Ours:
    """stepahead's loader, and whether every batch lay in memory that was mapped before it was asked for."""

    def __init__(self, loader: stepahead.DataLoader) -> None:
        self.loader = loader
        self.batches = itertools.chain.from_iterable(itertools.repeat(loader))  # epoch after epoch
        self.without_copy = True
        next(self.batches)  # building begins with the first

    def round(self) -> list[float]:
        settle(self.loader)
        before = anonymous()
        taken = [self.take(before) for _ in range(TAKEN)]
        return [us for us in taken if us is not None]

    def take(self, before: list[tuple[int, int]]) -> float | None:
        """The time of one next(); None if the batch was not ready after all."""
        taken, batch = timed(lambda: next(self.batches))
        if batch.stats["stall_seconds"] > READY_SECONDS:
            return None
        image = batch["image"]
        channels_last = image.is_contiguous(memory_format=torch.channels_last)
        if tuple(image.shape) != SHAPE or image.dtype != torch.uint8 or not channels_last:
            raise RuntimeError(f"got {image.dtype} {tuple(image.shape)} with strides {image.stride()}")
        self.without_copy &= inside(image, before)
        return taken


def torch_rounds() -> Iterator[list[float]]:
    """The same of torch's DataLoader with a worker process, whose batches are ready after a while."""
    batches = iter(torch.utils.data.DataLoader(Crops(), batch_size=BATCH, num_workers=1, prefetch_factor=AHEAD))
    while True:
        time.sleep(AHEAD * 0.05)
        yield [timed(lambda: next(batches))[0] for _ in range(TAKEN)]


def measure(rounds: int) -> dict[str, Any]:
    """The result as JSON has it: microseconds of each way (quartiles), and whether ours made no copy."""
    plan = T.Compose([T.DecodeImage(), T.RandomResizedCrop(CROP)])
    crops = Crops().crops
    with tempfile.TemporaryDirectory(prefix="stepahead-handover-") as folder:
        dataset = pack(pathlib.Path(folder), pictures=4 * BATCH)
        with stepahead.DataLoader(
            dataset, global_batch=BATCH, transform=plan, rank=0, world_size=1, prefetch=AHEAD, workers=1
        ) as loader:
            ours, worker = Ours(loader), torch_rounds()
            ways: dict[str, Callable[[], list[float]]] = {
                "stepahead": ours.round,
                "torch DataLoader, 1 worker": lambda: next(worker),
                "torch collate": lambda: [
                    timed(lambda: torch.utils.data.default_collate(list(crops)))[0] for _ in range(TAKEN)
                ],
                "one copy": lambda: [timed(crops.clone)[0] for _ in range(TAKEN)],
            }
            taken = interleave(ways, rounds)
            return {
                "bytes": crops.nbytes,
                "without_copy": ours.without_copy,
                "us": {k: [round(q, 1) for q in quartiles(v)] for k, v in taken.items()},
            }


def interleave(ways: dict[str, Callable[[], list[float]]], rounds: int) -> dict[str, list[float]]:
    """Measure each way in turn, so many times after one that does not count. The collector does not run meanwhile."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for i in range(rounds + 1):
        for name, way in ways.items():
            gc.collect()
            gc.disable()
            values = way()
            gc.enable()
            if i > 0:
                taken[name] += values
    return taken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=5, help=f"rounds of {TAKEN} batches of each way, in turn")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    args = parser.parse_args()
    torch.set_num_threads(1)
    result = measure(max(1, args.rounds))
    if args.json:
        print(json.dumps(result))
        return 0
    return show(result)


def show(result: dict[str, Any]) -> int:
    print(f"{BATCH} x 3 x {CROP} x {CROP} uint8, channels_last; torch {torch.__version__}; median (quartiles)\n")
    print("| hand-over | us |\n|---|---|")
    for name, (low, median, high) in result["us"].items():
        print(f"| {name} | {median:,.0f} ({low:,.0f}-{high:,.0f}) |")
    met = result["us"]["stepahead"][1] <= BAR_US and result["without_copy"]
    how = "without a copy" if result["without_copy"] else "COPIED"
    print(f"\nhand-over <= {BAR_US:.0f} us, {how}: {'met' if met else 'missed'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
