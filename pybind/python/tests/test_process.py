"""How the package lives with fork, signals, threads, other libraries and several ranks."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable

import pytest
import stepahead
from stepahead import transforms as T

PLAN = "T.Compose([T.DecodeImage(), T.CenterCrop(64)])"


def python(code: str, *arguments: object, timeout: float = 60, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter."""
    program = "import stepahead\nfrom stepahead import transforms as T\n" + textwrap.dedent(code)
    result = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert not check or result.returncode == 0, result.stdout + result.stderr
    return result


def test_import_takes_the_standard_library_alone() -> None:
    # So it is quick, and neither Go, torch nor NumPy is loaded before it is needed.
    code = """
import sys
before = set(sys.modules)
import stepahead
roots = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(roots - set(sys.stdlib_module_names)))
print(open("/proc/self/maps").read())
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    roots, _, maps = out.stdout.partition("\n")
    assert roots == "['stepahead']"
    assert "_pybind" not in maps and "libtorch" not in maps


@pytest.mark.parametrize("torch_first", [True, False])
@pytest.mark.parametrize("fault_handler", [True, False])
def test_import_order(dataset: pathlib.Path, torch_first: bool, fault_handler: bool) -> None:
    python(
        f"""
        import faulthandler, sys
        if {fault_handler}: faulthandler.enable()
        if {torch_first}: import torch
        loader = stepahead.DataLoader(sys.argv[1], global_batch=8, transform={PLAN}, workers=1)
        print(sum(b["image"].float().mean().item() for b in loader))
        """,
        dataset,
    )


def test_a_forked_child_gets_an_exception_at_once(dataset: pathlib.Path) -> None:
    out = python(
        f"""
        import multiprocessing, sys, time
        loader = stepahead.DataLoader(sys.argv[1], global_batch=8, transform={PLAN}, workers=1)
        next(iter(loader))
        def child():
            started = time.monotonic()
            for use in (lambda: next(iter(loader)), lambda: stepahead.DataLoader(sys.argv[1], global_batch=8)):
                try:
                    use()
                except stepahead.ForkError as error:
                    assert "spawn" in str(error) and time.monotonic() - started < 10
                else:
                    raise SystemExit("no exception")
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join(20)
        print("exit", process.exitcode)
        next(iter(loader))
        """,
        dataset,
    )
    assert "exit 0" in out.stdout, out.stderr


def test_forked_children_may_load_it_first(dataset: pathlib.Path) -> None:
    out = python(
        f"""
        import multiprocessing, sys
        def child():
            with stepahead.DataLoader(sys.argv[1], global_batch=8, transform={PLAN}, workers=1, output="numpy") as loader:
                assert sum(1 for _ in loader) == 5
        children = [multiprocessing.get_context("fork").Process(target=child) for _ in range(8)]
        for c in children: c.start()
        for c in children: c.join(50)
        print([c.exitcode for c in children])
        """,
        dataset,
    )
    assert "[0, 0, 0, 0, 0, 0, 0, 0]" in out.stdout, out.stderr


def test_a_forked_child_waits_for_no_lock_of_its_parent(tmp_path: pathlib.Path) -> None:
    out = python(
        """
        import multiprocessing, sys
        from stepahead import _stores
        _stores.common(sys.argv[1])
        def child():
            try:
                _stores.common(sys.argv[1] + "/other")
            except stepahead.ForkError:
                return
            raise SystemExit("no exception")
        with _stores._common.lock:
            process = multiprocessing.get_context("fork").Process(target=child)
            process.start()
            process.join(20)
        print("exit", process.exitcode)
        """,
        tmp_path,
    )
    assert "exit 0" in out.stdout, out.stderr


def test_torch_worker_says_what_to_do(dataset: pathlib.Path) -> None:
    out = python(
        f"""
        import sys, torch
        loader = stepahead.DataLoader(sys.argv[1], global_batch=8, transform={PLAN}, workers=1)
        class Wrapped(torch.utils.data.IterableDataset):
            def __iter__(self): return iter(loader)
        try:
            list(torch.utils.data.DataLoader(Wrapped(), batch_size=None, num_workers=1, multiprocessing_context="fork"))
        except Exception as error:
            print("raised", error)
        """,
        dataset,
    )
    assert "raised" in out.stdout and "num_workers=0" in out.stdout


@pytest.mark.parametrize("latency", [60, 2], ids=["while it opens", "while it waits for a batch"])
def test_ctrl_c_ends_a_wait(slow_dataset: Callable[[float], pathlib.Path], latency: float) -> None:
    code = f"""
        import sys, threading, time
        def say_when_opening():
            while not stepahead._loader._open_loaders: time.sleep(0.01)
            print("waiting", flush=True)
        try:
            if {latency} > 10: threading.Thread(target=say_when_opening).start()
            loader = stepahead.DataLoader(sys.argv[1], global_batch=8, transform={PLAN}, workers=1)
            if {latency} < 10: print("waiting", flush=True)
            next(iter(loader))
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """
    # A job that a shell started in the background ignores SIGINT, and so would what it starts.
    head = "import signal, stepahead\nfrom stepahead import transforms as T\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    program = head + textwrap.dedent(code)
    command = [sys.executable, "-c", program, str(slow_dataset(latency))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    assert process.stdout.readline() == "interrupted\n"
    assert process.wait(timeout=20) == 0
    assert time.monotonic() - started < 10


def test_ends_while_a_thread_waits(slow_dataset: Callable[[float], pathlib.Path]) -> None:
    python(
        f"""
        import sys, threading
        loader = stepahead.DataLoader(sys.argv[1], global_batch=8, transform={PLAN}, workers=1)
        def wait():
            try: next(iter(loader))
            except stepahead.ClosedError: print("closed")
        threading.Thread(target=wait).start()
        """,
        slow_dataset(3),
        timeout=60,
    )


def test_loaders_in_many_threads(dataset: pathlib.Path) -> None:
    plan = T.Compose([T.DecodeImage(), T.CenterCrop(64)])
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            with stepahead.DataLoader(dataset, global_batch=8, transform=plan, seed=seed, workers=1) as loader:
                for _ in range(3):
                    assert sum(1 for _ in loader) == 5
                    with pytest.raises(stepahead.StepaheadError):
                        loader.load_state_dict({"stepahead": "{}"})
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_no_worker_is_left_behind(dataset: pathlib.Path) -> None:
    def workers() -> set[str]:
        return {
            pid
            for pid in filter(str.isdigit, os.listdir("/proc"))
            if _parent(pid) == os.getpid() and "stepahead-worker" in _command(pid)
        }

    before = workers()
    loader = stepahead.DataLoader(
        dataset, global_batch=8, transform=T.Compose([T.DecodeImage(), T.CenterCrop(64)]), workers=2
    )
    next(iter(loader))
    assert workers() - before
    loader.close()
    assert not workers() - before


def _parent(pid: str) -> int:
    try:
        return int(pathlib.Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _command(pid: str) -> str:
    try:
        return pathlib.Path("/proc", pid, "cmdline").read_text()
    except OSError:
        return ""


def test_rank_and_world_come_from_torch_distributed(dataset: pathlib.Path, tmp_path: pathlib.Path) -> None:
    script = tmp_path / "ranks.py"
    script.write_text(
        textwrap.dedent(f"""
        import json, sys
        import torch.distributed as dist
        import stepahead
        from stepahead import transforms as T
        dist.init_process_group("gloo")
        with stepahead.DataLoader(sys.argv[1], batch_size=4, transform={PLAN}, workers=1) as loader:
            samples = [batch.samples for batch in loader]
            everyone = [None] * dist.get_world_size()
            dist.all_gather_object(everyone, (samples, loader.state_dict(), loader._run))
        if dist.get_rank() == 0:
            (a, state, run), (b, same, same_run) = everyone
            assert state == same and run == same_run
            flat = [sample for batch in a + b for sample in batch]
            assert len(flat) == len(set(flat)) == 40, flat
            print("agreed")
        dist.destroy_process_group()
        """)
    )
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        str(script),
        str(dataset),
    ]
    out = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "agreed" in out.stdout, out.stderr


def test_the_version_is_that_of_the_programs() -> None:
    program = pathlib.Path(stepahead.__file__).parent / "_bin" / "stepahead"
    said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert said.startswith(f"stepahead version {stepahead.__version__} (")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = stepahead.nothing
