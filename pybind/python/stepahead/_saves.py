"""Saves that lifecycle is told of by themselves: by hooks on the functions of torch and Megatron that save, and by checkpoint.Writer."""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.util
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from stepahead import lifecycle
from stepahead._distributed import _group
from stepahead._errors import StepaheadError

_log = logging.getLogger("stepahead.lifecycle")

# What torch's functions that save take by place, if by place at all.
_BY_PLACE = ("state_dict", "storage_writer", "process_group", "coordinator_rank", "no_dist", "planner")

Function = Callable[..., Any]


class Save:
    """A save that this process speaks of: that it begins when this is made, that it is whole if `committed` is called."""

    def __init__(self, address: str, world_size: int | None) -> None:
        self.address = address
        self._world_size = world_size
        self.ended = threading.Event()

    def committed(self) -> None:
        """Say that the checkpoint is whole."""
        self.say("committed", world_size=self._world_size)
        self.over()

    def over(self) -> None:
        """Say nothing more: the save has failed, or has been spoken of."""
        with _under_way.lock:
            if _under_way.saves.get(self.address) is self:
                del _under_way.saves[self.address]
        self.ended.set()

    def say(self, what: str, **said: Any) -> None:
        """Say something of it. Whatever is wrong with that is no error of the save."""
        try:
            lifecycle._tell(what, self.address, **said)
        except (StepaheadError, ImportError) as error:  # the latter of a native module that cannot be loaded
            _log.warning("%s of %s is not told: %s", what, self.address, error)


class _UnderWay:
    """The saves of this process that are spoken of, by address: what saves in several layers is spoken of once, by the outermost."""

    def __init__(self) -> None:
        self.renew()
        os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        self.lock = threading.Lock()
        self.saves: dict[str, Save] = {}


_under_way = _UnderWay()


def begin(path: Any, world_size: int | None = None) -> Save | None:
    """Say that a save into a path begins; None if that is said already, or cannot be. The one that is returned must come to an end."""
    save = _save(path, world_size)
    if save is not None:
        with _under_way.lock:
            if _under_way.saves.setdefault(save.address, save) is not save:
                return None
        save.say("saving", holds=lifecycle.SAVING_HOLDS)
    return save


def begin_within(path: Any) -> Save | None:
    """The same for what saves within functions that may be hooked. It may be left without an end."""
    save = _save(path, None)
    if save is not None:
        with _under_way.lock:
            if save.address in _under_way.saves:
                return None
        save.say("saving", holds=lifecycle.SAVING_HOLDS)
    return save


def _save(path: Any, world_size: int | None) -> Save | None:
    try:
        return Save(lifecycle._address("checkpoint", path), world_size)
    except StepaheadError as error:
        _log.warning("a save is not told: %s", error)
        return None


def _finish() -> None:
    """Wait for what is saved in the background, as Python does after this, when nothing can be told any more."""
    with _under_way.lock:
        saves = list(_under_way.saves.values())
    for save in saves:
        save.ended.wait()


class Hooks:
    """Hooks on functions that save or load, until `remove` or the end of a `with` block."""

    def __init__(self) -> None:
        self._on = True
        self._hooked: list[tuple[ModuleType, str, Function, Function]] = []
        self._awaiting: _Awaiting | None = None

    def add(self, modules: Iterable[str], name: str, hook: Callable[[Function], Function]) -> None:
        """Hook the function that has a name in modules, which may have it from each other."""
        made: dict[Function, Function] = {}
        for module in map(importlib.import_module, modules):
            original = getattr(module, name, None)
            if original is None:  # of another version
                continue
            if original not in made:
                made[original] = self._while_on(original, hook(original))
            setattr(module, name, made[original])
            self._hooked.append((module, name, original, made[original]))

    def add_megatron(self, name: str, hook: Callable[[Function], Function]) -> None:
        """Hook a function of megatron-core's checkpoints, where that is imported or will be."""
        package = "megatron.core.dist_checkpointing"

        def add() -> None:
            if self._on:
                self.add((package, f"{package}.serialization"), name, hook)

        if package in sys.modules:
            add()
        else:  # whose import takes seconds
            self.await_module(package, add)

    def await_module(self, module: str, do: Callable[[], None]) -> None:
        """Do something once a module is imported."""
        self._awaiting = _Awaiting(module, do)
        sys.meta_path.insert(0, self._awaiting)

    def _while_on(self, original: Function, hooked: Function) -> Function:
        @functools.wraps(original)
        def either(*args: Any, **kwargs: Any) -> Any:
            return (hooked if self._on else original)(*args, **kwargs)

        return either

    def remove(self) -> None:
        """Give the functions back as they were. Of saves that are under way it is still said when they are whole."""
        self._on = False
        if self._awaiting is not None:
            self._awaiting.end()
        for module, name, original, hooked in reversed(self._hooked):
            if getattr(module, name) is hooked:  # else somebody hooked it after us
                setattr(module, name, original)
        self._hooked = []

    def __enter__(self) -> Hooks:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def hook() -> Hooks:
    """Hook the functions of torch, and of megatron-core where that is imported or will be."""
    hooks = Hooks()
    torch_has = ("torch.distributed.checkpoint", "torch.distributed.checkpoint.state_dict_saver")
    hooks.add(torch_has, "save", _of_torch)
    hooks.add(torch_has, "save_state_dict", _of_torch)
    hooks.add(torch_has, "async_save", _of_torch_async)
    hooks.add_megatron("save", _of_megatron)
    return hooks


class _Awaiting(importlib.abc.MetaPathFinder):
    """Does something when a module has been imported, if it ever is."""

    def __init__(self, module: str, do: Callable[[], None]) -> None:
        self._module = module
        self._do = do

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self._module:
            return None
        self.end()  # the others find it
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_do(module: ModuleType) -> None:
                execute(module)
                self._do()

            spec.loader.exec_module = execute_and_do  # type: ignore[method-assign]
        return spec

    def end(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def _of_torch(save: Function) -> Function:
    def hooked(*args: Any, **kwargs: Any) -> Any:
        spoken = _begin_torch(args, kwargs)
        try:
            result = save(*args, **kwargs)
        except BaseException:
            _over(spoken)
            raise
        _committed(spoken)
        return result

    return hooked


def _of_torch_async(save: Function) -> Function:
    def hooked(*args: Any, **kwargs: Any) -> Any:
        spoken = _begin_torch(args, kwargs)
        try:
            result = save(*args, **kwargs)
            future: Any = getattr(result, "upload_completion", result)
            future.add_done_callback(functools.partial(_done, spoken))
        except BaseException:
            _over(spoken)
            raise
        return result

    return hooked


def _done(spoken: Save | None, future: Any) -> None:
    if future.cancelled() or future.exception() is not None:
        _over(spoken)
    else:
        _committed(spoken)


def _of_megatron(save: Function) -> Function:
    def hooked(*args: Any, **kwargs: Any) -> Any:
        group = _group()
        where = args[1] if len(args) > 1 else kwargs.get("checkpoint_dir")
        spoken = begin(where) if group is not None and group.get_rank() == 0 else None
        try:
            request = save(*args, **kwargs)
            if request is not None and spoken is not None:
                # Called by the rank itself when all ranks have written, after what writes the metadata; never, if that fails.
                request.add_finalize_fn(functools.partial(spoken.say, "committed"))
        except BaseException:
            _over(spoken)
            raise
        if request is None:
            _committed(spoken)
        else:
            _over(spoken)
        return request

    return hooked


def _over(spoken: Save | None) -> None:
    if spoken is not None:
        spoken.over()


def _committed(spoken: Save | None) -> None:
    if spoken is not None:
        spoken.committed()


def _begin_torch(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Save | None:
    """Say that one of torch's saves begins, on the rank that coordinates it."""
    given = {**dict(zip(_BY_PLACE, args, strict=False)), **kwargs}
    if not coordinates(given):
        return None
    where = place_of(given, "storage_writer")
    if where is None:
        _log.warning("a save is not told: %s does not say where it writes", type(given.get("storage_writer")).__name__)
        return None
    group, world = _group(), None
    if group is not None and not given.get("no_dist") and not given.get("use_collectives", True):
        world = group.get_world_size(given.get("process_group"))
    return begin(where, world)


def coordinates(given: dict[str, Any]) -> bool:
    """Whether this is the rank that speaks of one of torch's saves or loads: the one that coordinates it; of ranks that are each by themselves, the first."""
    group = _group()
    if group is None:
        return True
    if given.get("no_dist"):
        return bool(group.get_rank() == 0)
    return bool(group.get_rank(given.get("process_group")) == given.get("coordinator_rank", 0))


def place_of(given: dict[str, Any], storage: str) -> Any:
    """Where one of torch's saves or loads has its checkpoint; None if that cannot be told."""
    where = given.get("checkpoint_id")
    for attribute in ("checkpoint_id", "path"):
        if where is None:
            where = getattr(given.get(storage), attribute, None)
    return where


# Before the end of lifecycle's telling, which was registered before.
threading._register_atexit(_finish)  # type: ignore[attr-defined]
