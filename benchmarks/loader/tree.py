"""CPU time and memory of a process with all its descendants, as the kernel counts them."""

from __future__ import annotations

import contextlib
import os
import pathlib
import threading
import time
from collections.abc import Iterator

TICK = os.sysconf("SC_CLK_TCK")


def stat(pid: int | str) -> list[str]:
    """The fields of /proc/PID/stat after the program's name: [1] is the parent, [13:15] the time of reaped children."""
    text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return text[text.rindex(")") + 2 :].split()


def processes(root: int, without: int = 0) -> list[int]:
    """A process and its descendants, but for one of them and its own."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                children.setdefault(int(stat(entry)[1]), []).append(int(entry))
    found = [root]
    for pid in found:  # grows as it goes
        found += [child for child in children.get(pid, []) if child != without]
    return found


def cpu(root: int, without: int = 0) -> float:
    """Seconds of CPU time of a process, of its descendants, and of those of them that have been reaped."""
    total = 0.0
    for pid in processes(root, without):
        with contextlib.suppress(OSError):
            total += time.clock_gettime(~pid << 3 | 2)  # the clock of another process: clock_getcpuclockid(3)
            total += sum(map(int, stat(pid)[13:15])) / TICK
    return total


def pss(root: int) -> float:
    """Proportional set size of a process and its descendants, in MB."""
    total = 0
    for pid in processes(root):
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
    return total / 1024


def line_up(root: int) -> None:
    """Give descendants the place in line that a process has: those in a session of their own are scheduled as another group."""
    with contextlib.suppress(OSError):
        nice = pathlib.Path(f"/proc/{root}/autogroup").read_text().rsplit(" ", 1)[1].strip()
        for pid in processes(root)[1:]:
            with contextlib.suppress(OSError):
                pathlib.Path(f"/proc/{pid}/autogroup").write_text(nice)


class Peak:
    """The largest PSS of a process tree."""

    def __init__(self) -> None:
        self.value = 0.0


@contextlib.contextmanager
def peak(root: int, every: float = 0.2) -> Iterator[Peak]:
    """Watch the memory of a process tree while the block runs."""
    seen, done = Peak(), threading.Event()

    def watch() -> None:
        while not done.wait(every):
            seen.value = max(seen.value, pss(root))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        done.set()
        watcher.join()
