"""Which job a loader says it belongs to."""

from __future__ import annotations

import json

import pytest
import stepahead
from stepahead import _binding


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
