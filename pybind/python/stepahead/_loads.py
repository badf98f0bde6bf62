"""Loads that lifecycle is told of by themselves, by hooks on the functions of torch and Megatron that load."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator
from typing import Any

from stepahead import lifecycle
from stepahead._distributed import _group
from stepahead._errors import StepaheadError
from stepahead._saves import Function, Hooks, coordinates, place_of

_log = logging.getLogger("stepahead.lifecycle")

# What torch's functions that load take by place, if by place at all.
_BY_PLACE = ("state_dict", "storage_reader", "process_group", "coordinator_rank", "no_dist", "planner")


def hook() -> Hooks:
    """Hook the functions of torch, and of megatron-core where that is imported or will be."""
    hooks = Hooks()
    torch_has = ("torch.distributed.checkpoint", "torch.distributed.checkpoint.state_dict_loader")
    hooks.add(torch_has, "load", _of_torch)
    hooks.add(torch_has, "load_state_dict", _of_torch)
    hooks.add_megatron("load", _of_megatron)
    return hooks


class _UnderWay(threading.local):
    """Whether this thread is in a load that is spoken of: what loads in several layers is spoken of once, by the outermost."""

    spoken = False


_under_way = _UnderWay()


def _of_torch(load: Function) -> Function:
    def hooked(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(_BY_PLACE, args, strict=False)), **kwargs}
        where = place_of(given, "storage_reader") if coordinates(given) else None
        group = _group()
        alone = group is not None and group.get_world_size() > 1 and bool(given.get("no_dist"))
        with _told(where, ends=not alone):
            return load(*args, **kwargs)

    return hooked


def _of_megatron(load: Function) -> Function:
    def hooked(*args: Any, **kwargs: Any) -> Any:
        where = args[1] if len(args) > 1 else kwargs.get("checkpoint_dir")
        with _told(where if lifecycle._speaks() else None, ends=True):
            return load(*args, **kwargs)

    return hooked


@contextlib.contextmanager
def _told(where: str | os.PathLike[str] | None, ends: bool) -> Iterator[None]:
    """Say that a load begins and, if it can be known, that all ranks have read. Whatever is wrong with that is no error of the load."""
    if where is None or _under_way.spoken:
        yield
        return
    _under_way.spoken = True
    try:
        spoken = _quietly(lambda: lifecycle.Loading(lifecycle._address("checkpoint", where), speaks=True))
        yield
        if spoken is not None and ends:
            _quietly(spoken.done)
    finally:
        _under_way.spoken = False


def _quietly(say: Function) -> Any:
    try:
        return say()
    except (StepaheadError, ImportError) as error:  # the latter of a native module that cannot be loaded
        _log.warning("a load is not told: %s", error)
        return None
