"""hdfs-native as fsspec's `hdfs://`, as torch's FsspecReader and FsspecWriter need it."""

from __future__ import annotations

import io
from typing import Any

import fsspec  # type: ignore[import-untyped]
from hdfs_native.fsspec import HdfsFileSystem  # type: ignore[import-not-found]


class _Written(io.RawIOBase):
    """A file that is written. hdfs-native's has no tell, which FsspecWriter asks for, and cannot be closed twice, which Python does."""

    def __init__(self, inner: Any) -> None:
        self._inner, self._at = inner, 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: Any) -> int:
        n = int(self._inner.write(data))
        self._at += n
        return n

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._inner.close()


class _Read(io.RawIOBase):
    """A file that is read. hdfs-native's has no readinto, which torch.load and io.BufferedReader ask for."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._inner.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        return int(self._inner.tell())

    def read(self, size: int = -1) -> bytes:
        return bytes(self._inner.read(size))

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, memory: Any) -> int:
        data = self._inner.read(len(memory))
        memory[: len(data)] = data
        return len(data)


class _FileSystem(HdfsFileSystem):  # type: ignore[misc]
    ahead = 256 << 10  # bytes; FsspecReader asks for each piece of an item's zip file apart

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        file = super()._open(path, mode, **{**options, "block_size": None})
        if mode != "rb":
            return _Written(file)
        return io.BufferedReader(_Read(file), self.ahead) if self.ahead else _Read(file)


class _Exact(_FileSystem):
    ahead = 0


def register(ahead: bool = True) -> None:
    """ahead: more than what is asked for is read of files."""
    fsspec.register_implementation("hdfs", _FileSystem if ahead else _Exact, clobber=True)
