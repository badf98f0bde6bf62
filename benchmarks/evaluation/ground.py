"""What the rows stand on: the home cluster, the site's, links between them, a controller near the site, and evaluators."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pathlib
import random
import re
from typing import Any

from benchmarks.checkpoint import ground
from benchmarks.controller import Controller
from benchmarks.processes import Process

MIB = 1 << 20
BIN = ground.ROOT / "build" / "bench-evaluation"
HOME, SITE = "home", "there"
FOLDER = "/bench"
RTT_MILLIS, RATE = 100, 125_000_000
DATANODES = 3
TORCH_RATE = "1600000"  # bytes a second at which torch's reader loads such tensors over such a link, see ../checkpoint


class Ground:
    """Both clusters know each other as hdfs://home and hdfs://there, wherever a program is: its configuration says how it gets there."""

    def __init__(self, work: pathlib.Path, size: int, ends: contextlib.ExitStack) -> None:
        self.work, self._ends = work, ends
        self._parts = ground.Ground(work, 1, size, ends, bin=BIN, wanted=["dcp"])
        self._links = itertools.count()
        self.home = self._parts.start("home-cluster", DATANODES)
        self.site = self._parts.start("site-cluster", DATANODES)
        self.spec: dict[str, Any] = self._parts.spec
        for name in self.spec["files"]:
            ground.put(self.home, f"{FOLDER}/step-1/{name}", self._parts.data / name, 1, 32 * MIB)

    def put(self, name: str, size: int) -> str:
        """A small checkpoint of one tensor at home; its URL."""
        header = json.dumps({"weight": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
        local = self.work / name.replace("/", "-")
        local.write_bytes(len(header).to_bytes(8, "little") + header + random.Random(name).randbytes(size))
        ground.put(self.home, f"{FOLDER}/{name}/model.safetensors", local, 1, 32 * MIB)
        return f"hdfs://{HOME}{FOLDER}/{name}"

    def served(self) -> dict[str, int]:
        """What the home cluster was asked until now: calls of its NameNode by name, and reads of its DataNodes."""
        calls: dict[str, int] = self.home.do("calls", nn=0)
        return {**calls, **self.home.do("served")}

    def environment(self, far: bool, user: str = "") -> dict[str, str]:
        """Of a program; far: it is at the site, and a link of its own leads to the home cluster."""
        folder = self.work / f"conf-{next(self._links)}"
        folder.mkdir()
        home = self.home.do("link", rttMillis=RTT_MILLIS, bytesPerSecond=RATE) if far else self.home.url
        settings = {"dfs.nameservices": f"{HOME},{SITE}", "dfs.replication": "1"}
        for name, url in {HOME: home, SITE: self.site.url}.items():
            settings[f"dfs.ha.namenodes.{name}"] = "nn"
            settings[f"dfs.namenode.rpc-address.{name}.nn"] = url.removeprefix("hdfs://").rstrip("/")
        write(folder / "hdfs-site.xml", settings)
        write(folder / "core-site.xml", {"fs.defaultFS": f"hdfs://{HOME}"})
        return {**os.environ, "HADOOP_CONF_DIR": str(folder), "HADOOP_USER_NAME": user or self.home.user}

    def evaluator(self, name: str, kind: str, env: dict[str, str]) -> Process:
        """A new process, as an evaluation is; `kind` is a name that benchmarks/checkpoint/racer.py knows."""
        command = [str(ground.PEERS), str(ground.HERE / "racer.py"), kind, str(self._parts.data / "spec.json")]
        return self._parts.process(name, command, env)

    def controller(self) -> Controller:
        work = self.work / "controller"
        work.mkdir()
        node = self.home.do("nodes")[0]["uuid"]
        options = [
            f"--site={SITE}=hdfs://{SITE}/",
            f"--site-rate={SITE}={TORCH_RATE}",
            "--grace=5s",
            "--log-level=debug",
        ]
        near, far = self.environment(False, "hdfs"), self.environment(True, "hdfs")
        return Controller(BIN, work, f"hdfs://{HOME}/", node, near, *options, site=SITE, far=far)


def write(file: pathlib.Path, settings: dict[str, str]) -> None:
    lines = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
    file.write_text("\n".join(["<configuration>", *lines, "</configuration>", ""]))


def path_of(url: str) -> str:
    return re.sub("^hdfs://[^/]*", "", url)
