"""A job starts, and all its ranks read one file: from its three replicas by chance, and as the controller prepared it.

README.md says how each row is measured. Run from the repository's root: `python -m benchmarks.start`, or `make bench-start`.
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
import time
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from benchmarks import run
from benchmarks.controller import Controller
from benchmarks.processes import Process

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "internal" / "hdfstest" / "minihdfs"))
from minihdfs import MiniHdfs

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
BIN = ROOT / "build" / "bench-start"
MIB = 1 << 20
DATANODES = 9
RATE = 20 * MIB  # bytes a second that each DataNode reads for all its readers
SIZE = 64 * MIB
HOT = "/bench/hot"
RANKS_PER_HOST = 8
READERS_PER_SOURCE = 2


@dataclass(frozen=True)
class Way:
    """One way for all ranks to read the file."""

    title: str
    chosen: bool = False  # readers know who reads where
    sources: bool = False  # and use what the controller made
    shared: bool = False  # the ranks of a host read once


WAYS = {
    "chance": Way("3 replicas, by chance (Hadoop's client)"),
    "even": Way("3 replicas, even choice", chosen=True),
    "sources": Way("9 sources, by chance", sources=True),
    "ours": Way("9 sources, even choice", chosen=True, sources=True),
    "host": Way(f"9 sources, even choice, {RANKS_PER_HOST} ranks of a host read once", True, True, True),
}


@dataclass
class Round:
    """What all readers took, in seconds, from the moment at which they were told to begin."""

    walls: list[float]

    @property
    def last(self) -> float:
        return max(self.walls)


class Ground:
    """The cluster with the hot file, and those who read it."""

    def __init__(self, cluster: MiniHdfs, work: pathlib.Path, memory: pathlib.Path, crc: int) -> None:
        self.cluster, self.work, self.memory, self.crc = cluster, work, memory, crc
        self.env = {**os.environ, **cluster.environment()}
        self.daemons = {**os.environ, **cluster.environment("hdfs")}  # of the cluster's operators

    def located(self) -> list[list[int]]:
        """The nodes of each block of the file."""
        return [sorted(block["nodes"]) for block in self.cluster.do("locations", path=HOT)]

    def race(self, name: str, readers: int, turn: int) -> Round:
        return self.hadoop(readers) if name == "chance" else self.ours(WAYS[name], readers, turn)

    def ours(self, way: Way, readers: int, turn: int) -> Round:
        """A process each, as ranks are."""
        with contextlib.ExitStack() as ends:
            chance = random.Random(turn)
            ranks = [self.rank(way, i, readers, turn, chance) for i in range(readers)]
            for rank in ranks:
                ends.callback(rank.end)
            begin = time.monotonic()
            for rank in ranks:
                rank.send({"path": HOT})
            walls = []
            for rank in ranks:
                answer = rank.read()
                if answer["crc32"] != self.crc or answer["bytes"] != SIZE:
                    print(f"start: not the same bytes: {way.title}: {answer}", file=sys.stderr)
                    raise SystemExit(run.WRONG)
                walls.append(answer["ended"] - begin)
        return Round(walls)

    def rank(self, way: Way, i: int, readers: int, turn: int, chance: random.Random) -> Process:
        place = i if way.chosen else chance.randrange(1 << 30)
        if way.shared:
            place, readers = i // RANKS_PER_HOST, readers // RANKS_PER_HOST
        command = [str(BIN / "start"), "-url", self.cluster.url, "-conf", self.cluster.conf, "-user", self.cluster.user]
        command += ["-rank", str(place), "-world", str(readers)]
        if way.sources:
            command.append("-catalogue")
        if way.shared:
            command += ["-host", str(self.memory / f"host-{turn}-{readers}-{place}")]
        return Process(f"rank {i}", command, self.work / f"rank{i}.log", self.env)

    def hadoop(self, readers: int) -> Round:
        """Hadoop's own client, as many as there are readers, in one process."""
        source = ROOT / "benchmarks" / "hdfs" / "HadoopReader.java"
        command = ["java", "-Xmx1g", "-cp", self.cluster.class_path, str(source), self.cluster.url, self.cluster.conf]
        java = Process("Hadoop's client", command, self.work / "java.log", self.env)
        try:
            java.ask({"do": "readers", "path": "/bench/small", "step": MIB, "count": 1})  # its classes are loaded
            answer = java.ask({"do": "readers", "path": HOT, "step": MIB, "count": readers})
        finally:
            java.end()
        if answer["bytes"] != readers * SIZE:
            print(f"start: Hadoop's client read {answer['bytes']} bytes of {readers * SIZE}", file=sys.stderr)
            raise SystemExit(run.WRONG)
        return Round([answer["wall"]])


def row(name: str, bar: str, values: list[float], unit: str, peer: str, met: bool) -> run.Row:
    low, median, high = run.quartiles(values)
    return run.Row(name, bar, median, (low, high), unit, peer, met)


def rows(readers: int, rounds: dict[str, list[Round]]) -> Iterator[run.Row]:
    """Each round's last reader against that of the same round by chance; in per cent, less is better."""
    last = {name: [r.last for r in all] for name, all in rounds.items()}
    seconds = {name: statistics.median(all) for name, all in last.items()}
    peer = "; ".join(f"{WAYS[name].title}: {value:.3g} s" for name, value in seconds.items())

    def saved(name: str, than: str = "chance") -> list[float]:
        return [100 * (a / b - 1) for a, b in zip(last[name], last[than], strict=True)]

    title = f"start, {readers} readers of one block of 64 MiB, last reader"
    ours = saved("ours")
    yield row(title, "<= -65 %", ours, "%", peer, statistics.median(ours) <= -65)
    for name, share in {"even": "even choice alone", "sources": "sources alone"}.items():
        yield row(f"{title}: {share}", "none", saved(name), "%", f"{seconds[name]:.3g} s", True)
    host = saved("host", "ours")
    yield row(f"{title}: one read a host, on top", "none", host, "%", f"{seconds['host']:.3g} s", True)
    spread = max(last["ours"]) / min(last["ours"])
    text = ", ".join(f"{value:.3g}" for value in last["ours"])
    even = len(last["ours"]) > 1 and spread <= 1.1  # one round says nothing of it
    yield run.Row(f"{title}: slowest round / fastest", "<= 1.1 x", spread, None, "x", f"{text} s", even)


def plot(all: dict[int, dict[str, list[Round]]], to: pathlib.Path) -> None:
    """How many readers have the file, over time; the middle round of each way."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(all), figsize=(6 * len(all), 4.2), layout="constrained", squeeze=False)
    for axis, (readers, rounds) in zip(axes[0], all.items(), strict=True):
        for name, of in rounds.items():
            middle = sorted(of, key=lambda r: r.last)[len(of) // 2]
            if len(middle.walls) == 1:
                axis.axvline(middle.last, color="black", linestyle="--", label=WAYS[name].title)
            else:
                walls = sorted(middle.walls)
                axis.step([0, *walls], range(len(walls) + 1), where="post", label=WAYS[name].title)
        axis.set(title=f"{readers} readers", xlabel="seconds", ylabel="readers that have the file", ylim=(0, None))
        axis.legend(fontsize=7)
    figure.savefig(to)
    pyplot.close(figure)


def build() -> None:
    BIN.mkdir(parents=True, exist_ok=True)
    packages = [
        "./internal/hdfstest/minihdfs",
        "./benchmarks/start",
        "./cmd/stepahead",
        "./cmd/stepahead-controller",
        "./cmd/stepahead-agent",
        "./cmd/stepahead-worker",  # beside the agent
    ]
    subprocess.run(["go", "build", "-o", f"{BIN}/", *packages], cwd=ROOT, check=True)


def measure(counts: dict[int, int], ways: list[str], picture: pathlib.Path | None) -> Iterator[run.Row]:
    build()
    with tempfile.TemporaryDirectory(prefix="bench-start-") as folder, contextlib.ExitStack() as ends:
        work = pathlib.Path(folder)
        capacities = [
            (8 << 30) + 256 * MIB * i for i in (3, 7, 1, 8, 0, 5, 2, 6, 4)
        ]  # no two nodes have the same free space
        options = [f"--datanodes={DATANODES}", f"--capacities={','.join(map(str, capacities))}"]
        options.append(f"--set=dfs.datanode.data.read.bandwidthPerSec={RATE}")
        cluster = MiniHdfs(BIN / "minihdfs", *options, log=work / "cluster.log")
        ends.callback(cluster.close)
        cluster.do("folder", path="/bench", owner=cluster.user, mode=0o755)
        (work / "hot").write_bytes(random.Random(1).randbytes(SIZE))
        (work / "small").write_bytes(b"small")
        for name, block in {"hot": SIZE, "small": MIB}.items():
            put = {"path": f"/bench/{name}", "local": str(work / name), "replication": 3, "blockSize": block}
            cluster.do("put", user=cluster.user, **put)
        memory = ends.enter_context(tempfile.TemporaryDirectory(prefix="bench-start-", dir="/dev/shm"))
        ground = Ground(cluster, work, pathlib.Path(memory), zlib.crc32((work / "hot").read_bytes()))
        all: dict[int, dict[str, list[Round]]] = {}
        for readers, times in counts.items():
            all[readers] = contest(ground, readers, times, ways)
            yield from rows(readers, all[readers])
        if picture:
            plot(all, picture)


def contest(ground: Ground, readers: int, times: int, ways: list[str]) -> dict[str, list[Round]]:
    """All ways in turn, round by round, while the sources are there; before them and afterwards all is as it was."""
    rounds: dict[str, list[Round]] = {name: [] for name in ways}
    before = ground.located()
    work = ground.work / f"controller-{readers}"
    work.mkdir()
    node = ground.cluster.do("nodes")[0]["uuid"]
    options = [f"--node-rate={RATE}", f"--readers-per-source={READERS_PER_SOURCE}", "--grace=5s"]
    with Controller(BIN, work, f"{ground.cluster.url}/", node, ground.daemons, *options) as controller:
        url = ground.cluster.url + HOT
        controller.say.starting(files={url: readers}, ranks=readers, ranks_per_host=RANKS_PER_HOST, expected_in=60)
        controller.wait(HOT, {"live"})
        for i in range(times):
            turn = i % len(ways)
            for name in ways[turn:] + ways[:turn]:
                rounds[name].append(ground.race(name, readers, i))
                print(f"start: {readers} readers: {name}: {rounds[name][-1].last:.3g} s", file=sys.stderr, flush=True)
        controller.say.ended()
        controller.wait(HOT, set())
        left = controller.left()
    if left or ground.located() != before:
        print(f"start: the controller left something behind: {left or 'the file lies elsewhere'}", file=sys.stderr)
        raise SystemExit(run.WRONG)
    return rounds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--readers", type=int, nargs="*", default=[24, 64])
    parser.add_argument("--ways", nargs="*", default=list(WAYS), help=", ".join(WAYS))
    parser.add_argument("--plot", type=pathlib.Path, help="write a picture here")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    args = parser.parse_args()
    found = []
    for one in measure(dict.fromkeys(args.readers, args.rounds), args.ways, args.plot):
        found.append(one)
        if not args.json:
            print(run.show(one), flush=True)
    if args.json:
        print(json.dumps({"rows": [asdict(one) for one in found]}))
    return 0


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
