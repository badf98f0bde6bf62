"""Fields that are no pictures, from tar files to Python's `bytes`: this loader beside WebDataset.

    python -m benchmarks.loader.stored [--rounds N] [--sizes 4000000 100000]

README.md says how it is measured.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator

from benchmarks import run
from benchmarks.loader import tree

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEERS = ROOT / "build" / "peers" / "bin" / "python"
SHARDS = 4
TOTAL = 1_000_000_000  # bytes of all parts
WARM_UP = 160_000_000  # bytes before the clock starts

Parts = Iterator[bytes]


def stepahead(folder: pathlib.Path, size: int) -> Parts:
    """Shuffled, as by default."""
    import stepahead

    with stepahead.DataLoader(folder / "dataset", batch_size=size, fields=["bin"], seed=1) as loader:
        while True:
            for batch in loader:
                yield from batch["bin"]


def webdataset(folder: pathlib.Path, size: int) -> Parts:
    """In this process, in the order of the files."""
    import webdataset as wds

    tars = [str(p) for p in sorted(folder.glob("*.tar"))]
    for (parts,) in wds.WebDataset(tars, shardshuffle=False).repeat().to_tuple("bin").batched(size):
        yield from parts


CONTESTANTS: dict[str, Callable[[pathlib.Path, int], Parts]] = {"stepahead": stepahead, "webdataset": webdataset}
BATCHES = [1, 8]


def write(folder: pathlib.Path, size: int) -> None:
    """Shards of random bytes, and a dataset that points into them."""
    noise = random.Random(1).randbytes(size)
    for shard in range(SHARDS):
        with tarfile.open(folder / f"{shard}.tar", "w") as tar:
            for sample in range(TOTAL // size // SHARDS):
                info = tarfile.TarInfo(f"{shard}-{sample:06d}.bin")
                info.size = size
                tar.addfile(info, io.BytesIO(noise))
    program = ROOT / "bin" / "stepahead"
    subprocess.run([program, "index", folder, "-o", folder / "dataset"], check=True, stdout=subprocess.DEVNULL)


def measure(name: str, folder: pathlib.Path, batch: int, size: int) -> None:
    """Print what reading the parts cost, in a process of its own. It goes on behind them, so that the same work is under way at both ends."""
    pid, seen = os.getpid(), 0
    start, began, at_start = 0.0, 0.0, 0
    for part in CONTESTANTS[name](folder, batch):
        if len(part) != size:
            raise SystemExit(run.WRONG)
        seen += size
        if not at_start and seen >= WARM_UP:
            at_start, start, began = seen, time.perf_counter(), tree.cpu(pid)
        if seen >= WARM_UP + TOTAL:
            break
    took, cost = time.perf_counter() - start, tree.cpu(pid) - began
    gigabytes = (seen - at_start) / 1e9
    print(json.dumps({"mb_per_s": 1000 * gigabytes / took, "cpu_s_per_gb": cost / gigabytes}), flush=True)


def child(name: str, folder: pathlib.Path, batch: int, size: int) -> dict[str, float]:
    python = sys.executable if name == "stepahead" or not PEERS.exists() else str(PEERS)
    command = [python, "-m", "benchmarks.loader.stored", "--child", name, str(folder), str(batch)]
    said: dict[str, float] = json.loads(run.output(*command, "--sizes", str(size)))
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[4_000_000, 100_000], help="bytes of a part")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        name, folder, batch = args.child
        measure(name, pathlib.Path(folder), int(batch), args.sizes[0])
        return 0
    for size in args.sizes:
        with tempfile.TemporaryDirectory() as work:
            write(pathlib.Path(work), size)
            results: dict[tuple[str, int], list[dict[str, float]]] = {(n, b): [] for n in CONTESTANTS for b in BATCHES}
            for _ in range(args.rounds):
                for (name, batch), of in results.items():
                    of.append(child(name, pathlib.Path(work), batch, size))
        for (name, batch), of in results.items():
            low, median, high = run.quartiles([r["mb_per_s"] for r in of])
            cost = run.quartiles([r["cpu_s_per_gb"] for r in of])[1]
            who = f"{name}, batches of {batch}"
            print(f"parts of {size:,} bytes, {who}: {median:,.0f} ({low:,.0f}-{high:,.0f}) MB/s, {cost:.2f} CPU s/GB")
    return 0


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
