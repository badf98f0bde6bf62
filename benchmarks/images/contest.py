"""Resident processes that do the same work in turn, and the CPU time that each of them takes."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks import photos

ROOT = photos.ROOT
BUILD = ROOT / "build" / "images"
PEERS_PYTHON = ROOT / "build" / "peers" / "bin" / "python"

# One thread, whatever the library.
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "GOMAXPROCS")}
# libjpeg-turbo and torch read these; the table's README says how it was checked that they do.
NO_AVX = {"JSIMD_FORCESSE2": "1", "ATEN_CPU_CAPABILITY": "default"}

Box = tuple[int, int, int, int]


def worker_environment() -> dict[str, str]:
    """How the pool has glibc hold a worker's memory, from its source."""
    source = (ROOT / "transform" / "worker" / "process.go").read_text()
    found = re.search(r'"GLIBC_TUNABLES=([^"]+)"', source)
    assert found, "transform/worker/process.go names no GLIBC_TUNABLES"
    return {"GLIBC_TUNABLES": found[1]}


@dataclass
class Work:
    """The files of a set and the box to cut from each: x, y, width, height."""

    name: str
    paths: list[pathlib.Path]
    boxes: list[Box]

    def __len__(self) -> int:
        return len(self.paths)

    def write(self) -> pathlib.Path:
        """The list that the peers read: "x y w h path" a line."""
        path = BUILD / f"{self.name}.boxes"
        rows = zip(self.boxes, self.paths, strict=True)
        path.write_text("".join(f"{' '.join(map(str, box))} {name}\n" for box, name in rows))
        return path


class Process:
    """A process that holds a set's files in memory and answers "JOB FROM TO [PATH]" with CPU milliseconds."""

    def __init__(self, command: Sequence[str | pathlib.Path], environment: Mapping[str, str] = {}) -> None:
        env = {**os.environ, **ONE_THREAD, "PYTHONWARNINGS": "ignore", **environment}
        pipe = subprocess.PIPE
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  (a pipe that nobody empties would stop the process)
        self.process = subprocess.Popen(
            list(map(str, command)), cwd=ROOT, env=env, text=True, stdin=pipe, stdout=pipe, stderr=self.errors
        )
        self.ready = self._line()

    def _line(self) -> str:
        assert self.process.stdout
        line: str = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.errors.seek(0)
            raise RuntimeError(self.errors.read().strip().rsplit("\n", 1)[-1] or "it ended without a word")
        if line.startswith("error: "):
            raise RuntimeError(line.removeprefix("error: ").strip())
        return line

    def ask(self, job: str, start: int, end: int, results: pathlib.Path | None = None) -> float:
        """CPU milliseconds of a job on some files; its results are appended to a file if one is named."""
        assert self.process.stdin
        self.process.stdin.write(f"{job} {start} {end} {results or ''}\n")
        self.process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        self.process.communicate()
        self.errors.close()


@dataclass
class Entry:
    """One competitor: a job in a process."""

    name: str
    process: Process
    job: str


class Contest:
    """All competitors on one set. What cannot be started is left out and named in `missing`."""

    def __init__(self, name: str, paths: list[pathlib.Path]) -> None:
        BUILD.mkdir(parents=True, exist_ok=True)
        listed = BUILD / f"{name}.list"
        listed.write_text("".join(f"{path}\n" for path in paths))
        self.environment = {"STEPAHEAD_CONTEST": str(listed), **worker_environment()}
        self.ours = Process(self._ours(), self.environment)
        boxes = [(b["X"], b["Y"], b["W"], b["H"]) for b in json.loads(self.ours.ready)]
        self.work = Work(name, paths, boxes)
        self.boxes = self.work.write()
        self.processes = {"stepahead": self.ours}
        self.entries: list[Entry] = []
        self.missing: dict[str, str] = {}

    @staticmethod
    def _ours() -> list[str | pathlib.Path]:
        run = ["-test.run=^$", "-test.bench=^BenchmarkContest$", "-test.benchtime=1x", "-test.timeout=0"]
        return [BUILD / "image.test", *run]

    def add(self, name: str, job: str, process: str, limited: bool = False) -> None:
        """Enter a job of a process: `stepahead`, `floor` or the name of a peer; `limited` to no more than SSE4.1."""
        environment = NO_AVX if limited else {}
        key = process + (" limited" if limited else "")
        try:
            if key not in self.processes:
                self.processes[key] = self._start(process, environment)
            started = self.processes[key]
            started.ask(job, 0, min(16, len(self.work)))  # a job that is not offered says so here
        except (RuntimeError, OSError) as error:
            self.missing[name] = str(error)
            print(f"images: NOT MEASURED: {name}: {error}", file=sys.stderr, flush=True)
        else:
            self.entries.append(Entry(name, started, job))

    def _start(self, process: str, environment: Mapping[str, str]) -> Process:
        if process == "stepahead":
            return Process(self._ours(), {**self.environment, **environment})
        if process == "floor":
            return Process([BUILD / "floor", self.boxes], environment)
        return Process([PEERS_PYTHON, "-m", "benchmarks.images.peers", process, self.boxes], environment)

    def rounds(self, count: int, chunk: int) -> dict[str, list[float]]:
        """CPU milliseconds an image, of each entry and round, after one round that does not count.

        A round is one pass over the set. Its files are done in chunks, each chunk by every entry in turn and each time in
        another order, so that what else the machine does falls on all.
        """
        table: dict[str, list[float]] = {entry.name: [] for entry in self.entries}
        turn = 0
        for number in range(count + 1):
            spent = dict.fromkeys(table, 0.0)
            for start in range(0, len(self.work), chunk):
                end = min(start + chunk, len(self.work))
                turn += 1
                for i in range(len(self.entries)):
                    entry = self.entries[(i + turn) % len(self.entries)]
                    spent[entry.name] += entry.process.ask(entry.job, start, end)
            if number > 0:
                for name, total in spent.items():
                    table[name].append(total / len(self.work))
        return table

    def close(self) -> None:
        for process in self.processes.values():
            process.close()


def compile_all() -> None:
    """Build our side and the C program into build/images."""
    BUILD.mkdir(parents=True, exist_ok=True)
    commands = [
        ["go", "test", "-c", "-o", BUILD / "image.test", "./transform/image"],
        ["cc", "-O3", "-o", BUILD / "floor", "benchmarks/images/floor.c", "-ljpeg", "-lpng", "-lwebp"],
    ]
    for command in commands:
        subprocess.run(list(map(str, command)), cwd=ROOT, check=True)
