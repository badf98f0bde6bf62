"""How far the pixels of competitors are from a reference's."""

from __future__ import annotations

import pathlib
import tempfile
from dataclasses import dataclass

import numpy as np

from benchmarks.images.contest import Contest, Entry

# A process keeps the results of so many files.
AT_ONCE = 16


@dataclass
class Distance:
    """In levels of 0 to 255, over all pixels of a set."""

    most: int
    mean: float
    equal: float  # share of values

    def __str__(self) -> str:
        return "equal" if self.most == 0 else f"at most {self.most}, mean {self.mean:.3f}, {self.equal:.1%} equal"


def compare(contest: Contest, reference: str, names: list[str]) -> dict[str, Distance]:
    """The distances of some entries from the reference, over every file of the contest's set."""
    entries = {entry.name: entry for entry in contest.entries}
    found = {name: Distance(0, 0, 0) for name in names if name in entries}
    total = 0
    for start in range(0, len(contest.work), AT_ONCE):
        end = min(start + AT_ONCE, len(contest.work))
        want = _results(entries[reference], start, end)
        total += want.size
        for name, distance in found.items():
            got = _results(entries[name], start, end)
            if got.shape != want.shape:
                raise RuntimeError(f"{name} made {got.size} bytes of files {start} to {end}, {reference} {want.size}")
            difference = np.abs(got.astype(np.int16) - want)
            distance.most = max(distance.most, int(difference.max()))
            distance.mean += float(difference.sum())
            distance.equal += int((difference == 0).sum())
    for distance in found.values():
        distance.mean, distance.equal = distance.mean / total, distance.equal / total
    return found


def _results(entry: Entry, start: int, end: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    with tempfile.NamedTemporaryFile() as f:
        entry.process.ask(entry.job, start, end, pathlib.Path(f.name))
        return np.fromfile(f.name, np.uint8)
