"""torch's distributed checkpoint, written into any store."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import io
import os
import pickle
import weakref
from collections.abc import Generator
from typing import Any

from torch.distributed.checkpoint.filesystem import FileSystemBase, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from stepahead import _binding, _distributed, _saves, _stores
from stepahead._errors import CheckpointError, ClosedError, OptionError

_METADATA = ".metadata"
# What is gathered of small writes before it goes to the native module.
_BUFFER_BYTES = 4 << 20
# How long a save waits for another one into the same path, which a killed process holds for up to a minute, and how long ranks
# that save without collectives wait for the first to begin, which also removes what was there.
_PATIENCE_SECONDS = 90.0
_BEGIN_SECONDS = 600.0

# Saves without collectives so far, by path: ranks call each by the same name.
_apart: collections.Counter[str] = collections.Counter()


@dataclasses.dataclass(frozen=True)
class _Stored(WriteResult):
    """The first result of a rank, with the files that the rank has stored."""

    files: tuple[dict[str, Any], ...] = ()


class Writer(FileSystemWriter):
    """A StorageWriter for `torch.distributed.checkpoint.save` and `async_save`, in the place of FileSystemWriter.

    Args:
        path: the checkpoint's folder, or its URL: `hdfs://nameservice/runs/7b/step-1000`, `dir:///...`.
        overwrite: whether a checkpoint that is complete there may be replaced. Else it is an error before anything is written.
        thread_count: how many files each rank writes at the same time.
        lifecycle: whether `stepahead.lifecycle` is told of each save: `saving` before the first byte, and `committed` once the checkpoint
            is complete, by the rank that coordinates the save. `lifecycle.hook_saves()` does so for other writers.

    Any of torch's readers reads what it writes, and `Reader`. Bytes are staged in memory of at most 512 MiB a rank and sent while
    torch serialises what follows, large files in parts at the same time. `.metadata` is written last, once all files of all ranks are
    stored and still are what was stored: until then there is no checkpoint, and a full disk, a quota or a lost rank is an error of the save.
    What an earlier save that was killed left at the path is removed. Where ranks save without collectives, other ranks wait until rank 0 has done
    so; each then writes its own metadata.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, overwrite: bool = False, thread_count: int = 1, lifecycle: bool = False
    ) -> None:
        super().__init__(".", sync_files=False, thread_count=thread_count, overwrite=overwrite)
        self.path = os.fspath(path)
        self.fs = _Files(self)  # type: ignore[assignment]
        self._lifecycle = lifecycle
        self._spoken: _saves.Save | None = None
        self._save: _Save | None = None
        self._coordinates = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_save": None, "_spoken": None}

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Take another path, or the same once more. A save that was not finished is given up."""
        path = self.path
        super().reset(None)
        self.path = path if checkpoint_id is None else os.fspath(checkpoint_id)
        self.close()

    def close(self) -> None:
        """Give a save up that was not finished."""
        save, self._save = self._save, None
        self._spoken = None
        if save is not None:
            save.give_up()

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        super().set_up_storage_writer(is_coordinator, *args, **kwargs)
        self._coordinates = is_coordinator
        self.close()
        if self.use_collectives:
            return
        if self._lifecycle:
            raise OptionError(
                "lifecycle=True: in a save without collectives no writer knows when all ranks are done: use lifecycle.hook_saves()"
            )
        _apart[str(self.path)] += 1

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        # The rank that coordinates begins the save. No other writes before it has: plans are exchanged in between.
        if self.use_collectives:
            self._begin()
        else:
            self._begin_apart()
        return super().prepare_local_plan(plan)

    def _begin(self) -> None:
        if self._coordinates:
            self._save = _Save(str(self.path), begin=True, overwrite=self.overwrite)
            if self._lifecycle:
                self._spoken = _saves.begin_within(self.path)

    def _begin_apart(self) -> None:
        """The same where no plans are exchanged: other ranks wait for a word of the one that begins."""
        key = f"save/{_apart[str(self.path)]}/{self.path}"
        if self._coordinates:
            said = "the rank that begins it was interrupted"
            try:
                self._begin()
                said = ""
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
                raise
            finally:
                _distributed.say(key, said)
            return
        heard = _distributed.hear(key, _BEGIN_SECONDS)
        if heard is None:
            raise CheckpointError(f"{self.path}: rank 0 has not begun the save within {_BEGIN_SECONDS:.0f} s")
        if heard:
            raise CheckpointError(f"{self.path}: rank 0 did not begin the save: {heard}")

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        if self._save is None:
            self._save = _Save(str(self.path), begin=False, overwrite=False)
        try:
            results: list[WriteResult] = super().write_data(plan, planner).wait()
            if len(results) != len(plan.items):  # torch's threads keep what they raise to themselves
                raise CheckpointError(f"{self.path}: {len(results)} of {len(plan.items)} items were written")
            files = tuple(self._save.stored())
        except BaseException:
            self.close()
            raise
        if results:
            first = results[0]
            results[0] = _Stored(first.index, first.size_in_bytes, first.storage_data, files=files)
        done: Future[list[WriteResult]] = Future()
        done.set_result(results)
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        if self._save is None:
            raise CheckpointError(f"{self.path}: finish without a save: it failed before, or was given up")
        flat = [result for of_rank in results for result in of_rank]
        metadata.version = _version()
        metadata.storage_data = {result.index: result.storage_data for result in flat}
        metadata.storage_meta = self.storage_meta()
        files = [file for result in flat if isinstance(result, _Stored) for file in result.files]
        alone = not self.use_collectives and self.rank is not None
        marker = f"__{self.rank}{_METADATA}" if alone else _METADATA
        self._save.commit(marker, pickle.dumps(metadata), files)
        self._save = None
        if self._spoken is not None:
            self._spoken.committed()
            self._spoken = None

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return True


def _version() -> Any:
    from torch.distributed.checkpoint import filesystem

    return getattr(filesystem, "CURRENT_DCP_VERSION", None)


class _Save:
    """A save that is under way in the native module."""

    def __init__(self, path: str, *, begin: bool, overwrite: bool) -> None:
        self.store = _stores.Store(path, catalogue="off")
        made = self.store.call(
            "save", name=self.store.name, begin=begin, overwrite=overwrite, patience=_PATIENCE_SECONDS
        )
        self.handle: int = made["save"]
        self._closing = weakref.finalize(self, _give_up, self.store, self.handle)

    def stored(self) -> list[dict[str, Any]]:
        files: list[dict[str, Any]] = self.store.call("stored", save=self.handle) or []
        return files

    def commit(self, marker: str, data: bytes, files: list[dict[str, Any]]) -> None:
        with _stores.ReadOnlyAddress(data) as (address, n):
            self.store.call("commit", save=self.handle, marker=marker, address=address, bytes=n, files=files)
        self._closing.detach()
        self.store.close()

    def give_up(self) -> None:
        self._closing()


def _give_up(store: _stores.Store, handle: int) -> None:
    if _binding is not None and _binding.alive():
        store.call("give up", save=handle)
        store.close()


class _Files(FileSystemBase):
    """The files of a writer's save, as torch's FileSystemWriter opens them."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    @contextlib.contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Generator[io.IOBase, None, None]:
        save = self._writer._save
        if mode != "wb" or save is None:
            raise CheckpointError(f"{path}: opened as {mode!r} outside of a save")
        raw = _Stream(save, os.fspath(path))
        with io.BufferedWriter(raw, _BUFFER_BYTES) as stream:
            yield stream

    def concat_path(self, path: str | os.PathLike[str], suffix: str) -> str:
        return suffix

    def init_path(self, path: str | os.PathLike[str]) -> str:
        return os.fspath(path)

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        raise CheckpointError("a save renames nothing")

    def mkdir(self, path: str | os.PathLike[str]) -> None:
        pass  # with the first file

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return True

    def exists(self, path: str | os.PathLike[str]) -> bool:
        return False  # the save has removed what was there, or refused to

    def rm_file(self, path: str | os.PathLike[str]) -> None:
        raise CheckpointError("a save removes nothing that it wrote")


class _Stream(io.RawIOBase):
    """A file of a save. Closing it does not wait until it is stored."""

    def __init__(self, save: _Save, name: str) -> None:
        self._save = save
        self._file: int = save.store.call("create", name=name, save=save.handle)["writer"]
        self._at = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: Any) -> int:
        if self.closed:
            raise ClosedError("the file was closed")
        with _stores.ReadOnlyAddress(data) as (address, n):
            if n:
                self._save.store.call("write", writer=self._file, address=address, bytes=n)
        self._at += n
        return n

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._save.store.call("finish", writer=self._file, end=True)
