"""Rows of one large file on slow DataNodes."""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Iterator

from benchmarks import run
from benchmarks.checkpoint.ground import FOLDER, MIB, Ground, at_least, middle, put, shown, wall, wrong
from benchmarks.processes import Results

DATANODES, REPLICAS, RATE = 6, 3, 40_000_000
AHEAD = 0.25  # seconds' worth that a DataNode's throttle lets through ahead: of its period of half a second, on average half


def measure(ground: Ground) -> Iterator[run.Row]:
    cluster = ground.start("nodes", DATANODES, **{"dfs.datanode.data.read.bandwidthPerSec": str(RATE)})
    files = {
        "64 MiB blocks": (ground.size, 64 * MIB, DATANODES),
        "one block": (ground.size // 4, ground.size // 4, REPLICAS),
    }
    racers = {name: ground.racer(name, cluster) for name in ("cat_ranges", "hdfs-native")}
    for title, (size, block, nodes) in files.items():
        path = f"{FOLDER}/{title.replace(' ', '-')}"
        local = ground.work / "file"
        expected = make(local, size)
        put(cluster, path, local, REPLICAS, block)
        task = {"do": "file", "url": cluster.url + path}
        results: Results = {name: [] for name in racers}
        for i in range(ground.rounds):
            for name, racer in racers.items():
                if i > 0 and name == "hdfs-native":
                    continue
                answer = racer.ask({**task, "digest": i == 0})
                results[name].append(answer)
                if i == 0 and answer["sha256"] != expected:
                    raise wrong(f"{name}: {path}")
        values = [size / (r["wall"] + AHEAD) / RATE / nodes for r in results["cat_ranges"]]
        yield at_least(
            f"one file of {size // MIB:,} MiB, {title}, {DATANODES} DataNodes of 40 MB/s: share of {nodes} x 40 MB/s", 0.85,
            values, "", f"stepahead {middle(results['cat_ranges'], wall):.3g} s; once: "
            + shown({"hdfs-native": results["hdfs-native"]}, wall, "s"),
        )  # fmt: skip


def make(path: pathlib.Path, size: int) -> str:
    """Write random bytes and return what sha256 they have as the only thing loaded (racer.py's digest)."""
    h = hashlib.sha256()
    with path.open("wb") as out, open("/dev/urandom", "rb") as source:
        for at in range(0, size, 16 * MIB):
            piece = source.read(min(16 * MIB, size - at))
            h.update(piece)
            out.write(piece)
    return h.hexdigest()
