"""The example that kills a job and resumes it, from a folder and from HDFS."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
from conftest import run
from test_hdfs import hdfs, minihdfs  # noqa: F401  the cluster

EXAMPLE = pathlib.Path(__file__).resolve().parents[3] / "examples" / "resume_fsdp.py"


@pytest.mark.timeout(900)  # three jobs, one after the other
@pytest.mark.parametrize("where", ["folder", "hdfs"])
def test_a_killed_job_ends_with_the_same_bytes(
    where: str, request: pytest.FixtureRequest, photos: pathlib.Path, dataset: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    checkpoints, data = str(tmp_path / "runs"), str(dataset)
    if where == "hdfs":
        cluster = request.getfixturevalue("hdfs")
        data = f"{cluster.url}/user/{cluster.user}/{tmp_path.name}/photos"
        checkpoints = f"{cluster.url}/user/{cluster.user}/{tmp_path.name}/runs"
        run("pack", photos, "-o", data)
    command = [sys.executable, "-W", "ignore", str(EXAMPLE), data, checkpoints]
    out = subprocess.run(command, capture_output=True, text=True, timeout=850, check=False)
    assert out.returncode == 0 and "the same bytes" in out.stdout, out.stdout + out.stderr[-5000:]
    assert "begins with step 6" in out.stdout
