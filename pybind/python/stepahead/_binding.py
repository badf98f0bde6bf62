"""The native module: loaded on first use, in the process that uses it, and guarded against fork."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import threading
from types import ModuleType
from typing import Any

from stepahead._errors import ForkError, from_native


class _Module:
    """Loads the native module once, and says what is wrong after a fork."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.native: ModuleType | None = None
        self.forked = False
        os.register_at_fork(after_in_child=self.after_fork)

    def after_fork(self) -> None:
        # Only a process that had loaded Go passes its broken runtime on; a child that loads it
        # first works.
        self.lock = threading.Lock()
        self.forked = self.native is not None

    def get(self) -> ModuleType:
        if self.forked:
            raise ForkError(
                "this process was forked after stepahead's native module was loaded, and a Go runtime does not "
                "survive fork(): make the loader, reader or file system in the process that uses it, with num_workers=0, or start "
                "processes with multiprocessing_context='spawn' or 'forkserver'"
            )
        if self.native is None:
            with self.lock:
                if self.native is None:
                    self.native = _load()
        return self.native


def _load() -> ModuleType:
    try:
        from stepahead._native import pybind
    except FileNotFoundError as error:
        raise ImportError(
            "stepahead's native module cannot load because the current folder was deleted: change to another one"
        ) from error
    except ImportError as error:
        raise ImportError(
            f"stepahead's native module is missing from {pathlib.Path(__file__).parent}: "
            "install the package with `pip install .`, which builds it"
        ) from error
    return pybind


_module = _Module()


def native() -> ModuleType:
    """The native module.

    Raises ForkError in a child of a process that loaded it, and ImportError where it is not built.
    """
    return _module.get()


def alive() -> bool:
    """Whether the native module may be called in this process."""
    return _module.native is not None and not _module.forked


def forked() -> bool:
    """Whether this process was forked from one that had loaded the native module, so that it cannot be called here."""
    return _module.forked


def call(name: str, *arguments: Any) -> Any:
    """Call a function of the native module; its errors become exceptions of `stepahead`."""
    function = getattr(native(), name)
    try:
        return function(*arguments)
    except RuntimeError as error:
        raise from_native(error) from None


# How long a wait in Go lasts before Python looks at signals again: Ctrl-C works within it.
SLICE_MILLIS = 100

# What a store of HDFS is configured by.
_ENVIRONMENT = (
    "HADOOP_CONF_DIR",
    "HADOOP_HOME",
    "HADOOP_USER_NAME",
    "HADOOP_TOKEN_FILE_LOCATION",
    "KRB5_CONFIG",
    "KRB5CCNAME",
    "KRB5_CLIENT_KTNAME",
)


def environment() -> dict[str, str]:
    """The variables that stores are configured by, as they are now: the native module's own copy is older."""
    return {name: os.environ.get(name, "") for name in _ENVIRONMENT}


_call_numbers = itertools.count(1)


class Call:
    """An operation of the native module that is under way. Memory that it was given must stay until it has ended."""

    __slots__ = ("_number",)

    def __init__(self, name: str, *arguments: Any) -> None:
        # The number is known before the operation begins, so that whatever interrupts this can end it.
        self._number = next(_call_numbers)
        try:
            call(name, self._number, *arguments)
        except BaseException:
            self.cancel()
            raise

    def wait(self) -> Any:
        """What came of it. If this is interrupted, the operation is ended before the interruption goes on."""
        try:
            while True:
                text = call("CallWait", self._number, SLICE_MILLIS)
                if text:
                    return json.loads(text)
        except BaseException:
            self.cancel()
            raise

    def __del__(self) -> None:
        # Nobody waited for it: the memory that it was given may be gone soon.
        if alive is not None:
            self.cancel()

    def cancel(self) -> None:
        """End it early, and return when it has ended. One that has ended is none to cancel."""
        if alive():
            native().CallCancel(self._number)
