"""Programs that race, each in a process of its own, which does one task for each line of JSON that it is sent."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]

Result = dict[str, Any]
Results = dict[str, list[Result]]


class Process:
    """A program that answers each line of JSON with one."""

    def __init__(self, name: str, command: list[str], log: pathlib.Path, env: dict[str, str] | None = None) -> None:
        self.name, self.log = name, log
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    def read(self) -> Any:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise self._ended()
        return json.loads(line)

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _ended(self) -> RuntimeError:
        return RuntimeError(f"{self.name} ended: {self.log.read_text()[-1000:]}")

    def ask(self, message: dict[str, Any]) -> Any:
        self.send(message)
        return self.read()

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(60)


def race(
    racers: dict[str, Process], names: list[str], rounds: int, task: Callable[[int], dict[str, Any]], warm: int = 1
) -> Results:
    """All in turn, round by round, each round with the same task; who begins changes. The first rounds do not count."""
    present = [name for name in names if name in racers]
    results: Results = {name: [] for name in present}
    for i in range(rounds + warm):
        turn = i % len(present)
        for name in present[turn:] + present[:turn]:
            result = racers[name].ask(task(i))
            if i >= warm:
                results[name].append(result)
    return results
