"""Checkpoints read and written beside torch, safetensors and hdfs-native: on a real cluster, over a delayed link, with slow DataNodes.

README.md says how each row is measured. Run from the repository's root: `python -m benchmarks.checkpoint`, or
`make bench-checkpoint`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict

from benchmarks import run
from benchmarks.checkpoint import nodes, readers, saves
from benchmarks.checkpoint.ground import BIN, MIB, PEERS, ROOT, Ground

SECTIONS: dict[str, Callable[[Ground], Iterator[run.Row]]] = {
    "link": readers.link,
    "ranks": readers.ranks,
    "memory": readers.memory,
    "local": readers.local,
    "header": readers.header,
    "nodes": nodes.measure,
    "save": saves.measure,
    "baseline": readers.baseline,
}


def build() -> None:
    BIN.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["go", "build", "-o", f"{BIN}/", "./internal/hdfstest/minihdfs", "./benchmarks/checkpoint"],
        cwd=ROOT,
        check=True,
    )


def measure(rounds: int, size: int, only: list[str]) -> Iterator[run.Row]:
    build()
    with tempfile.TemporaryDirectory(prefix="bench-checkpoint-") as folder, contextlib.ExitStack() as ends:
        ground = Ground(pathlib.Path(folder), rounds, size, ends)
        sections = [name for name in SECTIONS if not only or name in only]
        for name in sections:
            print(f"checkpoint: {name}", file=sys.stderr, flush=True)
            if name == "save" and "baseline" in sections:
                readers.start_baseline(ground)  # meanwhile: saves wait for DataNodes, and it waits for its link
            yield from SECTIONS[name](ground)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("only", nargs="*", help=f"{', '.join(SECTIONS)} (default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=1024, help="MiB of a checkpoint")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    args = parser.parse_args()
    if unknown := set(args.only) - set(SECTIONS):
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    if not PEERS.exists():
        parser.error(f"no {PEERS.relative_to(ROOT)}: run internal/setup/peers.sh hdfs")
    rows = []
    for row in measure(args.rounds, args.size * MIB, args.only):
        rows.append(row)
        if not args.json:
            print(run.show(row), flush=True)
    if args.json:
        print(json.dumps({"rows": [asdict(row) for row in rows]}))
    return 0


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
