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
from typing import Any

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
    command = [ROOT / "bin" / "stepahead", "index", folder, "-o", dataset, "--json"]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    said: dict[str, Any] = json.loads(result.stdout)
    return said


def case(label: str, size: int, samples: int, bar: float) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work) / "shards"
        folder.mkdir()
        write(folder, size, samples)
        ours, once = [], []
        for round_ in range(ROUNDS):
            once.append(scan(folder))
            said = index(folder, pathlib.Path(work) / f"dataset-{round_}")
            if said["samples"] != SHARDS * samples:
                raise SystemExit(3)
            ours.append(said["seconds"])
    share = said["read"] / said["bytes"]
    name = f"index, WebDataset tar, members of {label}"
    seconds = statistics.quantiles(ours, n=4, method="inclusive")
    return [
        row(f"{name}: bytes read of the files' bytes", f"<= {bar:g}", share, None, "", "", share <= bar),
        row(
            f"{name}: {SHARDS} shards at once",
            "none",
            seconds[1],
            (seconds[0], seconds[2]),
            "s",
            f"reading the {said['bytes'] >> 20} MiB once {statistics.median(once):.3f} s",
            True,
        ),
    ]


def tokens() -> list[dict[str, Any]]:
    """Opening, and checking, an .idx of 10 million documents: Go benchmarks of the package that reads it."""
    command = ["go", "test", "-run", "^$", "-bench", "Tokens$", "-benchtime", "10x", "-count", str(ROUNDS), "./binfmt"]
    text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = []
    for kind, bar in (("Open", 50.0), ("Check", None)):
        ms = [
            float(v) / 1e6 for v in re.findall(rf"^Benchmark{kind}Tokens\S*\s+\d+\s+([\d.]+) ns/op", text, re.MULTILINE)
        ]
        low, median, high = statistics.quantiles(ms, n=4, method="inclusive")
        name = f"Megatron .idx of 10^7 documents, {kind.lower()}"
        met = bar is None or median <= bar
        rows.append(row(name, f"<= {bar:g} ms" if bar else "none", median, (low, high), "ms", "", met))
    return rows


def row(name: str, bar: str, median: float, spread: tuple[float, float] | None, unit: str, peer: str, met: bool) -> Any:
    return {"row": name, "bar": bar, "median": median, "spread": spread, "unit": unit, "peer": peer, "met": met}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    args = parser.parse_args()
    rows = [r for c in CASES for r in case(*c)] + tokens()
    if args.json:
        print(json.dumps({"rows": rows}))
    else:
        for r in rows:
            print(f"{r['row']}: {r['median']:.4f} {r['unit']} ({r['bar']}) {r['peer']}")
    return 0 if all(r["met"] for r in rows) else 1


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
