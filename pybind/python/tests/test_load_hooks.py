"""Hooked loads of torch and Megatron tell a real agent when they begin and when all ranks have read; once, by one rank."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import ranks
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from stepahead import _binding, checkpoint, lifecycle
from test_lifecycle import Agent, agent, as_it_was  # noqa: F401  the agent
from torch.distributed.checkpoint import state_dict_loader
from torch.distributed.checkpoint.api import CheckpointException

WHOLE = ["opened", "read"]


@pytest.fixture
def saved(agent: Agent, request: pytest.FixtureRequest) -> pathlib.Path:  # noqa: F811
    path = agent.store / "runs" / request.node.name.translate({ord(c): "-" for c in "[] "}) / "step-1"
    dcp.save(state(), checkpoint_id=str(path))
    return path


@pytest.fixture
def hooked() -> Iterator[Any]:
    with lifecycle.hook_loads() as hooks:
        yield hooks


def state() -> dict[str, Any]:
    return {"w": torch.arange(10.0), "step": 3}


def heard(agent: Agent, path: pathlib.Path) -> list[str]:  # noqa: F811
    assert lifecycle.told(60).done
    name = f"/{path.relative_to(agent.store)}"
    starts = [record["start"] for record in agent.told() if "start" in record]
    return [s.get("phase", "announced") for s in starts if [f["path"] for f in s["files"]] == [name]]


@pytest.mark.parametrize("how", ["by id", "torch's", "ours", "old style", "by module"])
def test_any_reader_is_heard(agent: Agent, saved: pathlib.Path, hooked: Any, how: str) -> None:  # noqa: F811
    into = state()
    into["w"].zero_()
    if how == "by id":
        dcp.load(into, checkpoint_id=str(saved))
    elif how == "torch's":
        dcp.load(into, storage_reader=dcp.FileSystemReader(str(saved)))
    elif how == "ours":
        dcp.load(into, storage_reader=checkpoint.Reader(saved))
    elif how == "old style":
        with pytest.warns(FutureWarning):
            dcp.load_state_dict(into, dcp.FileSystemReader(str(saved)), None, 0, True)
    else:
        state_dict_loader.load(into, checkpoint_id=str(saved))
    assert torch.equal(into["w"], state()["w"])
    assert heard(agent, saved) == WHOLE


def test_one_that_fails(agent: Agent, saved: pathlib.Path, hooked: Any) -> None:  # noqa: F811
    (saved / ".metadata").write_bytes(b"no metadata")
    with pytest.raises(CheckpointException):
        dcp.load(state(), checkpoint_id=str(saved))
    assert heard(agent, saved) == ["opened"]


def test_without_hooks(agent: Agent, saved: pathlib.Path) -> None:  # noqa: F811
    before = dcp.load
    with lifecycle.hook_loads(), lifecycle.hook_loads():
        assert dcp.load is not before
        dcp.load(state(), checkpoint_id=str(saved))  # hooked twice it is heard once
        assert heard(agent, saved) == WHOLE
    assert dcp.load is before
    dcp.load(state(), checkpoint_id=str(saved))
    assert heard(agent, saved) == WHOLE


def test_what_cannot_be_told_is_no_error(
    saved: pathlib.Path, hooked: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lifecycle.configure(token="no token")
    dcp.load(state(), checkpoint_id=str(saved))
    assert "is not told" in caplog.text

    def missing() -> Any:
        raise ImportError("the current folder was deleted")

    monkeypatch.setattr(_binding, "native", missing)
    dcp.load(state(), checkpoint_id=str(saved))
    assert "a load is not told: the current folder" in caplog.text
    with lifecycle.hook_saves():
        dcp.save(state(), checkpoint_id=str(saved))
    assert "saving of" in caplog.text


def rank_loads(path: str, alone: bool) -> None:
    os.environ["LOCAL_WORLD_SIZE"] = "2"
    lifecycle.configure(job="ranks", run="1")
    with lifecycle.hook_loads():
        dcp.load(state(), checkpoint_id=path, no_dist=alone)
    assert lifecycle.told(60).done


@pytest.mark.parametrize("alone", [False, True])
def test_one_rank_speaks(agent: Agent, saved: pathlib.Path, alone: bool) -> None:  # noqa: F811
    ranks.run(4, rank_loads, str(saved), alone)
    assert heard(agent, saved) == (["opened"] if alone else WHOLE)
    sizes = {(r["start"]["ranks"], r["start"]["ranks_per_host"]) for r in agent.told() if r["job"] == "ranks"}
    assert sizes == {(4, 2)}


def megatron_loads(path: str) -> None:
    from megatron.core import dist_checkpointing, parallel_state
    from megatron.core.dist_checkpointing import ShardedTensor

    torch.cuda.synchronize = lambda *_, **__: None  # Megatron asks for one
    torch.cuda.current_device = lambda: torch.device("cpu")
    parallel_state.initialize_model_parallel(1, 1)
    rank = dist.get_rank()
    tensor = ShardedTensor.from_rank_offsets("w", torch.full((4,), float(rank)), (0, rank, 2))
    if rank == 0:
        pathlib.Path(path).mkdir(parents=True)
    dist.barrier()
    dist_checkpointing.save({"w": tensor}, path)
    with lifecycle.hook_loads():
        dist_checkpointing.load({"w": tensor}, path)
    assert lifecycle.told(60).done


def test_megatron(agent: Agent) -> None:  # noqa: F811
    """Megatron's own load, which loads with torch's, is heard once."""
    path = agent.store / "runs" / "megatron" / "iter_0000001"
    ranks.run(2, megatron_loads, str(path), imports=["megatron.core.dist_checkpointing"])
    assert heard(agent, path) == WHOLE
