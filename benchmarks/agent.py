"""Runs the agent of a simulated storage node."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import time
from collections.abc import Iterator

from benchmarks.dataset import BIN


@contextlib.contextmanager
def agent(store: pathlib.Path, node: str, *options: str) -> Iterator[int]:
    """Run the agent of a node while the block runs; its process id, once it is registered."""
    command = [BIN / "stepahead-agent", "--store", store, "--node", node, "--worker", BIN / "stepahead-worker"]
    command += ["--log-level", "error", *options]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
    try:
        wait_for(store / ".stepahead" / "agents" / f"{node}.json", process)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def wait_for(registration: pathlib.Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 20
    while not registration.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the agent that should write {registration} did not come up")
        time.sleep(0.02)
