"""The programs of the demo: agent, controller, and those of jobs, each a process of its own."""

from __future__ import annotations

import contextlib
import json
import pathlib
import subprocess
import time
from collections.abc import Callable
from typing import Any

from datacenters import AGENT, AWAY, HOME, OPERATOR, ROOT, USER, Datacenters

BIN = ROOT / "bin"
FILES = {
    "policy": f"""sites: {{{AWAY}: {{region: there}}}}
rules:
  - name: what runs save may be evaluated anywhere, and be spread at a start
    when: {{paths: /runs/**, users: [{USER}]}}
    copies: allow
    spread: [sibling, even]
""",
    "budgets": f"""time-zone: UTC
wan: {{on: true, links: {{{AWAY}: {{rate: 7 MB/s, transfers: 2, held: 1 GiB, byte-hours-per-day: 1 TiB*h}}}}}}
replicas: {{on: true, held: 1 GiB, byte-hours-per-day: 1 TiB*h, makes: 2}}
storage: {{on: true, egress: 200 MB/s, cores: 8, memory: 4 GiB}}
""",
    "prices": """accelerator-hour: 2
wan-gib: 0.02
remote-tib-hour: 0.05
replica-tib-hour: 0.1
storage-gib: 0.001
entry: 0.0001
""",
}


class Program:
    """A process that answers each line of its input with a line of JSON."""

    def __init__(self, name: str, command: list[Any], log: pathlib.Path, environment: dict[str, str]) -> None:
        self.name, self.log = name, log
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                list(map(str, command)),
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def send(self, message: Any) -> None:
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):  # reading says why it ended
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()

    def line(self) -> str:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} has ended; the end of {self.log}:\n{self.log.read_text()[-2000:]}")
        return line.strip()

    def read(self) -> Any:
        return json.loads(self.line())

    def ask(self, message: Any) -> Any:
        self.send(message)
        return self.read()

    def end(self) -> None:
        """Close its input, and wait until it has ended."""
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self._wait()

    def stop(self) -> None:
        """End it by SIGTERM."""
        self.process.terminate()
        self._wait()

    def _wait(self) -> None:
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Services:
    """Keys and files, an agent on a DataNode at home, and the controller, when it is started."""

    def __init__(self, folder: pathlib.Path, datacenters: Datacenters) -> None:
        self.folder, self.datacenters = folder, datacenters
        self.spoken: dict[str, str] = {}  # what stepahead needs to speak to the controller
        self.key, self.catalogue_key = folder / "agents.key", folder / "catalogue.key"
        self.stepahead("token", "keygen", "--key", self.key)
        self.stepahead("token", "keygen", "--catalogue", "--key", self.catalogue_key)
        for name, text in FILES.items():
            (folder / f"{name}.yaml").write_text(text)
        self.spoken["STEPAHEAD_TOKEN"] = self.token("operations", "operate")
        self.controller: Program | None = None
        self._agent = self._serve(
            "stepahead-agent", AGENT, "--store", f"hdfs://{HOME}/", "--node", datacenters.node, "--key", self.key,
            "--cache", folder / "agent",
        )  # fmt: skip
        self._agent.line()

    def stepahead(self, *arguments: Any, here: str = HOME) -> str:
        """Run the command stepahead as the operator in a datacenter, and return what it prints."""
        environment = {**self.datacenters.environment(here, OPERATOR), **self.spoken}
        command = [str(BIN / "stepahead"), *map(str, arguments)]
        with (self.folder / "stepahead.log").open("ab") as errors:
            return subprocess.run(
                command, check=True, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
            ).stdout

    def token(self, job: str, rights: str) -> str:
        words = ["--key", self.key, "--job", job, "--user", USER, "--root", "/", "--rights", rights, "--ttl", "1h"]
        return self.stepahead("token", "mint", *words).strip()

    def _serve(self, name: str, user: str, *arguments: Any) -> Program:
        environment = self.datacenters.environment(HOME, user)
        return Program(name, [BIN / name, *arguments], self.folder / f"{name}.log", environment)

    def start_controller(self, **rates: int) -> None:
        """Start it and return: whether it is the active one shows later."""
        mine = ["--store", f"hdfs://{HOME}/", "--site", f"{AWAY}=hdfs://{AWAY}/", "--journal", self.folder / "journal"]
        mine += ["--key", self.key, "--catalogue-key", self.catalogue_key, "--reconcile", "5s", "--grace", "3s"]
        mine += [f"--{name}={self.folder / name}.yaml" for name in FILES]
        mine += [f"--{name.replace('_', '-')}={value}" for name, value in rates.items()]
        self.controller = self._serve("stepahead-controller", OPERATOR, *mine)
        self.spoken["STEPAHEAD_CONTROLLER"] = self.controller.line().rpartition("addr=")[2].split()[0]

    def kill_controller(self) -> None:
        """kill -9: its lease stays behind, and whatever it had begun."""
        assert self.controller
        self.controller.process.kill()
        self.controller.process.wait()

    def active(self) -> bool:
        """Whether the controller is the one that acts."""
        with contextlib.suppress(subprocess.CalledProcessError):
            return bool(json.loads(self.stepahead("ctl", "status", "--json"))["state"] == "active")
        return False

    def placements(self, path: str) -> dict[str, str]:
        """What the controller has or makes of a path: the state of each means."""
        try:
            found = json.loads(self.stepahead("ctl", "plan", "--json"))["placements"]
        except subprocess.CalledProcessError:  # it is not the active one yet
            return {}
        return {p.get("means", "copy"): p["state"] for p in found if p["path"] == path}

    def sending(self, path: str) -> bool:
        """Whether bytes of a copy are at the other datacenter, and it is not whole."""
        if self.placements(path).get("copy") != "making":
            return False
        url = f"hdfs://{AWAY}/.stepahead/data"
        for _ in range(2):  # the place of the placement, and the making in it
            names = self._names(url)
            if not names:
                return False
            url = f"{url}/{names[-1]}"
        return bool(self._names(f"{url}/data/{path.rpartition('/')[2]}"))

    def _names(self, folder: str) -> list[str]:
        """What a folder at the other datacenter has; nothing where there is none."""
        with contextlib.suppress(subprocess.CalledProcessError):
            return [name.rstrip("/") for name in self.stepahead("ls", folder, here=AWAY).split()]
        return []

    def left(self) -> list[str]:
        """What of the controller is still in either store, whoever may be asked."""
        for _ in range(10):  # a store is asked for the time by a file that is there for a moment
            left = self._lying()
            if not left:
                break
            time.sleep(1)
        return left

    def _lying(self) -> list[str]:
        found = json.loads(self.stepahead("ctl", "sweep", "--all", "--dry-run", "--json"))["swept"]
        left = [f"ctl sweep: {one}" for one in found]
        for store in (HOME, AWAY):
            for folder in ("catalogue", "temporary", "data"):
                for name in self.stepahead("ls", f"hdfs://{store}/.stepahead/{folder}").split():
                    if name.rstrip("/") not in ("keys", "damaged"):
                        left.append(f"hdfs://{store}/.stepahead/{folder}/{name}")
        return left

    def close(self) -> None:
        for program in (self.controller, self._agent):
            if program:
                program.stop()


def wait(what: str, condition: Callable[[], bool], seconds: float = 120, every: float = 0.2) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {seconds:.0f} s for {what}")
        time.sleep(every)
