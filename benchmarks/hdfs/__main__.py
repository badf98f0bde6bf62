"""Clients of HDFS side by side on a real cluster of nine DataNodes on this machine.

README.md says how each row is measured. Run from the repository's root: `python -m benchmarks.hdfs`, or `make bench-hdfs`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from benchmarks import run
from benchmarks.processes import Process, Result, Results, race

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "internal" / "hdfstest" / "minihdfs"))
from minihdfs import MiniHdfs

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
BIN = ROOT / "build" / "bench-hdfs"
PEERS = ROOT / "build" / "peers-hdfs" / "bin" / "python"

KIB, MIB = 1 << 10, 1 << 20
FOLDER = "/bench"
LARGE = f"{FOLDER}/large"
FILES = [f"{FOLDER}/file{i:02}" for i in range(20)]
FILE = 16 * MIB
DATANODES = 9
READERS = 24

TITLES = {
    "stepahead": "stepahead",
    "bare": "socket + CRC32C",
    "native": "hdfs-native",
    "colinmarc": "colinmarc/hdfs",
    "java": "Hadoop's own client",
}


def put(cluster: MiniHdfs, path: str, local: pathlib.Path, replication: int, block: int) -> None:
    cluster.do("put", path=path, local=str(local), replication=replication, blockSize=block, user="hdfs")


def racer(name: str, cluster: MiniHdfs, work: pathlib.Path) -> Process:
    env = {**os.environ, **cluster.environment()}
    commands = {
        "native": [str(PEERS), str(HERE / "native.py"), "--url", cluster.url],
        "java": [
            "java",
            "-Xmx1g",
            "-cp",
            cluster.class_path,
            str(HERE / "HadoopReader.java"),
            cluster.url,
            cluster.conf,
        ],
    }
    go = [str(BIN / "hdfs"), "-as", name, "-url", cluster.url, "-conf", cluster.conf]
    return Process(name, commands.get(name, go), work / f"{name}.log", env)


@contextlib.contextmanager
def contest(work: pathlib.Path, names: list[str], **settings: str) -> Iterator[tuple[MiniHdfs, dict[str, Process]]]:
    """A cluster and the clients that race on it; one that cannot start is named and left out."""
    options = [f"--datanodes={DATANODES}", *(f"--set={key}={value}" for key, value in settings.items())]
    cluster = MiniHdfs(BIN / "minihdfs", *options, log=work / "cluster.log")
    racers: dict[str, Process] = {}
    try:
        for name in names:
            try:
                racers[name] = racer(name, cluster, work)
            except OSError as error:
                print(f"hdfs: NOT MEASURED: {TITLES[name]}: {error}", file=sys.stderr, flush=True)
        yield cluster, racers
    finally:
        for process in racers.values():
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                process.end()
        with contextlib.suppress(OSError):
            cluster.close()


def extents(seed: int, count: int, size: int) -> list[dict[str, Any]]:
    """Random ranges of the files."""
    choose = random.Random(seed)
    return [{"path": choose.choice(FILES), "off": choose.randrange(FILE - size), "len": size} for _ in range(count)]


def gate(racers: dict[str, Process]) -> None:
    """Before any speed: all give the same bytes."""
    ranges = extents(0, 50, 64 * KIB)
    found = {name: r.ask({"do": "digest", "ranges": ranges})["sha256"] for name, r in racers.items() if name != "bare"}
    if len(set(found.values())) != 1:
        print(f"hdfs: not the same bytes: {found}", file=sys.stderr)
        raise SystemExit(run.WRONG)


def ratios(results: Results, of: str, to: str, key: str) -> list[float]:
    return [a[key] / b[key] for a, b in zip(results[of], results[to], strict=True)]


def shown(
    results: Results, figure: Callable[[Result], float], unit: str, without: tuple[str, ...] = ("stepahead",)
) -> str:
    """The medians of all but some, and who is missing."""
    parts = [
        f"{TITLES[name]} {statistics.median(map(figure, of)):.3g} {unit}"
        for name, of in results.items()
        if name not in without
    ]
    return ", ".join(parts)


def bound(
    name: str, bar: float, values: list[float], unit: str, peer: str, least: bool = False, also: bool = True
) -> run.Row:
    low, median, high = run.quartiles(values)
    met = median >= bar if least else median <= bar
    return run.Row(
        name, f"{'>=' if least else '<='} {bar:g} {unit}".rstrip(), median, (low, high), unit, peer, met and also
    )


def ahead(name: str, results: Results, figure: Callable[[Result], float], more: bool, unit: str) -> run.Row:
    """Ours against hdfs-native, round by round, as how many times better."""
    if "native" not in results:
        return run.Row(name, "> 1 x", 0, None, "x", "NOT MEASURED: hdfs-native", False)
    pairs = zip(map(figure, results["stepahead"]), map(figure, results["native"]), strict=True)
    values = [a / b if more else b / a for a, b in pairs]
    low, median, high = run.quartiles(values)
    own = statistics.median(map(figure, results["stepahead"]))
    peer = f"stepahead {own:.3g} {unit}; {shown(results, figure, unit)}"
    return run.Row(name, "> 1 x", median, (low, high), "x", peer, median > 1)


def stream(racers: dict[str, Process], rounds: int, size: int) -> Iterator[run.Row]:
    results = race(racers, list(TITLES), rounds, lambda _: {"do": "stream", "path": LARGE, "step": 8 * MIB})

    def cost(r: Result) -> float:
        return float(r["cpu"] / size * 1e9)

    own = statistics.median(map(cost, results["stepahead"]))
    peers = [statistics.median(map(cost, results[name])) for name in ("native", "java") if name in results]
    peer = f"stepahead {own:.3g} s/GB; {shown(results, cost, 's/GB')}"
    yield bound(
        "one stream, client CPU / socket + CRC32C", 1.4, ratios(results, "stepahead", "bare", "cpu"), "x", peer,
        also=len(peers) == 2 and own < min(peers),
    )  # fmt: skip


def many(racers: dict[str, Process], rounds: int) -> Iterator[run.Row]:
    names = ["stepahead", "native", "colinmarc", "java"]
    count, size = 500, 64 * KIB
    results = race(racers, names, rounds, lambda i: {"do": "many", "ranges": extents(i, count, size), "at_once": 8})
    walls = shown(results, lambda r: float(r["wall"] * 1e3), "ms", ())
    yield bound(
        "500 reads of 64 KiB, 20 files, wall: colinmarc / ours", 2, ratios(results, "colinmarc", "stepahead", "wall"),
        "x", walls, least=True,
    )  # fmt: skip
    ours = results["stepahead"]
    go = {name: results[name] for name in ("stepahead", "colinmarc")}
    peer = shown(go, lambda r: float(r["wire"] / r["bytes"]), "x")
    yield bound("500 reads, bytes on the wire / asked", 2, [r["wire"] / r["bytes"] for r in ours], "x", peer)
    peer = shown(go, lambda r: float(r["most_connections"]), "")
    yield bound("500 reads, connections opened to one DataNode", 8, [r["most_connections"] for r in ours], "", peer)


def scattered(racers: dict[str, Process], rounds: int) -> Iterator[run.Row]:
    names = ["stepahead", "native", "java"]
    count = 2000
    results = race(
        racers, names, rounds, lambda i: {"do": "ranges", "ranges": extents(1000 + i, count, 16 * KIB), "at_once": 32}
    )

    def quantile(q: float) -> Callable[[Result], float]:
        return lambda r: float(sorted(r["millis"])[int(q * (count - 1))])

    title = f"{count * rounds:,} reads of 16 KiB, 32 at a time"
    yield ahead(f"{title}: reads/s", results, lambda r: count / float(r["wall"]), True, "/s")
    yield ahead(f"{title}: p50", results, quantile(0.5), False, "ms")
    yield ahead(f"{title}: p99", results, quantile(0.99), False, "ms")
    calls = [float(r["calls"]) for r in results["stepahead"]]
    yield bound(f"NameNode calls in {count:,} such reads", 0, calls, "", "")


def memory(cluster: MiniHdfs, work: pathlib.Path, rounds: int) -> Iterator[run.Row]:
    values = []
    for _ in range(rounds):  # a process each: what it keeps from before would hide growth
        process = racer("stepahead", cluster, work)
        answer = process.ask({"do": "memory", "path": LARGE, "step": MIB, "count": 64})
        process.end()
        values.append(answer["peak"] / MIB)
    yield bound("64 reads in flight, memory beyond the buffers", 64, values, "MiB", "")


def spread(work: pathlib.Path, data: pathlib.Path, rounds: int) -> Iterator[run.Row]:
    """Readers of one block whose DataNodes are throttled: the last one waits for the busiest DataNode."""
    task = {"do": "readers", "path": LARGE, "step": 8 * MIB, "count": READERS}
    names = ["stepahead", "bare", "native", "colinmarc", "java"]
    throttle = {"dfs.datanode.data.read.bandwidthPerSec": "20m"}
    with contest(work, names, **throttle) as (cluster, racers):
        put(cluster, LARGE, data, DATANODES, 64 * MIB)
        results: Results = {name: [] for name in ("stepahead", "bare")}
        for i in range(rounds):
            for name in list(results)[:: 1 if i % 2 else -1]:
                results[name].append(racers[name].ask(task))
        for name in names[2:]:
            if name in racers:
                results[name] = [racers[name].ask(task)]
    own = statistics.median(r["wall"] for r in results["stepahead"])
    peer = f"stepahead {own:.3g} s; {shown(results, lambda r: float(r['wall']), 's')} (peers once)"
    yield bound(
        f"{READERS} readers, one block, {DATANODES} throttled DataNodes, last reader / even spread", 1.1,
        ratios(results, "stepahead", "bare", "wall"), "x", peer,
    )  # fmt: skip


def make(path: pathlib.Path, size: int) -> pathlib.Path:
    with path.open("wb") as out:
        for _ in range(0, size, 64 * MIB):
            out.write(random.randbytes(min(size, 64 * MIB)))
    return path


def build() -> None:
    BIN.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["go", "build", "-o", f"{BIN}/", "./internal/hdfstest/minihdfs", "./benchmarks/hdfs"], cwd=ROOT, check=True
    )


def measure(rounds: int, size: int, only: list[str]) -> Iterator[run.Row]:
    build()
    with tempfile.TemporaryDirectory(prefix="bench-hdfs-") as folder:
        work = pathlib.Path(folder)
        if not only or set(only) - {"spread"}:
            with contest(work, list(TITLES)) as (cluster, racers):
                put(cluster, LARGE, make(work / "large", size), 1, 128 * MIB)
                small = make(work / "small", FILE)
                for path in FILES:
                    put(cluster, path, small, 3, 4 * MIB)
                gate(racers)
                parts: dict[str, Callable[[], Iterator[run.Row]]] = {
                    "stream": lambda: stream(racers, rounds, size),
                    "many": lambda: many(racers, rounds),
                    "scattered": lambda: scattered(racers, rounds),
                    "memory": lambda: memory(cluster, work, rounds),
                }
                for name, part in parts.items():
                    if not only or name in only:
                        print(f"hdfs: {name}", file=sys.stderr, flush=True)
                        yield from part()
        if not only or "spread" in only:
            print("hdfs: spread", file=sys.stderr, flush=True)
            yield from spread(work, make(work / "block", 64 * MIB), rounds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("only", nargs="*", help="stream, many, scattered, memory, spread (default: all)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=1024, help="MiB of the large file")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    args = parser.parse_args()
    rows = []
    for row in measure(args.rounds, args.size * MIB, args.only):
        rows.append(row)
        if not args.json:
            print(run.show(row), flush=True)
    if args.json:
        print(json.dumps({"rows": [asdict(row) for row in rows]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
