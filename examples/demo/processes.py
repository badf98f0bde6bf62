"""The processes of the demo: agents beside storage nodes, and training runs."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "bin"
TRAIN = ROOT / "examples" / "train_fsdp.py"


def stepahead(*arguments: str, environment: Mapping[str, str] | None = None, stderr: int | None = None) -> str:
    """Run the command stepahead and return what it prints."""
    env = {**os.environ, **(environment or {})}
    result = subprocess.run(
        [BIN / "stepahead", *arguments], check=True, stdout=subprocess.PIPE, stderr=stderr, text=True, env=env
    )
    return result.stdout


class Agents:
    """One agent for each node of a store. `work` is their metrics at the end, each summed over its labels and the agents."""

    def __init__(
        self, store: str, nodes: list[str], key: pathlib.Path, logs: pathlib.Path, environment: Mapping[str, str]
    ) -> None:
        self.store, self.nodes, self.key, self.logs = store, nodes, key, logs
        self.environment = {**os.environ, **environment}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.work: defaultdict[str, float] = defaultdict(float)

    def __enter__(self) -> Agents:
        for node in self.nodes:
            self.start(node)
        return self

    def start(self, node: str) -> None:
        """Start the agent of a node, whose other work is simulated: a steady 25 % of its CPUs."""
        command = [BIN / "stepahead-agent", "--store", self.store, "--node", node, "--key", self.key]
        command += ["--worker", BIN / "stepahead-worker", "--workers", "1", "--load", "25%", "--dwell", "1s"]
        command += ["--metrics", "127.0.0.1:0"]
        with open(self.log(node), "ab") as log:
            self.running[node] = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log, env=self.environment)

    def log(self, node: str) -> pathlib.Path:
        return self.logs / f"agent-{node}.log"

    def note(self, node: str) -> None:
        """Add what an agent's metrics say to `work`; it ends after this."""
        addresses = re.findall(r"^listening .* metrics=(\S+)$", self.log(node).read_text(), re.MULTILINE)
        with contextlib.suppress(OSError, IndexError):  # it has ended, or never came up
            page = urllib.request.urlopen(f"http://{addresses[-1]}/metrics", timeout=10).read().decode()
            for line in page.splitlines():
                if not line.startswith("#"):
                    name, value = line.rsplit(" ", 1)
                    self.work[name.split("{", 1)[0]] += float(value)

    def kill(self, node: str) -> None:
        """kill -9: no good-bye, its registration stays behind."""
        self.note(node)
        self.running[node].kill()
        self.running[node].wait()

    def __exit__(self, *_: object) -> None:
        for node in self.running:
            self.note(node)
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()


class Training:
    """One start of the training script with some ranks, and the files that it leaves."""

    def __init__(self, folder: pathlib.Path, dataset: str, ranks: int, *arguments: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.ranks = folder, ranks
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        command += [str(TRAIN), dataset, "--times", str(folder / "times"), "--stats", str(folder / "stats")]
        command += ["--record", str(folder / "record"), "--totals", str(folder / "totals")]
        self.command = [*command, *arguments]

    def run(self, environment: dict[str, str], on_step: Callable[[int], None] = lambda step: None) -> None:
        """Run to the end, telling `on_step` of each step that rank 0 finished. Raises RuntimeError with the output's end."""
        output = self.folder / "output.txt"
        env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", **environment}
        with open(output, "wb") as log:
            process = subprocess.Popen(self.command, stdout=log, stderr=log, env=env, start_new_session=True)
        try:
            for step in follow_steps(self.folder / "times.rank0", lambda: process.poll() is None):
                on_step(step)
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            raise
        finally:
            process.wait()
        if process.returncode != 0:
            tail = output.read_text(errors="replace")[-3000:]
            raise RuntimeError(f"training failed with exit code {process.returncode}; the end of {output}:\n{tail}")

    def records(self) -> list[pathlib.Path]:
        return sorted(self.folder.glob("record.rank*"))


def follow_steps(log: pathlib.Path, running: Callable[[], bool]) -> Iterator[int]:
    """The steps in a log as they are written, until the process that writes them has ended."""
    position = 0
    while True:
        alive = running()
        text = log.read_text() if log.exists() else ""
        end = text.rfind("\n") + 1
        for line in text[position:end].splitlines():
            yield json.loads(line)["step"]
        position = max(position, end)
        if not alive:
            return
        time.sleep(0.05)


def wait(condition: Callable[[], bool], seconds: float, what: str, every: float = 0.05) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {seconds:.0f} s for {what}")
        time.sleep(every)
