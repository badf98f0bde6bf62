"""What a line of Python says comes to the controller's plan: through an agent's ledger, which the controller follows."""

from __future__ import annotations

import json
import pathlib
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
import stepahead
from stepahead import lifecycle
from test_lifecycle import Agent, agent, as_it_was  # noqa: F401  the agent

PROGRAMS = pathlib.Path(__file__).resolve().parents[3] / "bin"
RANKS = 64


class Controller:
    """A controller beside the agent's store, which plans and does nothing."""

    def __init__(self, agent: Agent) -> None:  # noqa: F811
        self.process = subprocess.Popen(
            [PROGRAMS / "stepahead-controller", "--dry-run", "--store", agent.store, "--log-level", "error"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("listening addr=")
        self.address = line.split()[1].removeprefix("addr=")

    def why(self, path: str) -> str:
        """What is known of a path, for people."""
        command = [PROGRAMS / "stepahead", "ctl", "why", path, "--json", "--controller", self.address]
        out = subprocess.run(command, capture_output=True, text=True, check=False)
        return json.dumps(json.loads(out.stdout)) if out.returncode == 0 else ""

    def until(self, path: str, holds: Callable[[str], bool]) -> str:
        late = time.monotonic() + 60
        while not holds(known := self.why(path)):
            assert time.monotonic() < late, known
            time.sleep(0.05)
        return known


@pytest.fixture
def controller(agent: Agent) -> Iterator[Controller]:  # noqa: F811
    it = Controller(agent)
    yield it
    it.process.terminate()
    assert it.process.wait(30) == 0


def test_a_start(agent: Agent, controller: Controller) -> None:  # noqa: F811
    hot = agent.store / "hot.bin"
    hot.write_bytes(bytes(1000))
    lifecycle.configure(job="launched", run="by the launcher")
    lifecycle.starting(ranks=RANKS, ranks_per_host=8, expected_in=600, files={hot: RANKS})
    assert lifecycle.told(60).done
    controller.until("/hot.bin", lambda known: f"{RANKS} readers" in known)
    lifecycle.configure(job="launched", run="by the ranks")
    with lifecycle.loading(hot):
        pass
    controller.until("/hot.bin", lambda known: f"{RANKS} readers" not in known)


def test_an_evaluation(agent: Agent, controller: Controller) -> None:  # noqa: F811
    folder = agent.checkpoint("global_step70")
    lifecycle.configure(job="evaluated", run="1")
    lifecycle.committed(folder, world_size=4)
    lifecycle.evaluation_scheduled(folder, "mmlu", site="east", expected_in=60)
    assert lifecycle.told(60).done
    controller.until("/runs/global_step70", lambda known: "east" in known)


def test_the_words_of_options(agent: Agent) -> None:  # noqa: F811
    with pytest.raises(stepahead.OptionError, match="bytes_read"):
        lifecycle.loading(agent.store / "x").done(bytes_read=-1)
    assert lifecycle.told(60).done
