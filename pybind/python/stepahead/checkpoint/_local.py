"""A checkpoint's files as local ones, for programs that read nothing else."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import fnmatch
import hashlib
import mmap
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence

from stepahead._errors import CheckpointError
from stepahead.checkpoint._opened import Opened

# The names of copies, and of nothing else in the folder where they lie.
_VIEW = "stepahead-{}"
_LOCK = re.compile(r"stepahead-[0-9a-f]{32}\.lock")

# What from_pretrained reads: weights, configuration, tokenizer and the model's own code.
_PRETRAINED = ("*.safetensors", "*.json", "*.txt", "*.model", "*.tiktoken", "*.jinja", "*.py")


@contextlib.contextmanager
def local(
    path: str | os.PathLike[str],
    *,
    files: Sequence[str] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    catalogue: str | os.PathLike[str] | None = None,
) -> Iterator[str]:
    """A local folder with the files of a checkpoint, for `from_pretrained` of Hugging Face.

    Of a checkpoint in a local folder it is that folder. One that lies elsewhere is copied, once for all processes of this host
    that ask for it, and removed when the last of them leaves the `with` block (or, of killed ones, when the next does).

    Args:
        path: the checkpoint's folder, or its URL.
        files: patterns of the names of the files that are needed, such as `["*.safetensors", "*.json"]`. Default: weights in
            safetensors, configuration, tokenizer and code; weights of torch.save where there are no others.
        cache_dir: where copies lie: a folder of this user's own, of one host. Default: below the system's folder for temporary files.
        catalogue: the URL of this site's store, whose catalogue says where temporary copies are; "off": none are read. Default: what
            STEPAHEAD_CATALOGUE says.

    Raises:
        CheckpointError: there is none, or it is not complete.
        IdentityError: it was replaced while it was copied.

    Example:
        >>> with local("hdfs://ns/models/7b") as folder:  # doctest: +SKIP
        ...     model = transformers.AutoModel.from_pretrained(folder)
    """
    opened = Opened(path, catalogue=catalogue)
    try:
        if not opened.remote:
            yield opened.folder
            return
        names = _names(opened, files)
        root = pathlib.Path(cache_dir) if cache_dir is not None else _default_folder()
        root.mkdir(parents=True, exist_ok=True)
        version = hashlib.sha256("\n".join([opened.identity, *names]).encode()).hexdigest()
        view = root / _VIEW.format(version[:32])
        _sweep(root)
        lock = _hold(opened, view, names)
    finally:
        opened.close()
    try:
        yield str(view)
    finally:
        _leave(view, lock)


def _names(opened: Opened, patterns: Sequence[str] | None) -> list[str]:
    names = [file["name"] for file in opened.files]
    chosen = patterns if patterns is not None else _PRETRAINED
    found = [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in chosen)]
    if patterns is None and not any(name.endswith(".safetensors") for name in found):
        found += [name for name in names if fnmatch.fnmatchcase(name, "pytorch_model*.bin")]
    if not found:
        hint = (
            f": it is a checkpoint of the layout {opened.layout}; files=['*'] takes all of it"
            if patterns is None
            else ""
        )
        raise CheckpointError(f"{opened.path}: no file of it is like {', '.join(chosen)}{hint}")
    return found


def _default_folder() -> pathlib.Path:
    folder = pathlib.Path(tempfile.gettempdir()) / f"stepahead-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    told = folder.lstat()
    if told.st_uid != os.geteuid() or folder.is_symlink():
        raise PermissionError(f"{folder} is not this user's own folder: give another one as cache_dir")
    return folder


def _sweep(root: pathlib.Path) -> None:
    """Remove the copies that nobody holds: of killed processes."""
    for path in root.iterdir():
        if _LOCK.fullmatch(path.name):
            with contextlib.suppress(OSError):
                _leave(path.with_suffix(""), os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW))


def _hold(opened: Opened, view: pathlib.Path, names: list[str]) -> int:
    """Make the copy, unless it is there, and return a lock that keeps it."""
    while True:
        lock = os.open(_lock_path(view), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            # Many hold a copy that is whole. One that is not is nobody's for longer than this look.
            fcntl.flock(lock, fcntl.LOCK_SH)
            if _is_current(view, lock) and not _whole(view).exists():
                fcntl.flock(lock, fcntl.LOCK_EX)
                if _is_current(view, lock) and not _whole(view).exists():
                    _copy(opened, view, names)
                    _whole(view).touch()
                fcntl.flock(lock, fcntl.LOCK_SH)  # for a moment it is nobody's
            if _is_current(view, lock) and _whole(view).exists():
                return lock
        except BaseException:
            _leave(view, lock)
            raise
        os.close(lock)


def _whole(view: pathlib.Path) -> pathlib.Path:
    return view / ".stepahead-whole"


def _lock_path(view: pathlib.Path) -> pathlib.Path:
    return view.with_name(view.name + ".lock")


def _is_current(view: pathlib.Path, lock: int) -> bool:
    """Whether the lock still is the one that others find."""
    try:
        return os.path.samestat(os.fstat(lock), os.stat(_lock_path(view)))
    except FileNotFoundError:
        return False


def _copy(opened: Opened, view: pathlib.Path, names: list[str]) -> None:
    """Copy files, all at the same time. A file has its name when it is whole."""
    with contextlib.ExitStack() as mapped:
        wants = []
        for name in names:
            number = opened.number(name, "a file")
            size = opened.files[number]["size"]
            target = view / (name + ".part")
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("w+b") as file:
                if size:
                    _make_room(file.fileno(), size, target)
                    memory = mapped.enter_context(_Mapped(file.fileno(), size))
                    wants.append([number, 0, size, memory])
        opened.read(wants)
    for name in names:
        (view / (name + ".part")).rename(view / name)


def _make_room(descriptor: int, size: int, target: pathlib.Path) -> None:
    """Say here that a disk is full, not as it is written."""
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        what = f"no room for {size} bytes of the copy: make some, or give another folder as cache_dir: {error.strerror}"
        raise OSError(error.errno, what, str(target)) from error


class _Mapped:
    """A file as memory, and where it begins."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._map = mmap.mmap(descriptor, size)

    def __enter__(self) -> int:
        return ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    def __exit__(self, *_: object) -> None:
        self._map.close()


def _leave(view: pathlib.Path, lock: int) -> None:
    """Give the copy up. The last one removes it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_current(view, lock):
            shutil.rmtree(view, ignore_errors=True)
            _lock_path(view).unlink(missing_ok=True)
    except BlockingIOError:
        pass
    finally:
        os.close(lock)
