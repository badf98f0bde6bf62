"""A checkpoint as it was when it was opened."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence
from typing import Any

from stepahead import _stores
from stepahead._binding import Call
from stepahead._errors import CheckpointError

# Of a save of which nothing says how many ranks it has: not known to be incomplete.
_UNKNOWN = "ranks-unknown"


class Opened:
    """The files of a checkpoint, each in the version it had when this was made, and what is read of them.

    Attributes: `layout`, `identity`; `files`, a list of dicts with `name`, `size` and `identity`; `numbers`, their
    places by name; `tensors`, where they were asked for, all or those of `names`; `remote`, whether the files are on other machines.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        tensors: bool = False,
        names: Sequence[str] | None = None,
        shared: bool = False,
        catalogue: str | os.PathLike[str] | None = None,
    ) -> None:
        url = os.fspath(path)
        self.path = url
        self.store = _stores.Store(url, shared=shared, catalogue=catalogue)
        told = self.store.call("checkpoint", name=self.store.name, tensors=tensors, names=names)
        self._handle: int = told["checkpoint"]
        self.layout: str = told["layout"]
        self.identity: str = told["identity"]
        self.files: list[dict[str, Any]] = told["files"]
        self.tensors: list[dict[str, Any]] = told.get("tensors") or []
        self.numbers = {file["name"]: number for number, file in enumerate(self.files)}
        self.remote = self.store.remote
        if any(problem["kind"] != _UNKNOWN for problem in told["problems"] or ()):
            raise CheckpointError(f"{url}: {told['incomplete']}: save it again, or take another one")

    @property
    def folder(self) -> str:
        """The URL of the folder that names of files are relative to."""
        name = self.store.name
        if self.numbers.keys() == {posixpath.basename(name)}:
            name = posixpath.dirname(name)
        return posixpath.join(self.store.root, name.lstrip("/")).rstrip("/")

    def number(self, name: str, what: str) -> int:
        """The place of a file among `files`."""
        try:
            return self.numbers[name]
        except KeyError:
            raise CheckpointError(f"{self.path}: {what} lies in {name!r}, which is no file of the checkpoint") from None

    def read(self, wants: Sequence[Sequence[int]], shared: bool = False) -> None:
        """Fill memory: of each want file, offset, length and address."""
        if wants:
            self.store.call("read files", checkpoint=self._handle, shared=shared, wants=wants)

    def read_file(self, name: str) -> bytearray:
        """The whole content of a file, which the processes of a host share."""
        number = self.number(name, "it")
        data = bytearray(self.files[number]["size"])
        self.read([[number, 0, len(data), _stores.address(data)]], shared=True)
        return data

    def begin_boxes(self, boxes: Sequence[dict[str, Any]], shared: bool = False) -> Call:
        """Begin to fill memory with parts of tensors; what comes of it are the places of those that only torch can read."""
        return self.store.begin("read boxes", checkpoint=self._handle, shared=shared, boxes=boxes)

    def close(self) -> None:
        """Close the store."""
        self.store.close()
