"""Where the demo's dataset lies: a folder with simulated nodes, or a real HDFS on this machine."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from typing import Any

from processes import ROOT, stepahead, wait

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

    def start(self) -> None:
        command = [str(ROOT / "build" / "minihdfs"), "--json", "--processes", "--datanodes", "3"]
        command += ["--set", f"dfs.blocksize={BLOCK}", "--set", f"dfs.replication={REPLICAS}"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        cluster = self._answer()
        self.url = f"{cluster['url']}/"
        self.dataset = f"{self.url}user/{self.user}/photos"
        self.environment = {"HADOOP_CONF_DIR": cluster["conf"], "HADOOP_USER_NAME": self.user}
        self.agent_environment = {"HADOOP_CONF_DIR": cluster["conf"], "HADOOP_USER_NAME": "agent"}
        self.datanodes = {node["uuid"]: number for number, node in enumerate(self._do("nodes"))}
        self.nodes = list(self.datanodes)
        # What an administrator does once: the agents' user may say in this folder where they are.
        self._do("folder", path="/.stepahead", owner="hdfs", mode=0o755)
        self._do("folder", path="/.stepahead/agents", owner="agent", mode=0o755)

    def __str__(self) -> str:
        return f"{len(self.nodes)} DataNodes of a real HDFS, {self.url}"

    def kill(self, node: str) -> None:
        """kill -9 of the DataNode's process."""
        self._do("kill", dn=self.datanodes[node])

    def restart(self, node: str) -> None:
        self._do("restart", dn=self.datanodes[node], samePort=True)

    def close(self) -> None:
        if not hasattr(self, "process"):
            return
        assert self.process.stdin
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def _do(self, op: str, **args: Any) -> Any:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"op": op, "args": args}) + "\n")
        self.process.stdin.flush()
        answer = self._answer()
        if "error" in answer:
            raise RuntimeError(f"HDFS: {op}: {answer['error']}; its log is {self.log}")
        return answer["result"]

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"HDFS has ended; the end of {self.log}:\n{self.log.read_text()[-3000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def registered(storage: Folder | Hdfs) -> set[str]:
    """The nodes whose agents have said where they are."""
    url = os.path.join(storage.url, ".stepahead", "agents")
    try:
        listing = stepahead("ls", url, environment=storage.environment)
    except subprocess.CalledProcessError:
        return set()
    return {name.removesuffix(".json") for name in listing.splitlines()}


def wait_for_agents(storage: Folder | Hdfs) -> None:
    wait(lambda: registered(storage) >= set(storage.nodes), 60, "agents to register", every=0.2)
