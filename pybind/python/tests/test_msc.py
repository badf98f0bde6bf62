"""The Multi-Storage Client over our stores, and Megatron's checkpoints through it."""

from __future__ import annotations

import io
import itertools
import json
import os
import pathlib
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import multistorageclient as msc
import pytest
import stepahead.msc
import torch
import torch.distributed.checkpoint as dcp
from multistorageclient import shortcuts
from multistorageclient.types import PreconditionFailedError, Range
from stepahead import _objects, checkpoint
from test_hdfs import hdfs, minihdfs  # noqa: F401  the cluster

EXAMPLE = pathlib.Path(__file__).resolve().parents[3] / "examples" / "resume_megatron.py"


@pytest.fixture(params=["folder", "hdfs"])
def base(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> str:
    if request.param == "folder":
        return str(tmp_path / "base")
    cluster = request.getfixturevalue("hdfs")
    return f"{cluster.url}/user/{cluster.user}/{tmp_path.name}"


def config(base: str) -> dict[str, Any]:
    bundle = {"type": "stepahead.msc.Bundle", "options": {"base_path": base}}
    return {"profiles": {"lake": {"provider_bundle": bundle}}}


@pytest.fixture
def client(base: str) -> msc.StorageClient:
    return msc.StorageClient(msc.StorageClientConfig.from_dict(config(base), "lake"))


def test_objects(client: msc.StorageClient, tmp_path: pathlib.Path) -> None:
    client.write("a/one", b"0123456789")
    client.write("a/b/two", b"two")
    client.write("a/one", b"abcdefghij")
    assert client.read("a/one") == b"abcdefghij"
    assert client.read("a/one", byte_range=Range(3, 4)) == b"defg"
    assert [found.key for found in client.list(path="a")] == ["a/b/two", "a/one"]
    assert [found.key for found in client.list(path="a", start_after="a/b/two")] == ["a/one"]
    assert [found.key.rstrip("/") for found in client.list(path="a", include_directories=True)] == ["a/b", "a/one"]
    assert list(client.list(path="none")) == []
    info = client.info("a/one")
    assert (info.key, info.content_length, info.type) == ("a/one", 10, "file") and info.etag
    assert client.info("a").type == "directory"
    client.copy("a/one", "c/copy")
    client.delete("a/one")
    assert client.read("c/copy") == b"abcdefghij" and not client.is_file("a/one")
    for missing in (client.read, client.info, client.delete):
        with pytest.raises(FileNotFoundError):
            missing("a/one")
    assert client.glob("c/*") == ["c/copy"]
    client.delete("a", recursive=True)
    assert [found.key for found in client.list(path="")] == ["c/copy"]


def test_conditions(client: msc.StorageClient) -> None:
    provider = client._storage_provider
    provider.put_object("x", b"first", if_none_match="*")
    with pytest.raises(PreconditionFailedError):
        provider.put_object("x", b"second", if_none_match="*")
    version = client.info("x").etag
    provider.put_object("x", b"second", if_match=version)
    with pytest.raises(PreconditionFailedError):
        provider.put_object("x", b"third", if_match=version)
    with pytest.raises(PreconditionFailedError):
        provider.delete_object("x", if_match=version)
    assert client.read("x") == b"second"
    with pytest.raises(Exception, match="symbolic links"):
        provider.make_symlink("y", "x")


def test_files(client: msc.StorageClient, tmp_path: pathlib.Path) -> None:
    data = os.urandom(5_000_000)
    (tmp_path / "up").write_bytes(data)
    client.upload_file("f/file", str(tmp_path / "up"))
    client.download_file("f/file", str(tmp_path / "new" / "down"))
    assert (tmp_path / "new" / "down").read_bytes() == data
    into = io.BytesIO()
    client.download_file("f/file", into)
    assert into.getvalue() == data
    with client.open("f/file", "rb") as file:
        file.seek(1_000_000)
        assert file.read(10) == data[1_000_000:1_000_010]
    with client.open("f/text", "w") as file:
        file.write("words")
    with client.open("f/text", "r") as file:
        assert file.read() == "words"


def test_keys_do_not_leave_the_base_path(client: msc.StorageClient) -> None:
    client.write("a/../b", b"content")
    assert client.read("b") == b"content"
    for key in ("../../x", "a/../../x", ".."):
        with pytest.raises(stepahead.OptionError, match="leads out of the base path"):
            client.read(key)
        with pytest.raises(stepahead.OptionError, match="leads out of the base path"):
            client.write(key, b"")


def test_it_goes_to_other_processes(client: msc.StorageClient) -> None:
    client.write("a", b"content")
    assert pickle.loads(pickle.dumps(client)).read("a") == b"content"


def test_ours_reads_what_torch_writes_through_it(
    base: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "msc.json"
    file.write_text(json.dumps(config(base)))
    monkeypatch.setenv("MSC_CONFIG", str(file))
    monkeypatch.setattr(shortcuts, "_STORAGE_CLIENT_CACHE", {})
    state = {"w": torch.arange(1000.0)}
    dcp.save(state, storage_writer=msc.torch.MultiStorageFileSystemWriter("msc://lake/step-1"), no_dist=True)
    loaded = {"w": torch.zeros(1000)}
    dcp.load(loaded, storage_reader=checkpoint.Reader(f"{base}/step-1"), no_dist=True)
    assert torch.equal(loaded["w"], state["w"])


@pytest.mark.parametrize("root", ["/", "dir:///"])
def test_the_base_path_may_be_the_root(root: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    provider = stepahead.msc.Provider(base_path=root)
    folder = str(tmp_path).lstrip("/")
    found = provider.list_objects(folder, start_after=f"{folder}/a")
    assert [each.key for each in found] == [f"{folder}/b"]
    assert provider.get_object(f"{folder}/b") == b"b"


def test_an_answer_is_that_of_its_request(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a forked process another one answers. After an interruption it is not asked any more: its next answer would be the last one's."""
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    elsewhere = _objects._Elsewhere("dir:///")
    assert elsewhere.get(str(tmp_path / "a"), None, None) == b"a"

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pickle, "load", interrupt)
        with pytest.raises(KeyboardInterrupt):
            elsewhere.get(str(tmp_path / "a"), None, None)
    with pytest.raises(ChildProcessError):
        elsewhere.get(str(tmp_path / "b"), None, None)


@pytest.mark.parametrize(
    "options", [{"base_path": "s3://bucket"}, {"base_path": "relative"}, {"base_path": "/", "x": 1}]
)
def test_refused(options: dict[str, Any]) -> None:
    with pytest.raises(stepahead.OptionError):
        stepahead.msc.Provider(**options)


# Imports once what takes seconds, and runs the example in processes that it forks: of each a line of JSON tells arguments, environment and where
# its output goes.
JOBS = """
import json, os, runpy, sys
import megatron.core.dist_checkpointing, multistorageclient, stepahead.checkpoint, torch.distributed.checkpoint
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        os.environ.clear()
        os.environ.update(asked["environment"])
        sys.argv = asked["arguments"]
        output = os.open(asked["output"], os.O_CREAT | os.O_WRONLY)
        os.dup2(output, 1)
        os.dup2(output, 2)
        runpy.run_path(sys.argv[0], run_name="__main__")
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, int], list[str]]]:
    """Runs the example up to a step and returns what it says."""
    outputs = (tmp_path_factory.mktemp("jobs") / f"{number}" for number in itertools.count())
    command = [sys.executable, "-W", "ignore", "-c", JOBS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout

        def run(root: str, steps: int) -> list[str]:
            output = next(outputs)
            arguments = [str(EXAMPLE), root, "--steps", str(steps)]
            asked = {"arguments": arguments, "environment": dict(os.environ), "output": str(output)}
            print(json.dumps(asked), file=process.stdin, flush=True)
            code = process.stdout.readline()
            text = output.read_text()
            assert code == "0\n", text[-5000:]
            return [line for line in text.splitlines() if line.startswith(("begins", "step", "weights"))]

        try:
            yield run
        finally:
            process.stdin.close()


def test_megatron_resumes(base: str, job: Callable[[str, int], list[str]]) -> None:
    """Megatron saves and loads its distributed checkpoints through the client; torch's format is read by ours without it."""
    whole = job(f"{base}/whole", 4)
    first, second = job(f"{base}/parts", 2), job(f"{base}/parts", 4)
    assert second[0] == "begins with step 2" and first[1:-1] + second[1:] == whole[1:]
    newest = checkpoint.latest(f"{base}/parts")
    assert newest.endswith("iter_0000004")
    loaded = {"weight": torch.zeros(1, 16), "bias": torch.zeros(1)}
    dcp.load(loaded, storage_reader=checkpoint.Reader(newest), no_dist=True)
    assert whole[-1] == f"weights {[round(value, 6) for value in loaded['weight'].flatten().tolist()]}"
