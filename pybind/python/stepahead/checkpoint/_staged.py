"""What is read into memory of ours first, and copied from there: a bounded part of it at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from stepahead._binding import Call

Item = TypeVar("Item")
Memory = TypeVar("Memory")


def groups(items: Iterable[Item], size: Callable[[Item], int], most: int | None) -> Iterator[list[Item]]:
    """Items in their order, as many at a time as have `most` bytes together; one that has more is alone. None: all of them."""
    group: list[Item] = []
    held = 0
    for item in items:
        if group and most is not None and held + size(item) > most:
            yield group
            group, held = [], 0
        group.append(item)
        held += size(item)
    if group:
        yield group


def read(
    parts: Iterable[list[Item]],
    begin: Callable[[list[Item]], tuple[Memory, Call]],
    give: Callable[[list[Item], Memory, list[int]], None],
) -> None:
    """Read group after group, the next one while `give` is called with one, its memory and what came of its call.

    No memory is read into any more when this returns, or raises what `begin`, a call or `give` did.
    """
    reading: tuple[list[Item], Memory, Call] | None = None
    try:
        for group in [*parts, None]:
            before, reading = reading, None if group is None else (group, *begin(group))
            if before is not None:
                give(before[0], before[1], before[2].wait())
    finally:
        if reading is not None:
            reading[2].cancel()
