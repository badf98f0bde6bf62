"""Where the demo's dataset lies: a folder with simulated nodes, or a real HDFS on this machine."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

from processes import ROOT, stepahead, wait

sys.path.append(str(ROOT / "internal" / "hdfstest" / "minihdfs"))
from minihdfs import MiniHdfs

BLOCK = 4 << 20  # holds a large photograph whole
REPLICAS = 2


class Folder:
    """A folder whose blocks lie on three simulated nodes: nothing of a node can fail but its agent."""

    user = "demo"
    killed = "the agent"

    def __init__(self, folder: pathlib.Path) -> None:
        self.root = folder / "store"
        self.url = str(self.root)
        self.dataset = str(self.root / "photos")
        self.nodes = ["dn1", "dn2", "dn3"]
        self.environment: dict[str, str] = {}
        self.agent_environment = self.environment

    def start(self) -> None:
        (self.root / ".stepahead").mkdir(parents=True)
        nodes = [
            {"name": n, "rack": f"/rack{i}", "latency_us": 2000, "bandwidth_bytes_per_s": 200_000_000}
            for i, n in enumerate(self.nodes)
        ]
        topology = {"nodes": nodes, "block_size": BLOCK, "replication": REPLICAS}
        (self.root / ".stepahead" / "store.json").write_text(json.dumps(topology, indent=1))

    def __str__(self) -> str:
        return f"{len(self.nodes)} simulated nodes"

    def kill(self, node: str) -> None: ...

    def restart(self, node: str) -> None: ...

    def close(self) -> None: ...


class Hdfs:
    """A NameNode and three DataNodes, each a process of its own, that end with the demo."""

    user = "trainer"
    killed = "the DataNode and the agent"

    def __init__(self, folder: pathlib.Path) -> None:
        self.log = folder / "hdfs.log"
        self.cluster: MiniHdfs | None = None

    def start(self) -> None:
        options = ["--processes", "--datanodes=3", f"--set=dfs.blocksize={BLOCK}", f"--set=dfs.replication={REPLICAS}"]
        self.cluster = cluster = MiniHdfs(ROOT / "build" / "minihdfs", *options, log=self.log)
        self.url = f"{cluster.url}/"
        self.dataset = f"{self.url}user/{self.user}/photos"
        self.environment = cluster.environment(self.user)
        self.agent_environment = cluster.environment("agent")
        self.datanodes = {node["uuid"]: number for number, node in enumerate(cluster.do("nodes"))}
        self.nodes = list(self.datanodes)
        # What an administrator does once: the agents' user may say in this folder where they are.
        cluster.do("folder", path="/.stepahead", owner="hdfs", mode=0o755)
        cluster.do("folder", path="/.stepahead/agents", owner="agent", mode=0o755)

    def __str__(self) -> str:
        return f"{len(self.nodes)} DataNodes of a real HDFS, {self.url}"

    def kill(self, node: str) -> None:
        """kill -9 of the DataNode's process."""
        assert self.cluster
        self.cluster.do("kill", dn=self.datanodes[node])

    def restart(self, node: str) -> None:
        assert self.cluster
        self.cluster.do("restart", dn=self.datanodes[node], samePort=True)

    def close(self) -> None:
        if self.cluster:
            self.cluster.close()


def registered(storage: Folder | Hdfs) -> set[str]:
    """The nodes whose agents have said where they are."""
    url = os.path.join(storage.url, ".stepahead", "agents")
    try:
        # The folder is made by the first of them.
        listing = stepahead("ls", url, environment=storage.environment, stderr=subprocess.DEVNULL)
    except subprocess.CalledProcessError:
        return set()
    return {name.removesuffix(".json") for name in listing.splitlines()}


def wait_for_agents(storage: Folder | Hdfs) -> None:
    wait(lambda: registered(storage) >= set(storage.nodes), 60, "agents to register", every=0.2)
