"""Whole files of a store by name, from any process: in one that was forked, where a Go runtime does not work, by another process."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import threading
from typing import Any, BinaryIO

from stepahead import _binding, _stores
from stepahead._errors import IdentityError
from stepahead.filesystem import FileSystem

_BLOCK_BYTES = 16 << 20
_PIECE_BYTES = 64 << 20


class Objects:
    """The files of the store that a URL leads to. What the processes of a host download at the same time is read from HDFS once."""

    def __init__(self, url: str, catalogue: str | None = None) -> None:
        self._url = url
        self._fs = FileSystem(store=url, catalogue=catalogue)
        self._store = _stores.Store(url, shared=True, catalogue=catalogue)

    def put(self, name: str, data: bytes, create: bool, expected: str | None) -> None:
        """Write a whole file: with `create` a new one, with `expected` in the place of that version."""
        self._expect(name, expected)
        self._fs.pipe_file(name, data, mode="create" if create else "overwrite")

    def get(self, name: str, start: int | None, end: int | None) -> bytes:
        return self._fs.cat_file(name, start, end)

    def copy(self, source: str, target: str) -> int:
        self._fs.cp_file(source, target)
        return int(self._fs.info(source)["size"])

    def delete(self, name: str, expected: str | None) -> None:
        self._expect(name, expected)
        self._fs.rm_file(name)

    def _expect(self, name: str, expected: str | None) -> None:
        if expected is not None:
            now = self._fs.ukey(name) if self._fs.exists(name) else "no such file"
            if now != expected:
                raise IdentityError(
                    f"{name} is another version than the one that is expected\nexpected {expected}\nnow {now}"
                )

    def info(self, name: str) -> dict[str, Any]:
        return self._fs.info(name)

    def list(self, name: str, deep: bool) -> list[dict[str, Any]]:
        """What is in a folder, or the file itself, in the order of names; with `deep` the files of all folders below too."""
        try:
            infos = self._fs.ls(name)
        except FileNotFoundError:
            return []
        out: list[dict[str, Any]] = []
        for info in sorted(infos, key=_order):
            out += self.list(info["name"], deep) if deep and info["type"] == "directory" else [info]
        return out

    def upload(self, path: str, name: str) -> int:
        """Copy a local file."""
        total = 0
        with open(path, "rb") as file, self._fs.open(name, "wb", block_size=_BLOCK_BYTES) as out:
            while data := file.read(_BLOCK_BYTES):
                total += out.write(data)
        return total

    def download(self, name: str, path: str) -> int:
        """Copy to a local file, which appears when it is whole."""
        folder = os.path.dirname(path) or "."
        os.makedirs(folder, exist_ok=True)
        with tempfile.NamedTemporaryFile("wb", dir=folder, prefix=".", delete=False) as file:
            try:
                total = self._read(name, file)
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
        return total

    def _read(self, name: str, to: Any) -> int:
        opened = self._store.call("open", name=name)
        try:
            buffer = bytearray(min(opened["size"], _PIECE_BYTES))
            for at in range(0, opened["size"], _PIECE_BYTES):
                n = min(_PIECE_BYTES, opened["size"] - at)
                want = [0, at, n, _stores.address(buffer)]
                self._store.call("read", files=[opened["file"]], names=[name], wants=[want], shared=True)
                to.write(memoryview(buffer)[:n])
        finally:
            self._store.call("close", file=opened["file"])
        return int(opened["size"])


def _order(info: dict[str, Any]) -> str:
    return str(info["name"]) + ("/" if info["type"] == "directory" else "")


class _Elsewhere:
    """The same in a process of its own, which ends with this one."""

    def __init__(self, url: str, catalogue: str | None = None) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", "from stepahead import _objects; _objects.serve()"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._lock = threading.Lock()
        self._ask((url, catalogue))

    def _ask(self, request: Any) -> Any:
        with self._lock:
            try:
                failed, answer = self._exchange(request)
            except (BrokenPipeError, EOFError) as error:
                raise ChildProcessError(
                    "stepahead: the process that reads and writes for a forked one has ended"
                ) from error
            except BaseException:
                # An answer that nobody waits for any more must not be taken for that of the next request.
                self._process.kill()
                self._process.wait()
                raise
        if failed:
            raise answer
        return answer

    def _exchange(self, request: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        pickle.dump(request, self._process.stdin, pickle.HIGHEST_PROTOCOL)
        self._process.stdin.flush()
        return pickle.load(self._process.stdout)

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self._ask((name, *arguments))


def serve() -> None:
    """Answer requests on standard input until it ends."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nobody else writes among the answers
    objects: Objects | None = None
    while (request := _next(requests)) is not None:
        try:
            if objects is None:
                objects, answer = Objects(*request), None
            else:
                answer = getattr(objects, request[0])(*request[1:])
            told = False, answer
        except Exception as error:
            told = True, error
        pickle.dump(told, answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()


def _next(requests: BinaryIO) -> Any:
    try:
        return pickle.load(requests)
    except EOFError:
        return None


def objects(url: str, catalogue: str | None = None) -> Any:
    """The files of the store that a URL leads to: `Objects`, or what stands for it in a process that was forked."""
    return _Elsewhere(url, catalogue) if _binding.forked() else Objects(url, catalogue)
