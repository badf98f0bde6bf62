"""Hooked saves of torch and Megatron, and Writer(lifecycle=True), tell a real agent when they begin and when they are whole; once, by one rank."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import logging
import os
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import multistorageclient as msc
import pytest
import ranks
import stepahead
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from stepahead import _saves, checkpoint, lifecycle
from test_lifecycle import Agent, agent, as_it_was  # noqa: F401  the agent
from torch.distributed.checkpoint import state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException

WHOLE = ["saving", "committed"]


class Failing(dcp.DefaultSavePlanner):
    def finish_plan(self, new_plan: Any) -> Any:
        raise ZeroDivisionError("a planner that fails")


def state() -> dict[str, Any]:
    return {"w": torch.arange(10.0), "step": 3}


class Heard:
    """What an agent is told of a folder of checkpoints."""

    def __init__(self, agent: Agent, folder: str) -> None:  # noqa: F811
        self.root = agent.store / "runs" / folder.translate({ord(c): "-" for c in "[] "})  # fsspec expands patterns
        self._agent = agent

    def of(self, name: str) -> list[str]:
        assert lifecycle.told(60).done
        path = f"/{(self.root / name).relative_to(self._agent.store)}"
        told = [record["checkpoint"] for record in self._agent.told() if "checkpoint" in record]
        return [one["state"] for one in told if one["path"] == path]


@pytest.fixture
def heard(agent: Agent, request: pytest.FixtureRequest) -> Heard:  # noqa: F811
    return Heard(agent, request.node.name)


@pytest.fixture
def hooked() -> Iterator[Any]:
    with lifecycle.hook_saves() as hooks:
        yield hooks


@pytest.mark.parametrize(
    "writer", ["by id", "torch's", "fsspec's", "ours", "ours that speaks", "old style", "client's"]
)
def test_any_writer_is_heard(heard: Heard, hooked: Any, writer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(heard.root / "step-1")
    with contextlib.ExitStack() as stack:
        if writer == "old style":
            stack.enter_context(pytest.warns(FutureWarning))
            dcp.save_state_dict(state(), dcp.FileSystemWriter(path), None, 0, True)
        elif writer == "by id":
            dcp.save(state(), checkpoint_id=path)
        elif writer == "client's":
            configure_client(heard.root, monkeypatch)
            dcp.save(state(), storage_writer=msc.torch.MultiStorageFileSystemWriter("msc://lake/step-1"), no_dist=True)
        else:
            made = {
                "torch's": lambda: dcp.FileSystemWriter(path),
                "fsspec's": lambda: dcp.FsspecWriter(f"stepahead://{path}"),
                "ours": lambda: checkpoint.Writer(path),
                "ours that speaks": lambda: checkpoint.Writer(path, lifecycle=True),
            }[writer]()
            dcp.save(state(), storage_writer=made, no_dist=True)
    assert heard.of("step-1") == WHOLE


def configure_client(root: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root.parent.mkdir(exist_ok=True)
    file = root.parent / "msc.yaml"
    bundle = {"type": "stepahead.msc.Bundle", "options": {"base_path": str(root)}}
    file.write_text(json.dumps({"profiles": {"lake": {"provider_bundle": bundle}}}))
    monkeypatch.setenv("MSC_CONFIG", str(file))


def test_a_writer_that_speaks(heard: Heard) -> None:
    """Without hooks, on request, and not unasked."""
    for name, speaks in (("step-1", True), ("step-2", False)):
        writer = checkpoint.Writer(heard.root / name, lifecycle=speaks)
        dcp.save(state(), storage_writer=writer, no_dist=True)
    assert (heard.of("step-1"), heard.of("step-2")) == (WHOLE, [])
    writer = checkpoint.Writer(heard.root / "step-3", lifecycle=True)
    with pytest.raises(CheckpointException):
        dcp.save(state(), storage_writer=writer, planner=Failing(), no_dist=True)
    assert heard.of("step-3") == ["saving"]
    dcp.save(state(), storage_writer=writer, no_dist=True)
    assert heard.of("step-3") == ["saving", *WHOLE]
    with pytest.raises(stepahead.OptionError, match="hook_saves"):
        dcp.save(state(), storage_writer=writer, no_dist=True, use_collectives=False)
    taken = checkpoint.Writer(heard.root / "step-1", lifecycle=True)
    with pytest.raises(CheckpointException):
        dcp.save(state(), storage_writer=taken, no_dist=True)
    assert heard.of("step-1") == WHOLE  # nothing was begun


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_save_that_fails_is_not_committed(heard: Heard, hooked: Any) -> None:
    path = heard.root / "step-1"
    with pytest.raises(CheckpointException):
        dcp.save(state(), checkpoint_id=path, planner=Failing(), no_dist=True)
    future = dcp.async_save(state(), checkpoint_id=heard.root / "step-2", planner=Failing(), no_dist=True)
    assert isinstance(future.exception(60), CheckpointException)
    assert (heard.of("step-1"), heard.of("step-2")) == (["saving"], ["saving"])
    dcp.save(state(), checkpoint_id=path, no_dist=True)
    assert heard.of("step-1") == ["saving", *WHOLE]


@pytest.mark.parametrize("writer", [dcp.FileSystemWriter, checkpoint.Writer])
def test_saves_in_the_background(heard: Heard, writer: Any) -> None:
    """It is heard to its end, also where the hooks are gone by then."""
    with lifecycle.hook_saves():
        future = dcp.async_save(state(), storage_writer=writer(heard.root / "step-1"), no_dist=True)
    future.result()
    for save in list(_saves._under_way.saves.values()):
        assert save.ended.wait(60)
    assert heard.of("step-1") == WHOLE


def test_hooks_are_removed(heard: Heard) -> None:
    before = dcp.save, dcp.async_save, state_dict_saver.save, state_dict_saver.async_save
    hooks = lifecycle.hook_saves()
    with lifecycle.hook_saves():  # hooked twice it is heard once
        dcp.save(state(), checkpoint_id=heard.root / "step-1", no_dist=True)
    ours = dcp.save
    assert dcp.save is state_dict_saver.save and ours is not before[0]

    def theirs(*args: Any, **kwargs: Any) -> Any:
        return ours(*args, **kwargs)

    dcp.save = theirs  # somebody hooks it after us: it stays, and ours is silent
    try:
        hooks.remove()
        hooks.remove()
        assert (dcp.save, state_dict_saver.save) == (theirs, before[2])
        dcp.save(state(), checkpoint_id=heard.root / "step-2", no_dist=True)
    finally:
        dcp.save = before[0]
    assert (dcp.save, dcp.async_save, state_dict_saver.save, state_dict_saver.async_save) == before
    assert (heard.of("step-1"), heard.of("step-2")) == (WHOLE, [])


def test_what_is_imported_later_is_hooked(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Megatron may be; the hooks do not import it."""
    monkeypatch.syspath_prepend(tmp_path)
    meta_path = list(sys.meta_path)
    for name, removed in (("saves_later", False), ("saves_never", True)):
        (tmp_path / f"{name}.py").write_text("def save():\n    return 1\n")
        hooks = _saves.Hooks()
        hooks.await_module(name, functools.partial(hooks.add, (name,), "save", lambda save: lambda: save() + 1))
        if removed:
            hooks.remove()
        module = importlib.import_module(name)
        assert module.save() == (1 if removed else 2) and sys.meta_path == meta_path
        hooks.remove()
        assert module.save() == 1 and module.save.__module__ == name
        del sys.modules[name]


class Nameless(dcp.StorageWriter):
    """A writer that keeps to itself where it writes."""

    def __init__(self, path: object) -> None:
        self._inner = dcp.FileSystemWriter(path)

    def reset(self, checkpoint_id: Any = None) -> None:
        self._inner.reset(checkpoint_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self._inner.set_up_storage_writer(is_coordinator, *args, **kwargs)

    def prepare_local_plan(self, plan: Any) -> Any:
        return self._inner.prepare_local_plan(plan)

    def prepare_global_plan(self, plans: Any) -> Any:
        return self._inner.prepare_global_plan(plans)

    def write_data(self, plan: Any, planner: Any) -> Any:
        return self._inner.write_data(plan, planner)

    def finish(self, metadata: Any, results: Any) -> None:
        self._inner.finish(metadata, results)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return True


def test_what_is_wrong_with_telling_is_no_error_of_the_save(
    heard: Heard, hooked: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "stepahead.lifecycle"):
        lifecycle.configure(token="no token")
        dcp.save(state(), checkpoint_id=heard.root / "step-1", no_dist=True)
        lifecycle.configure()
        dcp.save(state(), storage_writer=Nameless(heard.root / "step-2"), no_dist=True)
    text = caplog.text
    assert "saving of" in text and "committed of" in text and "token" in text and "Nameless does not say where" in text
    for name in ("step-1", "step-2"):
        assert (heard.root / name / ".metadata").exists() and heard.of(name) == []


def rank_saves(root: str) -> None:
    """Saves of four ranks: of all, of two that are not the first, without collectives, each by itself, and one that fails."""
    rank = dist.get_rank()
    lifecycle.configure(job="ranks", run="run")
    pair = dist.new_group([2, 3])
    with lifecycle.hook_saves():
        dcp.save(state(), checkpoint_id=f"{root}/all")
        dcp.save(state(), checkpoint_id=f"{root}/apart", use_collectives=False)
        if rank >= 2:
            dcp.save(state(), checkpoint_id=f"{root}/pair", process_group=pair)
        dcp.save(state(), checkpoint_id=f"{root}/alone-{rank}", no_dist=True)
        with contextlib.suppress(CheckpointException):
            dcp.save(state(), checkpoint_id=f"{root}/fails", planner=Failing() if rank == 3 else None)
    dcp.save(state(), storage_writer=checkpoint.Writer(f"{root}/ours", lifecycle=True))
    if rank >= 2:
        dcp.save(state(), storage_writer=checkpoint.Writer(f"{root}/ours-pair", lifecycle=True), process_group=pair)
    after = lifecycle.told(60)
    assert after.done and after.lost == after.refused == 0
    assert (after.told > 0) == (rank in (0, 2))


def test_one_of_four_ranks_speaks(heard: Heard) -> None:
    ranks.run(4, rank_saves, str(heard.root))
    names = ("all", "apart", "pair", "ours", "ours-pair", "fails", *(f"alone-{rank}" for rank in range(4)))
    assert {name: heard.of(name) for name in names} == {
        **dict.fromkeys(("all", "apart", "pair", "ours", "ours-pair", "alone-0"), WHOLE),
        "fails": ["saving"],
        **{f"alone-{rank}": [] for rank in (1, 2, 3)},
    }


def megatron_saves(root: str) -> None:
    """Megatron's saves through the client and into a folder, now and in the background, and one that fails."""
    from megatron.core import dist_checkpointing, parallel_state
    from megatron.core.dist_checkpointing import ShardedTensor

    torch.cuda.synchronize = lambda *_, **__: None  # Megatron asks for one as it saves
    torch.cuda.current_device = lambda: torch.device("cpu")
    parallel_state.initialize_model_parallel(1, 1)
    rank = dist.get_rank()
    tensor = ShardedTensor.from_rank_offsets("w", torch.full((4,), float(rank)), (0, rank, 2))

    def save(where: str, **options: Any) -> Any:
        if rank == 0:
            (pathlib.Path(root) / where.rpartition("/")[2]).mkdir(parents=True)
        dist.barrier()
        return dist_checkpointing.save({"w": tensor, "iteration": 1}, where, **options)

    before = dist_checkpointing.save
    with lifecycle.hook_saves():
        save(f"{root}/iter_1")
        save("msc://lake/iter_2")
        later = save(f"{root}/iter_3", async_sharded_save=True)
        given_up = save(f"{root}/iter_4", async_sharded_save=True)
    assert dist_checkpointing.save is before
    assert lifecycle.told(60).told == (6 if rank == 0 else 0)
    later.execute_sync()
    assert lifecycle.told(60).told == (7 if rank == 0 else 0)
    given_up.finalize_fns[0] = fail
    with contextlib.suppress(ZeroDivisionError):
        given_up.execute_sync()
    after = lifecycle.told(60)
    assert after.done and after.told == (7 if rank == 0 else 0) and after.lost == after.refused == 0


def fail() -> None:
    raise ZeroDivisionError


def test_megatron(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    configure_client(heard.root, monkeypatch)
    ranks.run(2, megatron_saves, str(heard.root), imports=["megatron.core.dist_checkpointing"])
    assert [heard.of(f"iter_{i}") for i in (1, 2, 3, 4)] == [WHOLE, WHOLE, WHOLE, ["saving"]]


def process_saves(root: str) -> None:
    """A save in a process of torch's, which knows no hooks."""
    os.environ["MASTER_ADDR"] = "localhost"
    kind = dcp.state_dict_saver.AsyncCheckpointerType.PROCESS
    with lifecycle.hook_saves():
        future = dcp.async_save({"w": torch.ones(3)}, checkpoint_id=f"{root}/step-1", async_checkpointer_type=kind)
    future.result(200)


def test_a_save_in_a_process_of_its_own(heard: Heard) -> None:
    ranks.run(1, process_saves, str(heard.root))
    assert heard.of("step-1") == WHOLE
