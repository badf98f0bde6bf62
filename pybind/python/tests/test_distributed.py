"""Which job a loader says it belongs to."""

from __future__ import annotations

import collections
import json
import pathlib
import types

import pytest
import stepahead
from stepahead import _binding, _distributed


class Opened(Exception):
    """Stands for the native Open."""


@pytest.mark.parametrize(
    ("token", "job", "told"),
    [
        (None, None, "from-scheduler"),
        (None, "mine", "mine"),
        ("a.token", None, None),  # the token's, which the native side reads
        ("a.token", "mine", "mine"),  # the native side compares them
    ],
)
def test_job_of_token(token: str | None, job: str | None, told: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict = {}

    def call(name: str, *arguments: object) -> object:
        if name == "Open":
            seen.update(json.loads(str(arguments[0])))
            raise Opened
        return None

    monkeypatch.setattr(_binding, "call", call)
    monkeypatch.setenv("STEPAHEAD_JOB", "from-scheduler")
    monkeypatch.delenv("STEPAHEAD_TOKEN", raising=False)
    if token:
        monkeypatch.setenv("STEPAHEAD_TOKEN", token)
    with pytest.raises(Opened):
        stepahead.DataLoader("/nowhere", global_batch=8, job=job, agents="auto")
    assert seen.get("job") == told
    assert seen.get("token") == token
    assert seen["run"]


class Store(dict[str, bytes]):
    """Stands for the store of torch.distributed."""

    def compare_set(self, key: str, _: str, value: str) -> bytes:
        return self.setdefault(key, value.encode())


def test_given_steps_are_compared_loader_by_loader(dataset: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaders of the same run, side by side and one after the other, are each compared with that of the other rank."""
    store = Store()
    group = types.SimpleNamespace(
        get_world_size=lambda: 2, distributed_c10d=types.SimpleNamespace(_get_default_store=lambda: store)
    )
    monkeypatch.setattr(_distributed, "_group", lambda: group)

    def on(rank: int, *given: list[int], world_size: int = 2) -> None:
        """A rank of the job: a process, in which nothing was made yet."""
        monkeypatch.setattr(_distributed, "_namesakes", collections.Counter[str]())
        options: dict = {
            "order": "given",
            "fields": ["label"],
            "global_batch": 4,
            "job": "job",
            "run": "1",
            "workers": 1,
        }
        options |= {"rank": rank % world_size, "world_size": world_size}
        with stepahead.DataLoader(dataset, **options) as first:
            first.give([given[0]])
            with stepahead.DataLoader(dataset, **options) as second:
                second.give([given[1]])
                first.give([given[2]])
        with stepahead.DataLoader(dataset, **options) as third:
            third.give([given[3]])

    steps = [[i, i + 1, i + 2, i + 3] for i in range(4)]
    on(0, *steps)
    on(1, *steps)
    for i in range(4):
        with pytest.raises(stepahead.OptionError, match="other samples than another"):
            on(1, *steps[:i], [9, 9, 9, 9], *steps[i + 1 :])
    on(0, [5, 5, 5, 5], *steps[1:], world_size=1)  # of its own: nobody else has it
