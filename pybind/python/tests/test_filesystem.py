"""Our file systems are what fsspec's own tests say that one must be, over a folder and over HDFS."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import pickle
import resource
import sys
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
import stepahead
import torch
from fsspec.tests import abstract
from stepahead.filesystem import FileSystem, HadoopFileSystem, register_hdfs
from test_hdfs import hdfs, minihdfs  # noqa: F401  the cluster


class FolderFixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self) -> FileSystem:
        return FileSystem()

    @pytest.fixture
    def fs_path(self, tmp_path: pathlib.Path) -> str:
        return str(tmp_path)


class HdfsFixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self, hdfs: Any) -> HadoopFileSystem:  # noqa: F811
        return HadoopFileSystem(store=hdfs.url)

    @pytest.fixture
    def fs_path(self, hdfs: Any, fs: HadoopFileSystem) -> str:  # noqa: F811
        path = f"/user/{hdfs.user}/{uuid.uuid4().hex}"
        fs.makedirs(path)
        return path


class TestFolderCopy(abstract.AbstractCopyTests, FolderFixtures):
    pass


class TestFolderGet(abstract.AbstractGetTests, FolderFixtures):
    pass


class TestFolderPut(abstract.AbstractPutTests, FolderFixtures):
    pass


class TestFolderOpen(abstract.AbstractOpenTests, FolderFixtures):
    pass


class TestFolderPipe(abstract.AbstractPipeTests, FolderFixtures):
    pass


class TestHdfsCopy(abstract.AbstractCopyTests, HdfsFixtures):
    pass


class TestHdfsGet(abstract.AbstractGetTests, HdfsFixtures):
    pass


class TestHdfsPut(abstract.AbstractPutTests, HdfsFixtures):
    pass


class TestHdfsOpen(abstract.AbstractOpenTests, HdfsFixtures):
    pass


class TestHdfsPipe(abstract.AbstractPipeTests, HdfsFixtures):
    pass


@pytest.fixture(params=["folder", "hdfs"])
def place(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> tuple[FileSystem, str]:
    """A file system, and a folder in it."""
    if request.param == "folder":
        return FileSystem(), str(tmp_path)
    cluster = request.getfixturevalue("hdfs")
    fs = HadoopFileSystem(store=cluster.url)
    path = f"/user/{cluster.user}/{uuid.uuid4().hex}"
    fs.makedirs(path)
    return fs, path


def test_addresses(hdfs: Any, tmp_path: pathlib.Path) -> None:  # noqa: F811
    cluster = hdfs.url.removeprefix("hdfs://")
    (tmp_path / "a b%41").write_bytes(b"here")
    for url, store, path in (
        (f"stepahead://{tmp_path}/a b%41", None, f"{tmp_path}/a b%41"),
        (f"stepahead://{cluster}/user/x/", hdfs.url, "/user/x"),
        (f"stepahead://{cluster}", hdfs.url, "/"),
    ):
        fs, name = fsspec.core.url_to_fs(url)
        assert (type(fs), name, fs.storage_options.get("store")) == (FileSystem, path, store)
        assert fsspec.core.url_to_fs(fs.unstrip_protocol(name))[0]._url == fs._url
    with fsspec.open(f"stepahead://{tmp_path}/a b%41") as file:
        assert file.read() == b"here"
    register_hdfs()
    try:
        fs, name = fsspec.core.url_to_fs(f"{hdfs.url}/user/y")
        assert type(fs) is HadoopFileSystem and name == "/user/y" and fs.ls("/")
        assert fsspec.core.url_to_fs("hdfs:///")[0].ls("/")  # the cluster of the configuration
    finally:
        sys.modules["fsspec.registry"]._registry.pop("hdfs")


def test_what_is_written_is_read(place: tuple[FileSystem, str]) -> None:
    fs, folder = place
    data = np.random.default_rng(1).integers(0, 256, 12_345_678, dtype=np.uint8).tobytes()
    path = f"{folder}/deep/er/file"
    with fs.open(path, "wb", block_size=1 << 20) as file:
        for at in range(0, len(data), 300_000):
            file.write(data[at : at + 300_000])
        assert not fs.exists(path)  # it appears whole
    assert fs.info(path)["size"] == len(data) and fs.cat_file(path) == data
    with fs.open(path, "rb", block_size=1 << 16) as file:
        assert file.seek(-10, io.SEEK_END) == len(data) - 10 and file.read() == data[-10:]
        file.seek(5_000_000)
        assert file.read(100_000) == data[5_000_000:5_100_000]
    assert (
        fs.cat_file(path, -5) == data[-5:] and fs.cat_file(path, 3, -3) == data[3:-3] and fs.cat_file(path, 9, 2) == b""
    )
    rng = np.random.default_rng(2)
    starts = rng.integers(0, len(data), 300).tolist()
    ends = [start + int(n) for start, n in zip(starts, rng.integers(0, 5000, 300), strict=True)]
    got = fs.cat_ranges([path] * 300, starts, ends)
    assert got == [data[start:end] for start, end in zip(starts, ends, strict=True)]
    single = fs.cat_ranges([path] * 256, list(range(256)), list(range(1, 257)))  # of which Python keeps one of each
    assert b"".join(single) == data[:256] and all(bytes([i]) == i.to_bytes(1, "big") for i in range(256))


def test_one_missing_file_of_many(place: tuple[FileSystem, str]) -> None:
    fs, folder = place
    fs.pipe_file(f"{folder}/a", b"0123456789")
    got = fs.cat_ranges([f"{folder}/a", f"{folder}/none", f"{folder}/a"], 2, 5)
    assert got[0] == got[2] == b"234" and isinstance(got[1], FileNotFoundError)
    with pytest.raises(stepahead.NotFoundError, match="none"):
        fs.cat_ranges([f"{folder}/a", f"{folder}/none"], 2, 5, on_error="raise")
    assert fs.cat([f"{folder}/a"])[f"{folder}/a"] == b"0123456789"


def test_more_files_than_may_be_open(tmp_path: pathlib.Path) -> None:
    for number in range(300):
        (tmp_path / str(number)).write_bytes(b"%d" % number)
    places = [*range(300), *range(300)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 280, hard))
    try:
        got = FileSystem().cat_ranges([f"{tmp_path}/{number}" for number in places], 0, None)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert got == [b"%d" % number for number in places]


def test_names_that_look_like_patterns(place: tuple[FileSystem, str]) -> None:
    fs, folder = place
    for name in ("a[1]", "a1", "b"):
        fs.pipe_file(f"{folder}/{name}", b"")
    fs.mv(f"{folder}/a[1]", f"{folder}/c[1]")
    fs.rm(f"{folder}/c[1]")
    fs.rm(f"{folder}/a[1]")
    assert fs.ls(folder, detail=False) == [f"{folder}/b"]


def test_a_file_that_is_replaced_is_an_error(place: tuple[FileSystem, str]) -> None:
    fs, folder = place
    path = f"{folder}/file"
    fs.pipe_file(path, b"old" * 1000)
    before = fs.ukey(path)
    with fs.open(path, "rb", cache_type="none") as file:
        assert file.read(3) == b"old"
        fs.pipe_file(path, b"new" * 1000)
        assert fs.ukey(path) != before and fs.cat_file(path, 0, 3) == b"new"
        with contextlib.suppress(stepahead.IdentityError):
            assert file.read(6) == b"oldold"  # the version that was opened, where the store keeps it


def test_a_failed_write_leaves_nothing(place: tuple[FileSystem, str]) -> None:
    fs, folder = place
    path = f"{folder}/file"
    for had in (None, b"kept"):
        if had is not None:
            fs.pipe_file(path, had)
        with pytest.raises(ZeroDivisionError), fs.open(path, "wb", block_size=1000) as file:
            file.write(b"x" * 5000)
            raise ZeroDivisionError
        assert (fs.cat_file(path) if fs.exists(path) else None) == had
    assert fs.ls(folder, detail=False) == [path]
    with pytest.raises(ZeroDivisionError), fs.open(f"{folder}/text", "w") as text:
        text.write("half")
        raise ZeroDivisionError
    with fs.open(f"{folder}/text", "x", encoding="utf-16-le", newline="\r\n") as text:
        text.write("ä\n")
    assert fs.cat_file(f"{folder}/text") == "ä\r\n".encode("utf-16-le")
    with fs.transaction, fs.open(f"{folder}/later", "wb") as file:
        file.write(b"later")
    assert fs.cat_file(f"{folder}/later") == b"later"
    with pytest.raises(ZeroDivisionError), fs.transaction:
        with fs.open(f"{folder}/never", "wb") as file:
            file.write(b"never")
        raise ZeroDivisionError
    assert not fs.exists(f"{folder}/never")


def test_folders(place: tuple[FileSystem, str]) -> None:
    fs, folder = place
    fs.mkdir(f"{folder}/a/b")
    with pytest.raises(FileExistsError):
        fs.mkdir(f"{folder}/a/b")
    with pytest.raises(FileNotFoundError):
        fs.mkdir(f"{folder}/x/y", create_parents=False)
    with pytest.raises(FileExistsError):
        fs.rmdir(f"{folder}/a")
    fs.rmdir(f"{folder}/a/b")
    fs.pipe_file(f"{folder}/a/f", b"f")
    for refused in (
        lambda: fs.rm(f"{folder}/a"),
        lambda: fs.rm_file(f"{folder}/a"),
        lambda: fs.cat_file(f"{folder}/a"),
    ):
        with pytest.raises(OSError):
            refused()
    with pytest.raises(NotADirectoryError):
        fs.rmdir(f"{folder}/a/f")
    fs.mv(f"{folder}/a/f", f"{folder}/g")
    fs.mv(f"{folder}/g", f"{folder}/a")
    with pytest.raises(FileNotFoundError):
        fs.mv(f"{folder}/a/g", f"{folder}/none/g")
    assert fs.find(folder) == [f"{folder}/a/g"] and fs.glob(f"{folder}/*") == [f"{folder}/a"]
    fs.rm(folder, recursive=True)
    assert not fs.exists(folder)
    with pytest.raises(FileNotFoundError):
        fs.ls(folder)
    with pytest.raises(ValueError, match="append"):
        fs.open(f"{folder}/f", "ab")
    with pytest.raises(ValueError, match="block_size=-1: must not be negative"):
        fs.open(f"{folder}/f", "wb", block_size=-1)


def test_programs_read_and_write(place: tuple[FileSystem, str]) -> None:
    fs, folder = place
    table = pa.table({"a": list(range(1000)), "b": [str(i) for i in range(1000)]})
    arrow = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fs))
    pq.write_table(table, f"{folder}/t.parquet", filesystem=arrow)
    assert pq.read_table(f"{folder}/t.parquet", filesystem=arrow).equals(table)
    value = {"weights": torch.arange(100_000), "step": 3}
    with fs.open(f"{folder}/v.pt", "wb") as file:
        torch.save(value, file)
    with fs.open(f"{folder}/v.pt", "rb") as file:
        again = torch.load(file)
    assert torch.equal(again["weights"], value["weights"]) and again["step"] == 3


def test_it_goes_to_other_processes_and_threads(place: tuple[FileSystem, str]) -> None:
    fs, folder = place
    fs.pipe_file(f"{folder}/f", b"content")
    again = pickle.loads(pickle.dumps(fs))
    assert again.cat_file(f"{folder}/f") == b"content"
    got: list[bytes] = []

    def read() -> None:
        got.extend(type(fs)(**fs.storage_options).cat_file(f"{folder}/f") for _ in range(5))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [b"content"] * 40


@pytest.fixture(autouse=True)
def _fresh_instances() -> Iterator[None]:
    """A cluster of another test is not this one's."""
    yield
    FileSystem.clear_instance_cache()
    HadoopFileSystem.clear_instance_cache()
