"""Processes of one host read what all of them need from HDFS once; one that ends, or is interrupted, harms no other."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import time
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
import ranks
import shared_reader
import torch
import torch.distributed.checkpoint as dcp
from minihdfs import MiniHdfs
from stepahead import checkpoint, filesystem
from test_hdfs import hdfs, minihdfs, running  # noqa: F401  the cluster

READERS = 32
COMMON = (".metadata", "common.pt")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A checkpoint of Megatron's layout."""
    folder = tmp_path_factory.mktemp("saved")
    state = {f"layers.{i}.weight": torch.zeros(3) for i in range(1000)}
    dcp.save(state, storage_writer=dcp.FileSystemWriter(folder), no_dist=True)
    backends = {"sharded_backend": "torch_dist", "sharded_backend_version": 1}
    (folder / "metadata.json").write_text(
        json.dumps(backends | {"common_backend": "torch", "common_backend_version": 1})
    )
    torch.save({"args": torch.randn(700_000)}, folder / "common.pt")
    return folder


def put(folder: pathlib.Path, cluster: MiniHdfs) -> str:
    path = f"/user/{cluster.user}/{folder.name}"
    fs = filesystem.FileSystem(store=cluster.url, skip_instance_cache=True)
    for file in folder.iterdir():
        fs.put_file(str(file), f"{path}/{file.name}")
    return cluster.url + path


def sums(folder: pathlib.Path) -> dict[str, int]:
    return {name: zlib.crc32((folder / name).read_bytes()) for name in COMMON}


class Rank:
    """A process that reads."""

    def __init__(self, url: str) -> None:
        self.end, theirs = ranks.server.Pipe()
        self.process = ranks.server.Process(target=shared_reader.read, args=(theirs, url, COMMON, dict(os.environ)))
        self.process.start()
        theirs.close()

    def hears(self) -> Any:
        assert self.end.poll(120), "it has said nothing"
        return self.end.recv()

    def begins(self) -> None:
        self.end.send("read")
        assert self.hears() == "reads"

    def signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def holds_a_lock(self) -> bool:
        """Whether it is the one that reads for all."""
        files = pathlib.Path(f"/proc/{self.process.pid}/fd")
        with contextlib.suppress(FileNotFoundError):
            return any(os.readlink(file).endswith(".lock") for file in files.iterdir())
        return False

    def close(self) -> None:
        self.end.close()
        self.process.join(60)
        self.process.kill()


@contextlib.contextmanager
def started(url: str, count: int) -> Iterator[list[Rank]]:
    with contextlib.ExitStack() as stack:
        all_of_them = []
        for _ in range(count):
            all_of_them.append(Rank(url))
            stack.callback(all_of_them[-1].close)
        for rank in all_of_them:
            assert rank.hears() == "opened"
        yield all_of_them


def test_many_ranks_read_one_copy(
    hdfs: MiniHdfs,  # noqa: F811
    saved: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = put(saved, hdfs)
    before = hdfs.do("served")["bytes"]  # by the DataNodes' own count
    with started(url, READERS) as all_of_them:
        for rank in all_of_them:
            rank.begins()
        assert [rank.hears() for rank in all_of_them] == [sums(saved)] * READERS
        monkeypatch.setenv("LOCAL_WORLD_SIZE", str(READERS + 1))
        assert len(checkpoint.Reader(url).read_metadata().storage_data) == 1000  # by torch's way too
    copy = sum((saved / name).stat().st_size for name in COMMON)
    assert copy <= hdfs.do("served")["bytes"] - before <= 1.1 * copy


def test_the_reading_rank_is_killed(minihdfs: pathlib.Path, saved: pathlib.Path) -> None:  # noqa: F811
    """The one that reads for all is killed in the middle, and one of those that wait is interrupted: the others have their bytes."""
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(running(minihdfs, "--datanodes", "1", "--processes"))
        url = put(saved, cluster)
        node = cluster.do("nodes")[0]["pid"]
        reader, interrupted, *others = stack.enter_context(started(url, 4))
        os.kill(node, signal.SIGSTOP)
        try:
            reader.begins()
            until = time.monotonic() + 60
            while not reader.holds_a_lock():
                assert time.monotonic() < until
                time.sleep(0.01)
            for rank in (interrupted, *others):
                rank.begins()
            interrupted.signal(signal.SIGINT)
            assert interrupted.hears() == "interrupted"
            reader.signal(signal.SIGKILL)
            reader.process.join(60)
            assert not any(rank.end.poll() for rank in others)
        finally:
            os.kill(node, signal.SIGCONT)
        assert [rank.hears() for rank in others] == [sums(saved)] * len(others)
