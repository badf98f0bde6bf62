"""Files of any store for everything that takes fsspec: pandas, datasets, pyarrow, torch.load, torch's FsspecReader.

>>> import fsspec
>>> fsspec.open("stepahead://nameservice/data/part.parquet")  # HDFS  # doctest: +SKIP
>>> fsspec.open("stepahead:///data/part.parquet")  # a local folder  # doctest: +SKIP

`stepahead://` is known to fsspec once the package is installed. `register_hdfs()` makes `hdfs://` ours too.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import io
import os
import posixpath
from collections.abc import Sequence
from typing import Any

import fsspec
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from stepahead import _binding, _stores
from stepahead._errors import (
    ExistsError,
    IsAFolderError,
    NotAFolderError,
    NotFoundError,
    OptionError,
    StepaheadError,
)

_COPY_BYTES = 16 << 20
# How many files are open at a time where ranges of many are read.
_MOST_OPEN = 256


class FileSystem(AbstractFileSystem):  # type: ignore[misc]
    """A store as a file system: `stepahead://cluster/path` is HDFS, `stepahead:///path` a local folder.

    Args:
        store: the URL of the store, such as `hdfs://nameservice` or `hdfs:///` for the cluster that Hadoop's configuration
            names. Default: the local file system.
        catalogue: the URL of this site's store, whose catalogue says where temporary copies are; "off": none are read. Default: what
            STEPAHEAD_CATALOGUE says.

    What `info` says of a file has its `identity`, which is new whenever its content is. A file that is open stays the version
    that was opened: one that is replaced meanwhile is an `IdentityError`. A file that is written appears when it is closed, whole;
    one whose `with` block ends with an exception does not. There is no appending.
    """

    protocol = ("stepahead",)
    root_marker = "/"
    cachable = True

    def __init__(
        self, store: str | None = None, catalogue: str | os.PathLike[str] | None = None, **options: Any
    ) -> None:
        super().__init__(store=store, catalogue=catalogue, **options)
        self._url = store or "dir:///"
        self._catalogue = catalogue
        self._opened: _stores.Store | None = None

    @property
    def _store(self) -> _stores.Store:
        if self._opened is None or not self._opened.is_open:
            self._opened = _stores.common(self._url, self._catalogue)
        return self._opened

    def sources(self) -> dict[str, Any]:
        """How many bytes came from temporary copies, and why others did not, in this process (docs/checkpoints.md)."""
        told: dict[str, Any] = self._store.call("sources")
        return told

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(p) for p in path]
        text = fsspec.utils.stringify_path(path)
        for scheme in cls.protocol:
            if text.startswith(f"{scheme}://"):
                _, slash, rest = text[len(scheme) + 3 :].partition("/")
                text = slash + rest
        text = posixpath.normpath("/" + text).replace("//", "/", 1)
        return text if text.startswith("/") else "/"

    @classmethod
    def _get_kwargs_from_urls(cls, path: str) -> dict[str, Any]:
        scheme, separator, rest = path.partition("://")
        cluster = rest.partition("/")[0] if separator and scheme in cls.protocol else ""
        return {"store": f"hdfs://{cluster}"} if cluster else {}

    def unstrip_protocol(self, name: str) -> str:
        path = self._strip_protocol(name)
        root = self._store.root if self._url.startswith("hdfs://") else ""
        cluster = root.partition("://")[2].partition("/")[0]
        return f"{self.protocol[0]}://{cluster}{path}"

    def _info(self, entry: dict[str, Any]) -> dict[str, Any]:
        return {
            "name": entry["name"],
            "size": entry["size"],
            "type": "directory" if entry["dir"] else "file",
            "mtime": entry["modified"],
            "identity": entry["identity"],
            "owner": entry["owner"],
        }

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """`name`, `size`, `type` ("file" or "directory"), `mtime` in seconds since 1970, `identity` and `owner`."""
        return self._info(self._store.call("stat", name=self._strip_protocol(path)))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """What a folder holds, or the file itself."""
        path = self._strip_protocol(path)
        try:
            infos = [self._info(entry) for entry in self._store.call("list", name=path)]
        except NotAFolderError:
            infos = [self.info(path)]
        return infos if detail else [info["name"] for info in infos]

    def modified(self, path: str) -> datetime.datetime:
        """When the file was changed last."""
        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], tz=datetime.timezone.utc)

    def ukey(self, path: str) -> str:
        """The identity of the file's content: another one after every change."""
        return str(self.info(path)["identity"])

    def checksum(self, path: str) -> int:
        """A number that is another one after every change."""
        return int.from_bytes(hashlib.sha256(self.ukey(path).encode()).digest()[:8], "big")

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Make a folder. FileExistsError if the name is taken."""
        path = self._strip_protocol(path)
        if self.exists(path):
            raise ExistsError(f"{path}: it exists")
        if not create_parents and not self.isdir(self._parent(path)):
            raise NotFoundError(f"{self._parent(path)}: no such folder to make {path} in")
        self._store.call("make folder", name=path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Make a folder, and those above it."""
        path = self._strip_protocol(path)
        if not exist_ok and self.exists(path):
            raise ExistsError(f"{path}: it exists")
        self._store.call("make folder", name=path)

    def rmdir(self, path: str) -> None:
        """Remove an empty folder."""
        path = self._strip_protocol(path)
        if self.info(path)["type"] != "directory":
            raise NotAFolderError(f"{path}: it is a file")
        self._store.call("remove", name=path)

    def _rm(self, path: str) -> None:
        self._store.call("remove", name=self._strip_protocol(path))

    def rm_file(self, path: str) -> None:
        """Remove a file."""
        if self.isdir(path):
            raise IsAFolderError(f"{self._strip_protocol(path)}: it is a folder")
        self._rm(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Remove files, or with `recursive` folders and all that is in them."""
        paths = path if isinstance(path, list) else [path]
        for one in paths:
            name = self._strip_protocol(one)
            if maxdepth is None and not self._pattern(name):
                if not recursive and self.isdir(name):
                    raise IsAFolderError(f"{name}: it is a folder: remove it with recursive=True")
                self._store.call("remove", name=name, recursive=recursive)
                continue
            for found in reversed(self.expand_path(name, recursive=recursive, maxdepth=maxdepth)):
                self._rm(found)

    def _pattern(self, name: str) -> bool:
        """Whether a name stands for others: it has characters of a pattern, and is not there itself."""
        return fsspec.core.has_magic(name) and not self.exists(name)

    def mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None, **_: Any) -> None:
        """Move a file or folder in one step. Into `path2` if that is a folder."""
        if not isinstance(path1, str) or self._pattern(self._strip_protocol(path1)):
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth)
            return
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if source == target:
            return
        if path2.endswith("/") or self.isdir(target):
            target = posixpath.join(target, posixpath.basename(source))
        self._store.call("rename", **{"from": source, "to": target})

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copy a file, or make a folder."""
        source = self._strip_protocol(path1)
        if self.isdir(source):
            self.makedirs(path2, exist_ok=True)
            return
        block = {"block_size": _COPY_BYTES, "cache_type": "none"}
        with self.open(source, "rb", **block) as reader, self.open(path2, "wb", block_size=_COPY_BYTES) as writer:
            while data := reader.read(_COPY_BYTES):
                writer.write(data)

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **_: Any) -> None:
        """Write a whole file; `mode="create"` replaces none."""
        with self.open(path, "xb" if mode == "create" else "wb") as file:
            file.write(value)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """The bytes of a file, or a part of them; negative numbers count from the end."""
        (data,) = self.cat_ranges([path], [start], [end], on_error="raise")
        content: bytes = data
        return content

    def cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **_: Any,
    ) -> list[Any]:
        """The bytes of many ranges, read together: joined over small gaps, many at a time.

        Args:
            max_gap: taken for what other file systems do with it; what is read together is decided here.
            on_error: "return" gives the exception in the place of bytes.
        """
        if not isinstance(paths, list):
            raise TypeError("paths: must be a list")
        starts = starts if isinstance(starts, list) else [starts] * len(paths)
        ends = ends if isinstance(ends, list) else [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError(f"{len(paths)} paths, {len(starts)} starts, {len(ends)} ends: must be as many")
        names = [self._strip_protocol(path) for path in paths]
        asked: dict[str, list[int]] = {}
        for place, name in enumerate(names):
            asked.setdefault(name, []).append(place)
        out: list[Any] = [None] * len(names)
        files = list(asked)
        for first in range(0, len(files), _MOST_OPEN):
            some = files[first : first + _MOST_OPEN]
            places = [place for name in some for place in asked[name]]
            ranges = [(names[place], starts[place], ends[place]) for place in places]
            for place, got in zip(places, self._read_ranges(some, ranges, on_error), strict=True):
                out[place] = got
        return out

    def _read_ranges(self, names: list[str], ranges: list[tuple[str, Any, Any]], on_error: str) -> list[Any]:
        with _Files(self._store, names) as files:
            try:
                return list(files.read(ranges))
            except StepaheadError:
                if on_error != "return":
                    raise
            out: list[Any] = []
            for one in ranges:
                try:
                    out += files.read([one])
                except StepaheadError as error:
                    out.append(error)
            return out

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        """Open a file: `rb`, `wb` or `xb`, or as text."""
        if "b" in mode or "r" in mode or options.get("compression") is not None:
            return super().open(path, mode, **options)
        text = {key: options.pop(key) for key in ("encoding", "errors", "newline") if key in options}
        return _TextFile(super().open(path, mode.replace("t", "") + "b", **options), **text)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> AbstractBufferedFile:
        if isinstance(block_size, int) and block_size < 0:
            raise OptionError(f"block_size={block_size}: must not be negative")
        if mode == "rb":
            return _ReadFile(self, path, block_size=block_size, cache_options=cache_options, **options)
        if mode not in ("wb", "xb"):
            raise OptionError(f"mode={mode!r}: files are read, or written anew: there is no appending")
        return _WriteFile(self, path, mode, block_size=block_size, autocommit=autocommit)


class HadoopFileSystem(FileSystem):
    """The same for addresses as Hadoop writes them: `hdfs://nameservice/path`, `hdfs:///path`."""

    protocol = ("hdfs",)

    def __init__(self, store: str | None = None, **options: Any) -> None:
        super().__init__(store=store or "hdfs:///", **options)


def register_hdfs() -> None:
    """Make `hdfs://` in fsspec, and in all that uses it, our file system in this process."""
    fsspec.register_implementation("hdfs", HadoopFileSystem, clobber=True)


class _Files:
    """Open files, each opened when it is first asked for."""

    def __init__(self, store: _stores.Store, names: Sequence[str]) -> None:
        self._store = store
        self._opening = {name: store.begin("open", name=name) for name in names[:64]}
        self._opened: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *_: object) -> None:
        for call in self._opening.values():
            call.cancel()
        for opened in self._opened.values():
            self._store.call("close", file=opened["file"])

    def _file(self, name: str) -> dict[str, Any]:
        if name not in self._opened:
            call = self._opening.pop(name, None) or self._store.begin("open", name=name)
            self._opened[name] = call.wait()
        return self._opened[name]

    def read(self, ranges: Sequence[tuple[str, int | None, int | None]]) -> list[bytes]:
        files: dict[str, int] = {}
        wants, out = [], []
        for name, start, end in ranges:
            size = self._file(name)["size"]
            first, last, _ = slice(start, end).indices(size)
            data, address = _stores.unfilled(max(0, last - first))
            if data:
                wants.append([files.setdefault(name, len(files)), first, len(data), address])
            out.append(data)
        if wants:
            handles = [self._opened[name]["file"] for name in files]
            self._store.call("read", files=handles, names=list(files), wants=wants)
        return out


class _ReadFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file that is read, in the version in which it was opened."""

    def __init__(self, fs: FileSystem, path: str, size: int | None = None, **options: Any) -> None:
        self._store = fs._store
        self._file = self._store.call("open", name=path)
        super().__init__(fs, path, "rb", size=self._file["size"], **options)

    def _fetch_range(self, start: int, end: int) -> bytes:
        first, last, _ = slice(start, end).indices(self.size)
        data, address = _stores.unfilled(max(0, last - first))
        if data:
            want = [0, first, len(data), address]
            self._store.call("read", files=[self._file["file"]], names=[self.path], wants=[want])
        return data

    def close(self) -> None:
        if not self.closed and _binding is not None and _binding.alive():
            with contextlib.suppress(StepaheadError):
                self._store.call("close", file=self._file["file"])
        super().close()


class _WriteFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file that is written. It appears when it is closed, or with the transaction that it belongs to."""

    def __init__(self, fs: FileSystem, path: str, mode: str, **options: Any) -> None:
        self._writer = 0
        super().__init__(fs, path, mode, **options)
        self._store = fs._store
        if mode == "xb":  # what is there already is said at once
            try:
                self._initiate_upload()
            except BaseException:
                self.closed = True
                raise

    def _initiate_upload(self) -> None:
        if not self._writer:
            made = self._store.call("create", name=self.path, over=self.mode == "wb")
            self._writer = made["writer"]

    def _upload_chunk(self, final: bool = False) -> bool:
        self._initiate_upload()
        with self.buffer.getbuffer() as view, _stores.ReadOnlyAddress(view) as (address, n):
            if n:
                self._store.call("write", writer=self._writer, address=address, bytes=n)
        if final and self.autocommit:
            self.commit()
        return True

    def commit(self) -> None:
        """Make the file appear."""
        writer, self._writer = self._writer, 0
        self._store.call("finish", writer=writer)

    def discard(self) -> None:
        """Give the file up."""
        self.forced = True
        writer, self._writer = self._writer, 0
        if writer:
            self._store.call("finish", writer=writer, abort=True)

    def close(self) -> None:
        try:
            super().close()
        except BaseException:
            self.discard()
            raise

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self.discard()
        self.close()


class _TextFile(io.TextIOWrapper):
    """Text that is written: an exception that ends the `with` block gives the file up, as it does without text between."""

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.close()
        else:
            self.detach().__exit__(kind, *rest)  # type: ignore[attr-defined]
