"""Who this process is among the data-parallel ranks, and which start of which job it belongs to."""

from __future__ import annotations

import collections
import datetime
import itertools
import os
import sys
import time
from typing import Any

from stepahead._errors import OptionError

# Variables in which schedulers give a job its id, most specific first.
_JOB_VARIABLES = ("STEPAHEAD_JOB", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "TORCHELASTIC_RUN_ID")

_starts = itertools.count()
_namesakes: collections.Counter[str] = collections.Counter()  # loaders made so far, by run


def _group() -> Any | None:
    """torch.distributed, if it is imported and has a process group."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed


def rank_and_world(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """The arguments if given, else those of torch.distributed, else 0 of 1."""
    if (rank is None) != (world_size is None):
        raise OptionError("rank and world_size belong together: give both, or neither to take torch.distributed's")
    if rank is not None and world_size is not None:
        return rank, world_size
    group = _group()
    return (group.get_rank(), group.get_world_size()) if group else (0, 1)


def reader() -> tuple[int, int]:
    """Which of how many readers of the same files this process is: as torch.distributed says, else its launcher. 0 of 0 if nobody says."""
    group = _group()
    if group is not None:
        return group.get_rank(), group.get_world_size()
    rank, world = (os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE"))
    return int(rank) if rank.isdecimal() else 0, int(world) if rank.isdecimal() and world.isdecimal() else 0


def channel(run: str) -> str:
    """What the keys of one more loader begin with, so that loaders of the same run do not read each other's.

    It is the same on ranks that make their loaders in the same order.
    """
    _namesakes[run] += 1
    return f"{run}/{_namesakes[run]}"


def disagrees(key: str, mine: str) -> bool:
    """Whether another rank said something else under the key before. Without torch.distributed nobody is asked.

    Whoever comes first decides for all: no collective, so ranks may come at any time and with any backend.
    """
    group = _group()
    if group is None or group.get_world_size() < 2:
        return False
    store = group.distributed_c10d._get_default_store()
    said: bytes = store.compare_set(f"stepahead/{key}", "", mine)
    return said.decode() != mine


def say(key: str, text: str) -> None:
    """Leave a word for the other ranks. Without torch.distributed there are none."""
    group = _group()
    if group is not None:
        group.distributed_c10d._get_default_store().set(f"stepahead/{key}", text)


def hear(key: str, timeout: float) -> str | None:
    """Wait for what another rank says; None if it says nothing for so many seconds. Ctrl-C ends the wait."""
    store = sys.modules["torch.distributed"].distributed_c10d._get_default_store()
    key = f"stepahead/{key}"
    end = time.monotonic() + timeout
    while not store.check([key]):
        left = end - time.monotonic()
        if left <= 0:
            return None
        try:
            store.wait([key], datetime.timedelta(seconds=min(left, 1)))
        except RuntimeError:  # nothing yet; a store that is gone fails at the next check
            continue
    said: bytes = store.get(key)
    return said.decode()


def job_and_run(job: str | None, run: str | None, world: int, agents: bool) -> tuple[str, str]:
    """The job's id and that of this start of it, equal on all ranks.

    The job is the argument, else the scheduler's variable, else random; the run is new at every start.
    """
    job = job or next((os.environ[v] for v in _JOB_VARIABLES if os.environ.get(v)), None)
    if job and run:
        return job, run
    proposal = f"{job or 'job-' + os.urandom(8).hex()}\n{run or os.urandom(8).hex()}"
    group = _group()
    if group is not None and group.get_world_size() > 1:
        # Whoever comes first decides for all: no collective, so it works with any backend.
        store = group.distributed_c10d._get_default_store()
        agreed = store.compare_set(f"stepahead/start/{next(_starts)}", "", proposal)
        proposal = agreed.decode()
    elif world > 1 and agents:
        restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT")
        if job is None or restarts is None:
            raise OptionError(
                "with agents, ranks must agree on job= and run=: give both (run= new at every start), or initialise "
                "torch.distributed before making the loader"
            )
        proposal = f"{job}\n{os.environ.get('TORCHELASTIC_RUN_ID', job)}-{restarts}"
    agreed_job, _, agreed_run = proposal.partition("\n")
    return agreed_job, agreed_run
