"""Training from a real HDFS: the same bytes as from a folder, no call of the NameNode a step, one version of each file."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
import stepahead
from conftest import missing, run
from minihdfs import MiniHdfs
from test_loader import CROP, RANDOM, STEPS, history, open_loader

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def minihdfs(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    if not all(map(shutil.which, ("go", "java", "mvn"))):
        missing("Go, Java and Maven for a real HDFS: `make hdfs-jars` installs the last two")
    program = tmp_path_factory.mktemp("bin") / "minihdfs"
    subprocess.run(["go", "build", "-o", program, "./internal/hdfstest/minihdfs"], cwd=ROOT, check=True)
    return program


@contextlib.contextmanager
def running(program: pathlib.Path, *options: str) -> Iterator[MiniHdfs]:
    """A cluster to which the environment points, of three DataNodes unless the options say something else."""
    with contextlib.closing(MiniHdfs(program, *options)) as cluster, pytest.MonkeyPatch.context() as patch:
        for name, value in cluster.environment().items():
            patch.setenv(name, value)
        yield cluster


@pytest.fixture(scope="module")
def hdfs(minihdfs: pathlib.Path) -> Iterator[MiniHdfs]:
    with running(minihdfs) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def photos_url(hdfs: MiniHdfs, photos: pathlib.Path) -> str:
    url = f"{hdfs.url}/user/{hdfs.user}/photos of today"
    run("pack", photos, "-o", url)
    return url


def calls(loader: stepahead.DataLoader) -> int:
    return sum(loader.stats()["reads"]["calls"].values())


def test_the_same_bytes_as_from_a_folder(dataset: pathlib.Path, photos_url: str, tmp_path: pathlib.Path) -> None:
    options: dict[str, Any] = {"transform": RANDOM, "prefetch": 2}
    with open_loader(dataset, **options) as local, open_loader(photos_url, **options, cache_dir=tmp_path) as remote:
        assert remote.classes == local.classes
        assert history(remote, STEPS + 2) == history(local, STEPS + 2)
        state = remote.state_dict()
        rest = history(local, 2)
    with open_loader(photos_url, **options, cache_dir=tmp_path) as resumed:
        resumed.load_state_dict(state)
        assert history(resumed, 2) == rest


def test_the_same_bytes_with_kerberos_over_a_failover(
    minihdfs: pathlib.Path, dataset: pathlib.Path, photos: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    options = ("--kerberos", "privacy", "--namenodes", "2", "--datanodes", "1")
    with running(minihdfs, *options) as cluster:
        url = f"{cluster.url}/user/{cluster.user}/photos"
        run("pack", photos, "-o", url)
        with (
            open_loader(dataset, transform=RANDOM) as local,
            open_loader(url, transform=RANDOM, cache_dir=tmp_path) as remote,
        ):
            assert history(remote, 1) == history(local, 1)
            cluster.do("activate", nn=1)
            assert history(remote, STEPS) == history(local, STEPS)
        with open_loader(url, transform=RANDOM, cache_dir=tmp_path) as again:
            assert len(history(again, 1)) > 0


def test_steps_ask_no_namenode(photos_url: str, tmp_path: pathlib.Path) -> None:
    with open_loader(photos_url, cache_dir=tmp_path) as loader:
        history(loader, STEPS)
        before, asked = calls(loader), loader.stats()["reads"]["asked_bytes"]
        history(loader, 3 * STEPS)
        assert calls(loader) == before
        reads = loader.stats()["reads"]
    # What is asked for counts at once, what comes when it is there: reads may be under way.
    assert reads["wire_bytes"] >= asked > 0
    assert reads["connections"] > 0
    assert sum(reads[f"{place}_bytes"] for place in ("same_node", "same_rack", "remote")) >= asked


def test_packed_from_hdfs_it_is_the_same_dataset(hdfs: MiniHdfs, photos: pathlib.Path, photos_url: str) -> None:
    for label in sorted(photos.iterdir()):
        for file in sorted(label.iterdir())[:2]:
            path = f"/user/{hdfs.user}/files/{label.name}/{file.name}"
            hdfs.do("put", path=path, local=str(file), user=hdfs.user, replication=3, blockSize=1 << 20)
    run("pack", f"{hdfs.url}/user/{hdfs.user}/files", "-o", f"{hdfs.url}/user/{hdfs.user}/packed")
    summary = json.loads(run("inspect", f"{hdfs.url}/user/{hdfs.user}/packed", "--json"))
    assert summary["samples"] == 6
    run("verify", photos_url)


def test_an_overwritten_file_stops_the_run(hdfs: MiniHdfs, photos: pathlib.Path, tmp_path: pathlib.Path) -> None:
    url = f"{hdfs.url}/user/{hdfs.user}/overwritten"
    run("pack", photos, "-o", url)
    listing = [json.loads(line) for line in run("ls", "--json", url).splitlines()]
    bin_file = next(file for file in listing if file["name"].endswith(".bin"))
    other = tmp_path / "other"
    other.write_bytes(os.urandom(bin_file["size"]))  # of the same length
    with open_loader(url, prefetch=1, cache_dir=tmp_path) as loader:
        seen = history(loader, 1)
        path = bin_file["url"].removeprefix(hdfs.url)
        hdfs.do("put", path=path, local=str(other), user=hdfs.user, replication=3, blockSize=1 << 20)
        now = json.loads(run("ls", "--json", bin_file["url"]))["identity"]
        assert now != bin_file["identity"]
        deadline = time.monotonic() + 60  # DataNodes keep the old blocks for some seconds, and old bytes are right
        with pytest.raises(stepahead.IdentityError, match="identity changed") as caught:
            while time.monotonic() < deadline:
                seen += history(loader, 1)
    for identity in (bin_file["identity"], now):
        assert identity in str(caught.value)
    assert caught.value.diff == [f"opened as {bin_file['identity']}", f"now {now}"]
    other_url = f"{hdfs.url}/user/{hdfs.user}/not overwritten"
    run("pack", photos, "-o", other_url)
    with open_loader(other_url, cache_dir=tmp_path) as loader:
        right = {(sample, digest) for _, sample, digest in history(loader, 4 * STEPS)}
    assert {(sample, digest) for _, sample, digest in seen} <= right  # nothing of the new version


@pytest.mark.parametrize(
    ("dataset_url", "says"),
    [
        ("hdfs://127.0.0.1:1/photos", "127.0.0.1:1"),
        ("hdfs://no-such-cluster.invalid/photos", "no-such-cluster.invalid"),
        ("hdfs:/photos", "hdfs:///photos"),
        ("hdfs:///user/trainer/none", "none"),
        ("hdfs:///closed/photos", "ermission"),
    ],
)
def test_what_cannot_be_read_says_why(hdfs: MiniHdfs, dataset_url: str, says: str) -> None:
    hdfs.do("folder", path="/closed", owner="hdfs", mode=0o700)
    with pytest.raises(stepahead.StoreError, match=says):
        stepahead.DataLoader(dataset_url, global_batch=1, transform=CROP, workers=1)
