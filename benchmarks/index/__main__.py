"""What `stepahead index` reads of WebDataset shards, how long it takes beside reading the files once, and opening a Megatron .idx.

    python -m benchmarks.index [--json]

README.md says how it is measured.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import asdict
from typing import Any

from benchmarks.run import WRONG, Row, at_most, quartiles, show

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARDS = 4
ROUNDS = 5
# members of this size, so many a shard, and the bar: bytes read of the files' bytes
CASES = [("1 MiB", 1 << 20, 64, 0.01), ("100 KB", 100_000, 640, 1.1)]


def write(folder: pathlib.Path, size: int, samples: int) -> None:
    """Shards of pictures that are none, each with a class."""
    noise = random.Random(1).randbytes(size)
    for shard in range(SHARDS):
        with tarfile.open(folder / f"{shard:04d}.tar", "w") as tar:
            for sample in range(samples):
                for name, data in (("jpg", noise), ("cls", b"7")):
                    info = tarfile.TarInfo(f"{shard:04d}-{sample:06d}.{name}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))


def scan(folder: pathlib.Path) -> float:
    """Seconds for reading the shards once, from start to end, in pieces of 4 MiB."""
    start = time.perf_counter()
    for path in sorted(folder.glob("*.tar")):
        with open(path, "rb", buffering=0) as f:
            while f.read(4 << 20):
                pass
    return time.perf_counter() - start


def index(folder: pathlib.Path, dataset: pathlib.Path) -> dict[str, Any]:
    command = [str(ROOT / "bin" / "stepahead"), "index", str(folder), "-o", str(dataset), "--json"]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    said: dict[str, Any] = json.loads(result.stdout)
    return said


def case(label: str, size: int, samples: int, bar: float) -> list[Row]:
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work) / "shards"
        folder.mkdir()
        write(folder, size, samples)
        ours, once = [], []
        for round_ in range(ROUNDS):
            once.append(scan(folder))
            said = index(folder, pathlib.Path(work) / f"dataset-{round_}")
            if said["samples"] != SHARDS * samples:
                raise SystemExit(WRONG)
            ours.append(said["seconds"])
    share = said["read"] / said["bytes"]
    name = f"index, WebDataset tar, members of {label}"
    low, median, high = quartiles(ours)
    peer = f"reading the {said['bytes'] >> 20} MiB once {statistics.median(once):.3f} s"
    return [
        Row(f"{name}: bytes read of the files' bytes", f"<= {bar:g}", share, None, "", "", share <= bar),
        Row(f"{name}: {SHARDS} shards at once", "none", median, (low, high), "s", peer, True),
    ]


def tokens() -> list[Row]:
    """Opening, and checking, an .idx of 10 million documents: Go benchmarks of the package that reads it."""
    command = ["go", "test", "-run", "^$", "-bench", "Tokens$", "-benchtime", "10x", "-count", str(ROUNDS), "./binfmt"]
    text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout

    def milliseconds(kind: str) -> list[float]:
        lines = re.findall(rf"^Benchmark{kind}Tokens\S*\s+\d+\s+([\d.]+) ns/op", text, re.MULTILINE)
        return quartiles([float(v) / 1e6 for v in lines])

    low, median, high = milliseconds("Check")
    return [
        at_most("Megatron .idx of 10^7 documents, open", 50, milliseconds("Open"), "ms"),
        Row("Megatron .idx of 10^7 documents, check", "none", median, (low, high), "ms", "", True),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    args = parser.parse_args()
    rows = [r for c in CASES for r in case(*c)] + tokens()
    if args.json:
        print(json.dumps({"rows": [asdict(r) for r in rows]}))
    else:
        print("\n".join(map(show, rows)))
    return 0 if all(r.met for r in rows) else 1


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
