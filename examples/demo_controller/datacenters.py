"""Two datacenters on this machine: a real HDFS each, with a link of 100 ms between them."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
import xml.etree.ElementTree as xml
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "internal" / "hdfstest" / "minihdfs"))
from minihdfs import MiniHdfs  # noqa: E402

MIB = 1 << 20
HOME, AWAY = "home", "away"
DATANODES = {HOME: 9, AWAY: 1}  # of several, each would pass on what is written over the link, too
NODE_RATE = 8 * MIB  # bytes a second that a DataNode at home reads for all its readers
ROUND_TRIP = 100  # milliseconds
LINK_RATE = 8 * MIB  # bytes a second of the link, each way
BLOCK = 16 * MIB
OPERATOR, AGENT, USER = "hdfs", "agent", "trainer"


class Datacenters:
    """Two clusters that are called alike from everywhere, `hdfs://home/` and `hdfs://away/`: where they are is a matter of
    Hadoop's configuration, of which each datacenter has its own. What is asked for from the other one comes over the link.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.clusters: dict[str, MiniHdfs] = {}
        self._ends = contextlib.ExitStack()

    def start(self) -> None:
        far = {}
        for name in (HOME, AWAY):
            nodes = DATANODES[name]
            options = [f"--datanodes={nodes}"]
            if name == HOME:
                options.append(f"--set=dfs.datanode.data.read.bandwidthPerSec={NODE_RATE}")
                # No two DataNodes have the same free space, as on real clusters.
                options.append(
                    "--capacities=" + ",".join(str((8 << 10) * MIB + 256 * MIB * (i * 7 % 9)) for i in range(nodes))
                )
            cluster = MiniHdfs(ROOT / "build" / "minihdfs", *options, log=self.folder / f"hdfs-{name}.log")
            self._ends.callback(cluster.close)
            self.clusters[name] = cluster
            far[name] = cluster.do("link", rttMillis=ROUND_TRIP, bytesPerSecond=LINK_RATE)
        for here in (HOME, AWAY):
            self._configure(here, {name: c.url if name == here else far[name] for name, c in self.clusters.items()})
        home = self.clusters[HOME]
        # What an administrator does once: the agents' user may say in this folder where they are.
        home.do("folder", path="/.stepahead", owner=OPERATOR, mode=0o755)
        home.do("folder", path="/.stepahead/agents", owner=AGENT, mode=0o755)
        home.do("folder", path="/runs", owner=USER, mode=0o755)
        self.node = str(home.do("nodes")[0]["uuid"])

    def _configure(self, here: str, urls: dict[str, str]) -> None:
        """Write the configuration of Hadoop's clients in a datacenter."""
        settings = {
            "fs.defaultFS": f"hdfs://{here}",
            "dfs.nameservices": ",".join(urls),
            "dfs.replication": "3",
            "dfs.blocksize": str(BLOCK),
        }
        for name, url in urls.items():
            settings[f"dfs.namenode.rpc-address.{name}"] = url.removeprefix("hdfs://").rstrip("/")
            settings[f"dfs.namenode.http-address.{name}"] = _setting(self.clusters[name], "dfs.namenode.http-address")
        root = xml.Element("configuration")
        for key, value in settings.items():
            entry = xml.SubElement(root, "property")
            xml.SubElement(entry, "name").text = key
            xml.SubElement(entry, "value").text = value
        (self.folder / f"conf-{here}").mkdir()
        for file in ("core-site.xml", "hdfs-site.xml"):
            xml.ElementTree(root).write(self.folder / f"conf-{here}" / file)

    def environment(self, here: str, user: str) -> dict[str, str]:
        """What a program of a user needs that runs in a datacenter."""
        return {**os.environ, "HADOOP_CONF_DIR": str(self.folder / f"conf-{here}"), "HADOOP_USER_NAME": user}

    def put(self, path: str, local: pathlib.Path) -> None:
        """Write a file at home, of one block if it fits."""
        self.clusters[HOME].do("put", user=USER, path=path, local=str(local), replication=3, blockSize=BLOCK)

    def located(self, paths: list[str]) -> dict[str, list[list[int]]]:
        """The nodes of each block of files at home."""
        home = self.clusters[HOME]
        return {p: [sorted(block["nodes"]) for block in home.do("locations", path=p)] for p in paths}

    def __enter__(self) -> Datacenters:
        try:
            self.start()
        except BaseException:
            self._ends.close()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        self._ends.close()


def _setting(cluster: MiniHdfs, key: str) -> str:
    """A setting of a cluster's own configuration for clients."""
    for entry in xml.parse(pathlib.Path(cluster.conf) / "hdfs-site.xml").getroot():
        if entry.findtext("name") == key:
            return entry.findtext("value") or ""
    raise KeyError(key)
