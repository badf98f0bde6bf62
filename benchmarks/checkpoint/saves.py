"""Rows of saving on DataNodes that take few bytes a second."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from benchmarks import run
from benchmarks.checkpoint.ground import FOLDER, MIB, Ground, at_least, at_most, middle, row, same, shown, wall
from benchmarks.processes import Process, Results

DATANODES, REPLICAS, RATE = 6, 3, 40 << 20
RANKS = 4
BLOCK = 128 * MIB  # Hadoop's default
PART = 32 * MIB  # of a large file, checkpoint/save's default
GATE = 64 * MIB  # saved before any speed
AHEAD = 0.25  # seconds' worth that a DataNode's throttle lets through ahead, as in nodes.py
# Calls of the NameNode that DataNodes make, and what the metrics count beside calls.
NOT_CALLS = (
    "SendHeartbeat", "BlockReceivedAndDeleted", "BlockReport", "RegisterDatanode", "VersionRequest", "FileNotFoundException",
)  # fmt: skip


class Saver:
    """Saves checkpoints, each into a new folder."""

    def __init__(self, ground: Ground) -> None:
        settings = {"dfs.datanode.data.write.bandwidthPerSec": str(RATE), "dfs.blocksize": str(BLOCK)}
        self.cluster = ground.start("saves", DATANODES, **settings)
        self.job: Process = ground.job("saver", self.cluster)
        self.saved = 0

    def save(self, name: str, ranks: int, size: int, **options: Any) -> dict[str, Any]:
        self.saved += 1
        path = f"{FOLDER}/{name}-{self.saved}"
        task = {"as": name, "url": self.cluster.url + path, "ranks": ranks, "bytes": size, **options}
        before = self.calls()
        answer: dict[str, Any] = self.job.ask({"do": "save", **task})
        calls = {call: n - before.get(call, 0) for call, n in self.calls().items() if n > before.get(call, 0)}
        return {**answer, "calls": calls, "task": task, "path": path}

    def calls(self) -> dict[str, int]:
        """How often the NameNode served each call of clients. It counts a call just after it has answered."""
        last: dict[str, int] = {}
        for _ in range(100):
            found: dict[str, int] = self.cluster.do("calls", nn=0)
            now = {c: n for c, n in found.items() if c not in NOT_CALLS and not c.startswith("Overall")}
            if now == last:
                return now
            last = now
            time.sleep(0.01)
        return last

    def remove(self, saved: dict[str, Any]) -> None:
        self.cluster.do("delete", path=saved["path"], user="hdfs")


def gate(saver: Saver) -> None:
    """Before any speed: what one writes, the other reads, and it is the same."""
    for name, other in (("stepahead", "torch"), ("torch", "stepahead")):
        for ranks in (1, RANKS):
            saved = saver.save(name, ranks, GATE)
            loaded = saver.job.ask({"do": "load", **saved["task"], "as": other})
            same({f"saved by {name}": saved["sha256"], f"loaded by {other}": loaded["sha256"]}, saved["path"])
            saver.remove(saved)


def measure(ground: Ground) -> Iterator[run.Row]:
    saver = Saver(ground)
    gate(saver)
    contests = [("stepahead", RANKS), ("torch", RANKS), ("stepahead", 1), ("torch", 1)]
    results: Results = {f"{name} {ranks}": [] for name, ranks in contests}
    for i in range(ground.rounds):
        for name, ranks in contests[:: 1 if i % 2 else -1]:
            saved = saver.save(name, ranks, ground.size)
            saver.remove(saved)
            results[f"{name} {ranks}"].append(saved)
    threads = saver.save("torch", 1, ground.size, threads=RANKS)
    saver.remove(threads)
    yield from rows(results, threads, ground.size)


def rows(results: Results, threads: dict[str, Any], size: int) -> Iterator[run.Row]:
    most = DATANODES * RATE / REPLICAS
    what = f"save of {size // MIB:,} MiB, {DATANODES} DataNodes of {RATE // MIB} MiB/s, 3 replicas"
    ours, theirs = results[f"stepahead {RANKS}"], results[f"torch {RANKS}"]
    yield at_least(
        f"{what}, {RANKS} ranks: share of 6 x 40 / 3", 0.85, [size / (r["wall"] + AHEAD) / most for r in ours], "",
        f"stepahead {middle(ours, wall):.3g} s",
    )  # fmt: skip
    ratios = [b["wall"] / a["wall"] for a, b in zip(ours, theirs, strict=True)]
    yield row(
        f"the same, {RANKS} ranks: FsspecWriter over hdfs-native / ours", "> 1 x", ratios, "x",
        shown({"stepahead": ours, "FsspecWriter": theirs}, wall, "s"), lambda median: median > 1,
    )  # fmt: skip
    ours, theirs = results["stepahead 1"], results["torch 1"]
    ratios = [b["wall"] / a["wall"] for a, b in zip(ours, theirs, strict=True)]
    yield at_least(
        "the same, 1 rank: FsspecWriter over hdfs-native / ours", 2, ratios, "x",
        f"{shown({'stepahead': ours, 'FsspecWriter': theirs}, wall, 's')}; once: FsspecWriter, thread_count={RANKS} "
        f"{threads['wall']:.3g} s",
    )  # fmt: skip
    for ranks in (RANKS, 1):
        counts = [sum(r["calls"].values()) / (size / PART) for r in results[f"stepahead {ranks}"]]
        other = middle(results[f"torch {ranks}"], lambda r: sum(r["calls"].values()))
        yield at_most(
            f"the same, {ranks} rank{'s' * (ranks > 1)}: NameNode calls for each part of 32 MiB", 6, counts, "",
            f"FsspecWriter {other:.0f} in all",
        )  # fmt: skip
