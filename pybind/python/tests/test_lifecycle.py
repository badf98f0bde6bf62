"""What lifecycle says arrives at a real agent, with who said it; nothing of it waits or fails for agents."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import stepahead
from stepahead import _loader, lifecycle

RANKS = 4
AGENT = pathlib.Path(__file__).resolve().parents[3] / "bin" / "stepahead-agent"


class Agent:
    """A stepahead-agent beside a store, and the ledger of what it was told."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.store = folder / "store"
        self.store.mkdir()
        self.ledger = folder / "ledger"
        self.process = subprocess.Popen(
            [
                AGENT,
                *("--store", self.store, "--node", "local", "--relay", self.ledger),
                *("--cache", folder / "cache", "--load", "25%", "--log-level", "error"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("listening")
        entry = self.store / ".stepahead" / "agents" / "local.json"
        until = time.monotonic() + 60
        while not entry.exists():
            assert time.monotonic() < until
            time.sleep(0.01)

    def told(self) -> list[dict[str, Any]]:
        out = subprocess.run(
            [AGENT, "relay", "print", "--relay", self.ledger],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        return [json.loads(line) for line in out.splitlines()]

    def checkpoint(self, name: str) -> pathlib.Path:
        folder = self.store / "runs" / name
        folder.mkdir(parents=True)
        for rank in range(RANKS):
            (folder / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt").write_bytes(
                b"PK\x03\x04" + b"PK\x05\x06" + 18 * b"\0"
            )
        (folder / "mp_rank_00_model_states.pt").write_bytes(b"PK\x03\x04" + b"PK\x05\x06" + 18 * b"\0")
        return folder


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    it = Agent(tmp_path_factory.mktemp("lifecycle"))
    yield it
    it.process.terminate()
    assert it.process.wait(30) == 0


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    yield
    lifecycle.configure()


def test_each_is_one_line(agent: Agent) -> None:
    lifecycle.configure(job="job", run="run")
    folder = agent.checkpoint("global_step7")
    lifecycle.saving(folder, 7)
    lifecycle.committed(folder, world_size=RANKS)
    lifecycle.evaluation_scheduled(folder, "mmlu", site="dc2", expected_in=60, urgency=0.5, confidence=0.9)
    lifecycle.evaluation_cancelled(folder, "mmlu")
    lifecycle.evaluation_opened(folder, "mmlu", site="dc2")
    lifecycle.evaluation_loaded(folder, "mmlu")
    lifecycle.evaluation_result(folder, "mmlu", metric="acc", value=0.25, regression=True)
    lifecycle.evaluation_result(folder, "mmlu", metric="loss", value=float("nan"))
    lifecycle.evaluation_done(folder, "mmlu")
    lifecycle.evaluation_decided(folder, "rollback", "mmlu")
    lifecycle.loss_spike(folder, 8)
    lifecycle.deleted(folder)
    lifecycle.starting(
        folder, ranks=RANKS, ranks_per_host=2, expected_in=30, files={agent.store / "config.yaml": RANKS}
    )
    after = lifecycle.told(60)
    assert after.done and after.refused == after.lost == 0 and after.told >= 13
    records = agent.told()
    states = ["saving", "committed", "evaluation-scheduled", "evaluation-cancelled"]
    states += ["evaluation-opened", "evaluation-loaded", "evaluation-result", "evaluation-result", "evaluation-done"]
    states += ["evaluation-decided", "loss-spike", "deleted"]
    assert [r["checkpoint"]["state"] for r in records[:-1]] == states
    assert {(r["job"], r["run"]) for r in records} == {("job", "run")}
    assert {r["checkpoint"]["path"] for r in records[:-1]} == {"/runs/global_step7"}
    whole = records[1]
    assert whole["checkpoint"]["step"] == 7 and whole["checkpoint"]["layout"] == "deepspeed"
    assert len(whole["identity"]) == 64 and len(whole["checkpoint"]["files"]) == RANKS + 1
    planned = records[2]
    assert planned["confidence"] == 0.9
    assert (planned["checkpoint"]["evaluation"], planned["checkpoint"]["site"]) == ("mmlu", "dc2")
    assert planned["checkpoint"]["expected_in_ms"] == 60_000 and planned["checkpoint"]["urgency"] == 0.5
    results = [r["checkpoint"]["result"] for r in records if r.get("checkpoint", {}).get("result")]
    assert results == [{"metric": "acc", "value": 0.25, "regression": True}, {"metric": "loss", "regression": False}]
    assert [r["checkpoint"].get("decision") for r in records[-4:-1]] == ["rollback", None, None]
    assert all(0 <= r["checkpoint"].get("ago_ms", 0) < 60_000 for r in records[:-1])
    start = records[-1]["start"]
    hot = {"path": "/runs/global_step7/mp_rank_00_model_states.pt", "readers": RANKS}
    assert start["ranks"] == RANKS and start["ranks_per_host"] == 2 and start["expected_in_ms"] == 30_000
    assert start["files"] == [{"path": "/config.yaml", "readers": RANKS}, hot]
    assert records[-1]["identity"] == whole["identity"]


def test_how_far_a_start_is(agent: Agent) -> None:
    lifecycle.configure(job="job", run="phases")
    known = len(agent.told())
    folder = agent.store / "runs" / "from"
    with lifecycle.loading(folder):
        pass
    with pytest.raises(ZeroDivisionError), lifecycle.loading(folder):
        raise ZeroDivisionError
    loading = lifecycle.loading(folder)
    loading.done(seconds=np.array([3, 1, 2]), bytes_read=7)  # as it is gathered
    loading.done()  # is said once
    lifecycle.ended()
    after = lifecycle.told(60)
    assert after.done and after.refused == after.lost == 0
    records = agent.told()[known:]
    assert {(r["job"], r["run"]) for r in records} == {("job", "phases")}
    starts = [r["start"] for r in records[:-1]]
    assert [s["phase"] for s in starts] == ["opened", "read", "opened", "opened", "read"]
    assert {(s["ranks"], s["ranks_per_host"]) for s in starts} == {(1, 1)}
    assert all(s["files"] == [{"path": "/runs/from", "readers": 1}] for s in starts)
    assert "median_ms" not in starts[1] and "bytes" not in starts[1]
    assert (starts[-1]["median_ms"], starts[-1]["last_ms"], starts[-1]["bytes"]) == (2000, 3000, 7)
    assert records[-1]["ended"] is True


def test_the_end_of_nothing() -> None:
    code = "from stepahead import lifecycle; lifecycle.ended()"
    end = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert end.returncode != 0 and "nothing was said before" in end.stderr


def test_not_complete_is_not_committed(agent: Agent) -> None:
    folder = agent.checkpoint("global_step8")
    before, known = lifecycle.told(60), len(agent.told())
    lifecycle.committed(folder, world_size=RANKS + 1)
    after = lifecycle.told(60)
    assert after.done and (after.told, after.lost) == (before.told, before.lost + 1)
    assert len(agent.told()) == known


def test_loaders_job(agent: Agent, dataset: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A save is of the job and run of the loader in use, so that agents know whose clock it stops."""
    monkeypatch.setattr(_loader, "_open_loaders", weakref.WeakSet())  # others may not be collected yet
    known = len(agent.told())

    def loader(run: str, **options: Any) -> stepahead.DataLoader:
        return stepahead.DataLoader(dataset, global_batch=2, fields=["label"], job="mine", run=run, **options)

    def save(step: int) -> None:
        lifecycle.saving(agent.store / "runs" / "x", step)

    with loader("first") as first, loader("second") as second:
        save(1)
        next(iter(first))
        save(2)
        with loader("prepared", agents=["auto"]):
            next(iter(second))
            save(3)
    assert lifecycle.told(60).done
    records = sorted(agent.told()[known:], key=lambda r: r["checkpoint"]["step"])  # runs are told of side by side
    assert [r["run"] for r in records] == ["second", "first", "prepared"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: lifecycle.saving("x", step=-1), "step"),
        (lambda: lifecycle.saving("x", step="one"), "step"),  # type: ignore[arg-type]
        (lambda: lifecycle.saving("", 1), "checkpoint"),
        (lambda: lifecycle.saving("x", holds=-1), "holds"),
        (lambda: lifecycle.saving("x", holds=1e6), "ttl"),
        (lambda: lifecycle.loss_spike("x", urgency=2), "urgency"),
        (lambda: lifecycle.evaluation_scheduled("x", confidence=1.5), "confidence"),
        (lambda: lifecycle.evaluation_scheduled("x", site="\n"), "site"),
        (lambda: lifecycle.evaluation_decided("x", "wait"), "decision"),
        (lambda: lifecycle.evaluation_result("x", metric="\n"), "metric"),
        (lambda: lifecycle.evaluation_result("x", value="much"), "value"),  # type: ignore[arg-type]
        (lambda: lifecycle.evaluation_result("x", value=10**400), "value"),
        (lambda: lifecycle.starting(ranks=8, ranks_per_host=8), "checkpoint"),
        (lambda: lifecycle.starting("x", ranks=8, ranks_per_host=9), "ranks_per_host"),
        (lambda: lifecycle.starting("x", ranks=2**32 + 8, ranks_per_host=8), "ranks"),
        (lambda: lifecycle.starting("x", ranks=8, ranks_per_host=8, tensor_parallel=3), "divided"),
        (lambda: lifecycle.starting("x", ranks=8, ranks_per_host=8, files=["a"]), "files"),  # type: ignore[arg-type]
        (lambda: lifecycle.configure(agents="dn1") or lifecycle.saving("x"), "agents"),
        (lambda: lifecycle.configure(token="no token") or lifecycle.saving("x"), "token"),
    ],
)
def test_wrong_arguments(call: Any, words: str) -> None:
    with pytest.raises(stepahead.OptionError, match=words):
        call()


def test_nobody_there(tmp_path: pathlib.Path) -> None:
    """Without agents a call takes no time and raises nothing, and the process ends soon."""
    code = (
        "import sys, time\nfrom stepahead import lifecycle\n"
        "lifecycle.saving(sys.argv[1] + '/step-1', 1)\n"
        "assert lifecycle.told().told == 0\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "no agents found" in result.stderr or "context canceled" in result.stderr


def test_a_wait_can_be_interrupted(tmp_path: pathlib.Path) -> None:
    """Ctrl-C ends it while what was said still waits to be told."""
    code = (
        "import _thread, signal, sys, threading\nfrom stepahead import lifecycle\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs ignore it
        "lifecycle.saving(sys.argv[1] + '/step-1', 1)\n"
        "threading.Timer(0.5, _thread.interrupt_main).start()\n"
        "try:\n    lifecycle.told(600)\n"
        "except KeyboardInterrupt:\n    print(lifecycle.told().done)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_signal_in_the_midst(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler of a signal may speak, whatever its thread was about to say."""
    lifecycle.configure(job="job", run="signal")
    known, place, options = len(agent.told()), agent.store / "runs" / "s", lifecycle._speaker.options
    before = signal.signal(signal.SIGUSR1, lambda *_: lifecycle.saving(place, 2))

    def interrupted(path: str) -> str:
        monkeypatch.undo()
        signal.raise_signal(signal.SIGUSR1)
        return options(path)

    try:
        monkeypatch.setattr(lifecycle._speaker, "options", interrupted)
        lifecycle.saving(place, 1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert lifecycle.told(60).done
    assert [r["checkpoint"]["step"] for r in agent.told()[known:]] == [2, 1]


def test_other_ranks_are_silent(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    class Group:
        @staticmethod
        def get_rank() -> int:
            return 1

    known = len(agent.told())
    monkeypatch.setattr(lifecycle, "_group", lambda: Group())
    lifecycle.saving(agent.store / "runs" / "y", 1)
    assert lifecycle.told(60).done and len(agent.told()) == known


def test_forked_child_goes_on(agent: Agent) -> None:
    """A child of a process that has spoken cannot speak, and works on."""
    lifecycle.saving(agent.store / "runs" / "z", 1)
    child = os.fork()
    if child == 0:
        try:
            lifecycle.saving(agent.store / "runs" / "z", 2)
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert lifecycle.told(60).done
