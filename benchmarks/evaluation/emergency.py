"""An ordinary copy is under way on a slow link, and the loss of another checkpoint jumps: when has its copy begun?"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from benchmarks.controller import BUDGETS, Controller
from benchmarks.evaluation.ground import MIB, SITE, Ground, path_of

ORDINARY, EMERGENCY = 192 * MIB, 8 * MIB
SLOW = "rate: 1 MB/s, emergency-rate: 50 MB/s"


@dataclass
class Spike:
    """Seconds after the hint about a jump of the loss came to the agent."""

    paused: float  # the ordinary copy was told to stand still
    begun: float  # the emergency's copy was begun
    published: float


def measure(ground: Ground, controller: Controller, rounds: int) -> Iterator[Spike]:
    budgets = controller.work / "budgets.yaml"
    before = settings(controller)
    budgets.write_text(BUDGETS.format(site=SITE).replace("rate: 10 GB/s", SLOW))
    until("the new budgets count", lambda: settings(controller) > before)
    ordinary = ground.put("ordinary/step-1", ORDINARY)
    urgent = [ground.put(f"urgent/step-{i + 1}", EMERGENCY) for i in range(rounds)]
    schedule(controller, ordinary, expected_in=60)
    for url in urgent:
        schedule(controller, url, expected_in=3 * 3600)
    controller.wait(path_of(ordinary), {"making"})
    for url in urgent:
        yield spike(controller, ordinary, url)
        controller.wait(path_of(ordinary), {"making"})  # it goes on
    for url in [ordinary, *urgent]:
        controller.say.evaluation_cancelled(url)
    for url in [ordinary, *urgent]:
        controller.wait(path_of(url), set())


def schedule(controller: Controller, url: str, expected_in: float, step: int | None = None) -> None:
    """A checkpoint is there, and will be evaluated at the site."""
    controller.say.committed(url, step)
    controller.say.evaluation_scheduled(url, site=SITE, expected_in=expected_in, holds=4 * 3600)
    told = controller.say.told(30)
    if not told.done:
        raise RuntimeError(f"no agent took what was said of {url}: {told}")


def spike(controller: Controller, ordinary: str, url: str) -> Spike:
    """One emergency, until its copy is there."""
    path = path_of(url)
    number = controller.placements(path_of(ordinary))[0]["id"]
    known = len(planned(controller))
    controller.say.loss_spike(url)
    controller.wait(path, {"live"})
    hint = next(r for r in relayed(controller) if is_spike(r, path))
    at = hint["received_ms"] / 1e3
    stopped = next(when for when, what in planned(controller)[known:] if what.startswith(f"pace     {number} rate=0"))
    return Spike(stopped - at, audited(controller, "make", path) - at, audited(controller, "published", path) - at)


def is_spike(record: dict[str, Any], path: str) -> bool:
    of = record.get("checkpoint") or {}
    return of.get("state") == "loss-spike" and of.get("path") == path


def relayed(controller: Controller) -> list[dict[str, Any]]:
    """What the agent keeps for the controller."""
    text = controller.run(
        "stepahead-agent", "relay", "print", "--store", controller.store, "--node", controller.node,
        "--cache", controller.work / "agent",
    )  # fmt: skip
    return [json.loads(line) for line in text.splitlines()]


def planned(controller: Controller) -> list[tuple[float, str]]:
    """What the controller decided, and when: a maker is told of a pace in the same instant."""
    lines = (controller.work / "stepahead-controller.log").read_text().splitlines()
    records = [json.loads(line) for line in lines if line.startswith("{")]
    return [(r["ts"], r["action"]) for r in records if r["msg"] == "planned"]


def audit(controller: Controller) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (controller.work / "journal.audit").read_text().splitlines()]


def settings(controller: Controller) -> int:
    """How often budgets were read."""
    return sum(entry["who"] == "configuration" and entry["what"] == "budgets" for entry in audit(controller))


def until(what: str, true: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise RuntimeError(f"after {seconds} s: {what}: it is not so")
        time.sleep(0.2)


def audited(controller: Controller, what: str, path: str) -> float:
    """When the audit log first says so of a path."""
    for entry in audit(controller):
        if entry["what"] == what and entry.get("path") == path:
            return datetime.fromisoformat(entry["at"]).timestamp()
    raise RuntimeError(f"the audit log has no {what} of {path}")
