"""Ranks of a job on this machine, as processes that import torch, and whatever else they need, once for all of them."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

# A server that is started once and forks: it has no threads and nothing of a Go runtime.
server = multiprocessing.get_context("forkserver")
server.set_forkserver_preload(
    ["pytest", "torch.distributed.checkpoint", "torch.distributed.fsdp", "stepahead.checkpoint._reader"]
)


def program(code: str, *arguments: object, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run a program with arguments in a process of its own, as `python -c` does."""
    with tempfile.TemporaryDirectory() as folder:
        said = [str(pathlib.Path(folder) / name) for name in ("stdout", "stderr")]
        argv = ["-c", *map(str, arguments)]
        process = server.Process(target=_program, args=(textwrap.dedent(code), argv, said, dict(os.environ)))
        process.start()
        process.join(timeout)
        process.kill()
        process.join()
        out, err = (pathlib.Path(file).read_text() if os.path.exists(file) else "" for file in said)
        return subprocess.CompletedProcess(argv, process.exitcode or 0, out, err)


def _program(code: str, argv: list[str], said: list[str], environment: dict[str, str]) -> None:
    for number, file in enumerate(said, 1):
        to = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.dup2(to, number)
        os.close(to)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = argv
    exec(compile(code, "-c", "exec"), {"__name__": "__main__"})


def run(
    world: int, function: Callable[..., Any], *arguments: Any, imports: Sequence[str] = (), timeout: float = 250
) -> list[Any]:
    """Call a function of a module in each rank of a group of gloo, and return what each returns. Fails with what any raises.

    Modules of `imports` are imported before the ranks are forked from each other.
    """
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        pipes = [server.Pipe(duplex=False) for _ in range(world)]
        ends = [theirs for _, theirs in pipes]
        store = str(pathlib.Path(folder) / "store")
        leader = server.Process(target=_lead, args=(ends, store, dict(os.environ), imports, function, arguments))
        leader.start()
        stack.callback(leader.join)
        stack.callback(_kill, leader.pid)  # before it
        for end in ends:
            end.close()
        results = [mine for mine, _ in pipes]
        answers: dict[int, Any] = {}
        while len(answers) < world:
            ready = wait([results[rank] for rank in range(world) if rank not in answers], timeout)
            assert ready, f"ranks {sorted(set(range(world)) - answers.keys())} have not come to their end"
            for connection in ready:
                rank = results.index(connection)
                try:
                    good, answers[rank] = connection.recv()
                except EOFError:
                    good, answers[rank] = False, "the process is gone"
                assert good, f"rank {rank}: {answers[rank]}"
        leader.join(timeout)
        return [answers[rank] for rank in range(world)]


def _kill(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _lead(
    ends: list[Connection],
    store: str,
    environment: dict[str, str],
    imports: Sequence[str],
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    os.setpgid(0, 0)
    os.environ.clear()
    os.environ.update(environment)
    for module in imports:
        importlib.import_module(module)
    forking = multiprocessing.get_context("fork")
    world = len(ends)
    ranks = [
        forking.Process(target=_rank, args=(ends, store, rank, world, function, arguments)) for rank in range(world)
    ]
    for process in ranks:
        process.start()
    for end in ends:
        end.close()
    for process in ranks:
        process.join()


def _rank(
    ends: list[Connection],
    store: str,
    rank: int,
    world: int,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    for other, end in enumerate(ends):
        if other != rank:
            end.close()
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world))
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", store=dist.FileStore(store, world), rank=rank, world_size=world)
        try:
            result = function(*arguments)
            dist.barrier()
        finally:
            dist.destroy_process_group()
        answer = True, result
    except BaseException:
        answer = False, traceback.format_exc()
    ends[rank].send(answer)
