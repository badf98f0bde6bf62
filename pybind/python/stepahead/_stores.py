"""Open stores: the files of a cluster or of a folder, as the native module reads and writes them."""

from __future__ import annotations

import ctypes
import json
import os
import threading
import weakref
from typing import Any

from stepahead import _arguments, _binding, _distributed


class Store:
    """An open store. `root` is the URL of its own root, `name` what the URL it was opened with means in it.

    `catalogue` is the URL of the store whose catalogue says where copies are, by default the environment's; or "off".
    """

    def __init__(self, url: str, *, shared: bool = False, catalogue: str | os.PathLike[str] | None = None) -> None:
        rank, world = _distributed.reader()
        options = {
            "url": url,
            "rank": rank,
            "world": world,
            "catalogue": _catalogue(catalogue),
            "shared": shared,
            "environment": _binding.environment(),
        }
        opened = _binding.Call("StoreOpen", json.dumps(options)).wait()
        self.handle: int = opened["store"]
        self.name: str = opened["name"]
        self.root: str = opened["root"]
        self.remote: bool = opened["remote"]
        self._closing = weakref.finalize(self, _close, self.handle)

    def begin(self, operation: str, **arguments: Any) -> _binding.Call:
        """Begin an operation; pybind/stores.go lists them."""
        return _binding.Call("StoreCall", self.handle, operation, json.dumps(arguments))

    def call(self, operation: str, **arguments: Any) -> Any:
        """Perform an operation."""
        return self.begin(operation, **arguments).wait()

    @property
    def is_open(self) -> bool:
        """Whether nobody has closed it."""
        return self._closing.alive

    def close(self) -> None:
        """End the operations that are under way, and close it and what is open in it."""
        self._closing()


def _catalogue(given: str | os.PathLike[str] | None) -> str:
    """What is given, else what the environment says."""
    text = _arguments.path("catalogue", given)
    return os.environ.get("STEPAHEAD_CATALOGUE", "") if text is None else text


def _close(handle: int) -> None:
    if _binding is not None and _binding.alive():
        _binding.native().StoreClose(handle)


class _Common:
    """The stores that those who ask for the same URL have together."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open: weakref.WeakValueDictionary[tuple[str, ...], Store] = weakref.WeakValueDictionary()
        os.register_at_fork(after_in_child=self.after_fork)

    def after_fork(self) -> None:
        # Another thread may have held it, to open a store.
        self.lock = threading.Lock()

    def get(self, url: str, catalogue: str | os.PathLike[str] | None) -> Store:
        rank = map(str, _distributed.reader())
        key = (url, _catalogue(catalogue), *rank, *_binding.environment().values())
        with self.lock:
            store = self.open.get(key)
            if store is None or not store.is_open:
                store = self.open[key] = Store(url, catalogue=catalogue)
            return store


_common = _Common()


def common(url: str, catalogue: str | os.PathLike[str] | None = None) -> Store:
    """The store of a URL that all who ask for the same one in this process have together."""
    return _common.get(url, catalogue)


def address(memory: Any) -> int:
    """Where writable memory begins, such as that of a bytearray; 0 of none."""
    view = memoryview(memory)
    return ctypes.addressof(ctypes.c_char.from_buffer(view)) if view.nbytes else 0


def unfilled(n: int) -> tuple[bytes, int]:
    """New bytes and where they begin, for whoever fills them before anybody else has them: neither zeros nor a copy are needed."""
    data: bytes = _new_bytes(None, n)
    return data, _bytes_address(data) if n else 0


class ReadOnlyAddress:
    """Where any memory begins while it is in a `with` block: `bytes` too, which ctypes takes for writing only."""

    def __init__(self, data: Any) -> None:
        self._buffer = _Buffer()
        self._object = ctypes.py_object(data)

    def __enter__(self) -> tuple[int, int]:
        _get_buffer(self._object, ctypes.byref(self._buffer), 0)
        return self._buffer.buf or 0, self._buffer.len

    def __exit__(self, *_: object) -> None:
        _release_buffer(ctypes.byref(self._buffer))


class _Buffer(ctypes.Structure):
    # Py_buffer: part of Python's stable ABI since 3.11, and unchanged since 3.0.
    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = (ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int)
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = (ctypes.POINTER(_Buffer),)
_release_buffer.restype = None
_new_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize
_new_bytes.argtypes = (ctypes.c_char_p, ctypes.c_ssize_t)
_new_bytes.restype = ctypes.py_object
_bytes_address = ctypes.pythonapi.PyBytes_AsString
_bytes_address.argtypes = (ctypes.py_object,)
_bytes_address.restype = ctypes.c_void_p
