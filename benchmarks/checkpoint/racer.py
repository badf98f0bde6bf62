"""One of those who read checkpoints, in a process of its own: `racer.py NAME SPEC`. README.md says who is who.

Each line of standard input is a task, answered by a line with what it took. It runs in build/peers-hdfs.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import pathlib
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import fsspec  # type: ignore[import-untyped]
import safetensors
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.fsspec_filesystem import FsspecReader

Loaded = dict[str, Any]
Places = dict[str, tuple[str, int, int]]


class Contestant:
    """Loads tensors by name from the folders below a URL or a local path."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.sources: dict[str, Any] = {}  # how many bytes of the last load came from where, if it knows
        self.kept: Loaded = {}  # what was last loaded to be kept
        self._states: dict[tuple[str, ...], Loaded] = {}

    def state(self, names: Iterable[str]) -> Loaded:
        """A model's tensors, which are there before a checkpoint is loaded into them."""
        key = tuple(names)
        if key not in self._states:
            self._states[key] = {name: torch.empty(self.places[name][2] // 2, dtype=torch.bfloat16) for name in key}
        return self._states[key]

    def load(self, url: str, names: list[str]) -> Loaded:
        raise NotImplementedError

    def file(self, url: str) -> Any:
        """The content of one file."""
        raise NotImplementedError

    def one(self, path: str, name: str) -> Any:
        """One tensor of one local file."""
        raise NotImplementedError

    def header(self, path: str) -> float:
        """Read the header of a local file, and return the seconds that it took."""
        raise NotImplementedError


def ours(url: str) -> tuple[Any, str]:
    from stepahead.filesystem import FileSystem

    store, path = url, ""
    if "://" in url:
        scheme, rest = url.split("://")
        store, path = f"{scheme}://{rest.split('/')[0]}", "/" + rest.partition("/")[2]
        return FileSystem(store), path
    return FileSystem(), url


class Reader(Contestant):
    def load(self, url: str, names: list[str]) -> Loaded:
        from stepahead import checkpoint

        state, reader = self.state(names), checkpoint.Reader(f"{url}/dcp")
        dcp.load(state, storage_reader=reader)
        self.sources = reader.sources()
        reader.close()
        return state


class Torch(Contestant):
    def load(self, url: str, names: list[str]) -> Loaded:
        state = self.state(names)
        reader = FsspecReader if "://" in url else dcp.FileSystemReader
        dcp.load(state, storage_reader=reader(f"{url}/dcp"))
        return state


class LoadSafetensors(Contestant):
    def load(self, url: str, names: list[str]) -> Loaded:
        from stepahead import checkpoint

        return checkpoint.load_safetensors(f"{url}/safetensors", names=names)

    def one(self, path: str, name: str) -> Any:
        from stepahead import checkpoint

        return checkpoint.load_safetensors(path, names=[name])[name]


class Safetensors(Contestant):
    def header(self, path: str) -> float:
        begin = time.perf_counter()
        with safetensors.safe_open(path, framework="pt"):
            return time.perf_counter() - begin

    def load(self, url: str, names: list[str]) -> Loaded:
        wanted, out = set(names), {}
        fs, root = fsspec.url_to_fs(f"{url}/safetensors")
        for file in sorted({self.places[name][0] for name in names}):
            if "://" in url:
                loaded = safetensors.torch.load(fs.cat_file(f"{root}/{file}"))
            else:
                loaded = safetensors.torch.load_file(f"{root}/{file}")
            out.update({name: tensor for name, tensor in loaded.items() if name in wanted})
        return out

    def one(self, path: str, name: str) -> Any:
        with safetensors.safe_open(path, framework="pt") as file:
            return file.get_tensor(name)


class Ranges(Contestant):
    """Each tensor as a range of a file, by our file system."""

    def load(self, url: str, names: list[str]) -> Loaded:
        fs, root = self.system(f"{url}/safetensors")
        files, starts, lengths = zip(*(self.places[name] for name in names), strict=True)
        ends = [start + length for start, length in zip(starts, lengths, strict=True)]
        found = fs.cat_ranges([f"{root}/{file}" for file in files], list(starts), ends, on_error="raise")
        return dict(zip(names, found, strict=True))

    def file(self, url: str) -> Any:
        fs, path = self.system(url)
        return fs.cat_file(path)

    def system(self, url: str) -> tuple[Any, str]:
        return ours(url)


class Native(Ranges):
    """The same by hdfs-native's."""

    def system(self, url: str) -> tuple[Any, str]:
        found: tuple[Any, str] = fsspec.url_to_fs(url)
        return found


KINDS: dict[str, Callable[[Places], Contestant]] = {
    "Reader": Reader,
    "FsspecReader": Torch,
    "load_safetensors": LoadSafetensors,
    "safetensors": Safetensors,
    "cat_ranges": Ranges,
    "hdfs-native": Native,
}


def content(value: Any) -> memoryview:
    if isinstance(value, torch.Tensor):
        return memoryview(value.reshape(-1).view(torch.uint8).numpy())
    return memoryview(value)


def touch(loaded: Loaded) -> None:
    """Every page: what is only mapped is not read yet."""
    for value in loaded.values():
        sum(content(value)[::4096])


def digest(loaded: Loaded) -> str:
    h = hashlib.sha256()
    for name in sorted(loaded):
        h.update(name.encode())
        h.update(content(loaded[name]))
    return h.hexdigest()


def resident(field: str) -> int:
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) << 10
    raise ValueError(f"/proc/self/status has no {field}")


def run(contestant: Contestant, task: dict[str, Any]) -> dict[str, Any]:
    if task["do"] == "ready":
        return {}
    if task["do"] == "digest":
        return {"sha256": digest(contestant.kept)}
    if task["do"] == "header":
        return {"wall": contestant.header(task["url"])}
    names = task.get("names") or list(contestant.places)
    if task["do"] == "memory":
        gc.collect()
        before = resident("VmRSS")
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        loaded = contestant.load(task["url"], names)
        touch(loaded)
        return {"peak": resident("VmHWM") - before, "bytes": sum(len(content(v)) for v in loaded.values())}
    begin, cpu = time.perf_counter(), time.process_time()
    if task["do"] == "load":
        loaded = contestant.load(task["url"], names)
        touch(loaded)
    elif task["do"] == "file":
        loaded = {"": contestant.file(task["url"])}
    else:
        loaded = {"": contestant.one(task["url"], task["names"][0])}
    wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
    if task.get("keep"):
        contestant.kept = loaded
    size = sum(len(content(v)) for v in loaded.values())
    result = {"wall": wall, "cpu": cpu, "bytes": size, "sources": contestant.sources}
    return {**result, "sha256": digest(loaded)} if task.get("digest") else result


def main() -> int:
    warnings.simplefilter("ignore")  # that there is one process, and that read-only memory becomes tensors
    name, spec = sys.argv[1], json.loads(pathlib.Path(sys.argv[2]).read_text())
    contestant = KINDS[name]({tensor: tuple(place) for tensor, place in spec["places"].items()})
    if "HADOOP_CONF_DIR" in os.environ and name in ("FsspecReader", "safetensors", "hdfs-native"):
        import native  # beside this file

        native.register()
    for line in sys.stdin:
        print(json.dumps(run(contestant, json.loads(line))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
