"""Runs the controller of a cluster, and the agent that hands it what jobs foretell."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import time
from typing import Any

import stepahead.lifecycle

PRICES = """accelerator-hour: 2
wan-gib: 0.02
remote-tib-hour: 0.05
replica-tib-hour: 0.1
storage-gib: 0.001
entry: 0.0001
"""
BUDGETS = """time-zone: UTC
wan: {{on: true, links: {{{site}: {{rate: 10 GB/s, transfers: 4, held: 1 TiB, byte-hours-per-day: 100 TiB*h}}}}}}
replicas: {{on: true, held: 1 TiB, byte-hours-per-day: 100 TiB*h, makes: 4}}
storage: {{on: true, egress: 100 GB/s, cores: 64, memory: 64 GiB}}
"""
POLICY = """sites: {{{site}: {{region: there}}}}
rules: [{{name: everything, when: {{paths: /**}}, copies: allow, spread: [sibling, even]}}]
"""


class Controller:
    """An agent on one node of a store and the controller; `say` is `stepahead.lifecycle` with those two to hear it."""

    def __init__(
        self,
        bin: pathlib.Path,
        work: pathlib.Path,
        store: str,
        node: str,
        env: dict[str, str],
        *options: str,
        site: str = "far",
        far: dict[str, str] | None = None,
    ) -> None:
        """`env` is the agent's, and the controller's too unless it is `far` from the store; `options` are the controller's."""
        self.bin, self.work, self.store, self.node, self.env, self.site = bin, work, store, node, env, site
        self._ends = contextlib.ExitStack()
        key = work / "catalogue.key"
        self.run("stepahead", "token", "keygen", "--catalogue", "--key", key)
        for name, text in {"policy": POLICY, "budgets": BUDGETS, "prices": PRICES}.items():
            (work / f"{name}.yaml").write_text(text.format(site=site))
        agent = ["--store", store, "--node", node, "--cache", work / "agent"]
        settings = [f"--{name}={work / name}.yaml" for name in ("policy", "budgets", "prices")]
        mine = ["--store", store, "--journal", work / "journal", "--catalogue-key", key, "--reconcile", "5s", *settings]
        try:
            self._serve(env, "stepahead-agent", *agent)
            said = self._serve(far or env, "stepahead-controller", *mine, *options)
            self.address = said.rpartition("addr=")[2].split()[0]
        except BaseException:
            self._ends.close()
            raise
        os.environ.update({name: env[name] for name in ("HADOOP_CONF_DIR", "HADOOP_USER_NAME") if name in env})
        self._until_active()
        self.say = stepahead.lifecycle
        self.say.configure(store=store, job="bench")

    def run(self, program: str, *arguments: Any) -> str:
        command = [str(self.bin / program), *map(str, arguments)]
        return subprocess.run(command, env=self.env, check=True, stdout=subprocess.PIPE, text=True).stdout

    def _serve(self, env: dict[str, str], program: str, *arguments: Any) -> str:
        """Start a program that serves, and return the line that it says first."""
        log = self._ends.enter_context((self.work / f"{program}.log").open("wb"))
        command = [str(self.bin / program), *map(str, arguments)]
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=log, text=True)
        self._ends.callback(_end, process)
        assert process.stdout
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{program} did not come up: {(self.work / f'{program}.log').read_text()[-2000:]}")
        return line.strip()

    def ctl(self, *arguments: str) -> Any:
        """What `stepahead ctl` says."""
        return json.loads(self.run("stepahead", "ctl", *arguments, "--json", "--controller", self.address))

    def _until_active(self, seconds: float = 60) -> None:
        """Wait until it holds the lease of the one that acts."""
        deadline = time.monotonic() + seconds
        command = [str(self.bin / "stepahead"), "ctl", "plan", "--controller", self.address]
        while subprocess.run(command, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the controller is not active after {seconds} s")
            time.sleep(0.1)

    def placements(self, path: str) -> list[dict[str, Any]]:
        """What there is of a path now."""
        found: list[dict[str, Any]] = self.ctl("plan")["placements"]
        return [p for p in found if p["path"] == path]

    def wait(self, path: str, states: set[str], seconds: float = 120) -> None:
        """Wait until all that there is of a path is in one of the states; an empty set: until there is nothing."""
        deadline = time.monotonic() + seconds
        while True:
            now = {p["state"] for p in self.placements(path)}
            if now <= states and (now or not states):
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"{path}: {now or 'nothing'} after {seconds} s: {self.ctl('why', path)}")
            time.sleep(0.2)

    def left(self) -> list[str]:
        """What is still marked as the controller's in the stores."""
        return [one["mark"] for one in self.ctl("sweep", "--all", "--dry-run")["swept"]]

    def __enter__(self) -> Controller:
        return self

    def __exit__(self, *exc: object) -> None:
        self._ends.close()


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
