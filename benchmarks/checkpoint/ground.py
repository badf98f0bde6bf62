"""What the rows stand on: checkpoints, clusters and those who race."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks import run
from benchmarks.processes import Process, Result, Results

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "internal" / "hdfstest" / "minihdfs"))
from minihdfs import MiniHdfs

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
BIN = ROOT / "build" / "bench-checkpoint"
PEERS = ROOT / "build" / "peers-hdfs" / "bin" / "python"
FOLDER = "/bench"
KIB, MIB, GB = 1 << 10, 1 << 20, 1e9


class Ground:
    """Things are made when a row first asks for them, and end with the run."""

    def __init__(
        self,
        work: pathlib.Path,
        rounds: int,
        size: int,
        ends: contextlib.ExitStack,
        bin: pathlib.Path = BIN,
        wanted: Sequence[str] = (),
    ) -> None:
        """`bin` has the programs, `wanted` are the checkpoints that data.py makes; none: all."""
        self.work, self.rounds, self.size, self.bin, self._wanted = work, rounds, size, bin, wanted
        self.over_link: dict[str, float] = {}  # seconds that ours took
        self.baseline: dict[str, Process] = {}  # who loads over a link meanwhile
        self._ends = ends

    @functools.cached_property
    def data(self) -> pathlib.Path:
        """The folder of checkpoints that data.py makes."""
        folder = self.work / "data"
        folder.mkdir()
        subprocess.run([PEERS, HERE / "data.py", folder, str(self.size), *self._wanted], check=True)
        return folder

    @functools.cached_property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = json.loads((self.data / "spec.json").read_text())
        return spec

    @functools.cached_property
    def cluster(self) -> MiniHdfs:
        """Three DataNodes, on which the checkpoints lie in one replica and blocks of 32 MiB."""
        cluster = self.start("cluster", 3)
        for name in self.spec["files"]:
            if not name.startswith("header"):
                put(cluster, f"{FOLDER}/{name}", self.data / name, 1, 32 * MIB)
        return cluster

    def start(self, name: str, datanodes: int, **settings: str) -> MiniHdfs:
        """A cluster that ends with the run."""
        options = [f"--datanodes={datanodes}", *(f"--set={key}={value}" for key, value in settings.items())]
        cluster = MiniHdfs(self.bin / "minihdfs", *options, log=self.work / f"{name}.log")
        self._ends.callback(quietly, cluster.close)
        cluster.do("folder", path=FOLDER, owner=cluster.user, mode=0o755)
        return cluster

    def racer(self, name: str, cluster: MiniHdfs | None = None, as_: str = "") -> Process:
        """One who reads; `as_`, where it is not the name, is a name that racer.py knows."""
        env = {**os.environ, **(cluster.environment() if cluster else {})}
        command = [str(PEERS), str(HERE / "racer.py"), as_ or name, str(self.data / "spec.json")]
        return self.process(name, command, env)

    def job(self, name: str, cluster: MiniHdfs) -> Process:
        """A process that starts jobs of several ranks."""
        command = [str(PEERS), str(HERE / "job.py"), str(self.work / f"{name}.meet")]
        return self.process(name, command, {**os.environ, **cluster.environment()})

    def process(self, name: str, command: list[str], env: dict[str, str] | None = None) -> Process:
        process = Process(name, command, self.work / f"{name}.log", env)
        self._ends.callback(quietly, process.end)
        return process


def quietly(end: Callable[[], None]) -> None:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        end()


def put(cluster: MiniHdfs, path: str, local: pathlib.Path, replication: int, block: int) -> None:
    cluster.do("put", path=path, local=str(local), replication=replication, blockSize=block, user="hdfs")


def wrong(what: str) -> SystemExit:
    """What a row raises that finds other bytes than it should: then no figure counts."""
    print(f"checkpoint: not the same bytes: {what}", file=sys.stderr)
    return SystemExit(run.WRONG)


def same(results: dict[str, Any], what: str) -> None:
    """Before any speed: all have the same bytes."""
    if len({json.dumps(result) for result in results.values()}) != 1:
        raise wrong(f"{what}: {results}")


def middle(results: Iterable[Result], figure: Callable[[Result], float]) -> float:
    return statistics.median(map(figure, results))


def wall(result: Result) -> float:
    return float(result["wall"])


def cost(result: Result) -> float:
    """CPU seconds a GB."""
    return float(result["cpu"]) / float(result["bytes"]) * GB


def shown(results: Results, figure: Callable[[Result], float], unit: str) -> str:
    return ", ".join(f"{name} {middle(of, figure):.3g} {unit}" for name, of in results.items() if of)


def row(name: str, bar: str, values: list[float], unit: str, peer: str, met: Callable[[float], bool]) -> run.Row:
    low, median, high = run.quartiles(values)
    return run.Row(name, bar, median, (low, high), unit, peer, met(median))


def at_least(name: str, bar: float, values: list[float], unit: str, peer: str, also: bool = True) -> run.Row:
    return row(name, f">= {bar:g} {unit}", values, unit, peer, lambda median: median >= bar and also)


def at_most(name: str, bar: float, values: list[float], unit: str, peer: str) -> run.Row:
    return row(name, f"<= {bar:g} {unit}", values, unit, peer, lambda median: median <= bar)
