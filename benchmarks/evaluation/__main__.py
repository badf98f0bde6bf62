"""An evaluator in another datacenter reads a checkpoint: as torch does, with the range engine, and from the copy that the controller has made.

README.md says how each row is measured. Run from the repository's root: `python -m benchmarks.evaluation`, or `make bench-eval`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks import run
from benchmarks.checkpoint.ground import PEERS, ROOT, at_most, row, wall
from benchmarks.controller import Controller
from benchmarks.evaluation import emergency
from benchmarks.evaluation.ground import BIN, FOLDER, HOME, MIB, RTT_MILLIS, SITE, Ground, path_of
from benchmarks.processes import Process, Result

MODEL = f"hdfs://{HOME}{FOLDER}/step-1"
CHECKPOINT = f"{MODEL}/dcp"
EVERY = 10  # of so many tensors the peer loads one
LEAD = 60  # seconds after which the evaluation is expected
CALLS = ["GetFileInfo", "GetListing", "GetBlockLocations", "GetServerDefaults"]
WAYS = {"engine": "range engine", "copy": "copy"}


@dataclass
class Found:
    """What was measured."""

    tensors: int = 0
    peer: float = 0  # seconds, scaled to all tensors
    peer_took: float = 0
    rounds: dict[str, list[Result]] = field(default_factory=lambda: {name: [] for name in WAYS})
    spikes: list[emergency.Spike] = field(default_factory=list)
    timeline: dict[str, float] = field(default_factory=dict)  # seconds after the commit
    again: int = 0  # bytes that a second evaluation of the same checkpoint had sent


def start_peer(ground: Ground) -> Process:
    """It takes minutes and next to no CPU: it reads one tensor after the other, over a link of its own."""
    peer = ground.evaluator("peer", "FsspecReader", ground.environment(far=True))
    peer.send({"do": "load", "url": MODEL, "names": some(ground), "digest": True})
    return peer


def some(ground: Ground) -> list[str]:
    """The tensors that the peer loads."""
    return list(ground.spec["places"])[::EVERY]


def evaluator(ground: Ground, name: str, way: str, env: dict[str, str]) -> Process:
    """A new process that is about to read."""
    catalogue = f"hdfs://{SITE}/" if way == "copy" else "off"
    process = ground.evaluator(name, "Reader", {**env, "STEPAHEAD_CATALOGUE": catalogue})
    process.ask({"do": "ready"})
    return process


def contest(
    ground: Ground, rounds: int, opened: Callable[[], None], loaded: Callable[[], None]
) -> dict[str, list[Result]]:
    """Both ways in turn, each time in a new process."""
    env = ground.environment(far=True)
    results: dict[str, list[Result]] = {name: [] for name in WAYS}
    for i in range(rounds):
        for name in list(WAYS)[:: 1 if i % 2 else -1]:
            process = evaluator(ground, f"{name}-{i}", name, env)
            first = name == "copy" and i == 0
            before = ground.served()
            if first:
                opened()
            result = process.ask({"do": "load", "url": MODEL, "keep": True})
            if first:
                loaded()
            after = ground.served()
            home = {key: after[key] - before.get(key, 0) for key in after}
            results[name].append({**result, **process.ask({"do": "digest"}), "home": home})
            process.end()
            print(f"evaluation: {name}: {result['wall']:.3g} s", file=sys.stderr, flush=True)
    same(results)
    return results


def same(results: dict[str, list[Result]]) -> None:
    """Before any speed: all have the same bytes, and those of the copy are the copy's."""
    of = [result for all in results.values() for result in all]
    if len({result["sha256"] for result in of}) != 1:
        raise wrong(f"not the same bytes: {[(r['sha256'], r['sources']) for r in of]}")
    for result in results["copy"]:
        if not result["sources"]["copy_bytes"] or result["sources"]["original_bytes"]:
            raise wrong(f"the copy was not read: {result['sources']}")


def wrong(what: str) -> SystemExit:
    print(f"evaluation: {what}", file=sys.stderr)
    return SystemExit(run.WRONG)


def measure(size: int, rounds: int, spikes: int, picture: pathlib.Path | None) -> Iterator[run.Row]:
    build()
    found = Found()
    with tempfile.TemporaryDirectory(prefix="bench-evaluation-") as folder, contextlib.ExitStack() as ends:
        ground = Ground(pathlib.Path(folder), size, ends)
        found.tensors = len(ground.spec["places"])
        peer = start_peer(ground)
        controller = ends.enter_context(ground.controller())
        copied(ground, controller)
        found.spikes = list(emergency.measure(ground, controller, spikes))
        theirs = peer.read()
        found.peer_took, found.peer = theirs["wall"], theirs["wall"] * EVERY
        say = controller.say
        found.rounds = contest(
            ground,
            rounds,
            lambda: say.evaluation_opened(CHECKPOINT, site=SITE),
            lambda: say.evaluation_loaded(CHECKPOINT),
        )
        ours = evaluator(ground, "some", "copy", ground.environment(far=True))
        if ours.ask({"do": "load", "url": MODEL, "names": some(ground), "digest": True})["sha256"] != theirs["sha256"]:
            raise wrong("torch's reader got other bytes")
        found.again = again(ground, controller)
        say.evaluation_result(CHECKPOINT, metric="loss", value=1.0)
        say.evaluation_decided(CHECKPOINT, "continue")
        say.evaluation_done(CHECKPOINT)
        say.told(30)
        controller.wait(path_of(CHECKPOINT), set())
        found.timeline = moments(controller)
        if left := controller.left():
            raise wrong(f"the controller left something behind: {left}")
    if picture:
        plot(found, picture)
    yield from rows(found)


def copied(ground: Ground, controller: Controller) -> None:
    """The evaluation is announced, and the controller makes the copy."""
    emergency.schedule(controller, CHECKPOINT, LEAD, step=1)
    controller.wait(path_of(CHECKPOINT), {"live"}, 300)


def again(ground: Ground, controller: Controller) -> int:
    """How many bytes the home cluster is read when another evaluation wants the same checkpoint at the site."""
    before, there = ground.home.do("served")["bytes"], controller.placements(path_of(CHECKPOINT))
    controller.say.evaluation_scheduled(CHECKPOINT, "second", site=SITE, expected_in=LEAD)
    emergency.until("the controller knows of the second evaluation", lambda: "second" in heard(controller))
    now = controller.placements(path_of(CHECKPOINT))
    if [(p["id"], p["state"]) for p in now] != [(p["id"], p["state"]) for p in there]:
        raise RuntimeError(f"another copy is made of what is there: {now}")
    controller.say.evaluation_done(CHECKPOINT, "second")
    return int(ground.home.do("served")["bytes"] - before)


def heard(controller: Controller) -> dict[str, Any]:
    """The evaluations of the checkpoint that the controller knows, by name."""
    timelines = controller.ctl("timeline", path_of(CHECKPOINT))["timelines"]
    return {one.get("name", ""): one for timeline in timelines for one in timeline["evaluations"]}


def moments(controller: Controller) -> dict[str, float]:
    """What the controller says of the evaluation, in seconds after the commit."""
    one = heard(controller)[""]
    names = ("expected", "copy_begun", "copy_ready", "opened", "loaded")
    return {"committed": 0.0, **{name: one[f"{name}_ns"] / 1e9 for name in names}}


def rows(found: Found) -> Iterator[run.Row]:
    engine, copy = ([wall(r) for r in found.rounds[name]] for name in WAYS)
    seconds = {name: statistics.median(map(wall, of)) for name, of in found.rounds.items()}
    peer = (
        f"FsspecReader {found.peer:,.0f} s ({found.tensors // EVERY} tensors in {found.peer_took:.3g} s, scaled), "
        f"range engine {seconds['engine']:.3g} s, copy {seconds['copy']:.3g} s"
    )

    def less(than: list[float], values: list[float]) -> list[float]:
        return [100 * (value / other - 1) for value, other in zip(values, than, strict=True)]

    title = f"evaluation over a link of {RTT_MILLIS} ms, {found.tensors:,} tensors, time to read"
    theirs = [found.peer] * len(copy)
    yield at_most(title, -95, less(theirs, copy), "%", peer)
    yield row(f"{title}: range engine alone", "none", less(theirs, engine), "%", "", lambda _: True)
    yield row(f"{title}: copy, against the range engine", "none", less(engine, copy), "%", "", lambda _: True)
    calls = [float(sum(r["home"].get(name, 0) for name in CALLS)) for r in found.rounds["copy"]]
    read = max(r["home"]["bytes"] for r in found.rounds["copy"])
    yield row(
        "the same, copy: calls of the home NameNode meanwhile", "none", calls, "", "the controller's among them",
        lambda _: True,
    )  # fmt: skip
    yield run.Row("the same, copy: bytes read at home", "0 B", read, None, "B", "", read == 0)
    lead = found.timeline["expected"] - found.timeline["copy_ready"]
    yield run.Row(
        f"copy ready before the opening that was announced {LEAD} s ahead", "> 0 s", lead, None, "s",
        f"opened, after the emergencies, {found.timeline['opened'] - found.timeline['copy_ready']:.3g} s after it was ready",
        lead > 0,
    )  # fmt: skip
    yield run.Row(
        "another evaluation of the same: bytes sent again", "0 B", found.again, None, "B", "", found.again == 0
    )
    published = statistics.median(s.published for s in found.spikes)
    yield quick("ordinary copy paused", [s.paused for s in found.spikes])
    yield quick("its copy begun", [s.begun for s in found.spikes], f"; published {published:.3g} s")


def quick(what: str, took: list[float], more: str = "") -> run.Row:
    """Each emergency counts, not the one in the middle; what was there before its hint is nothing that was measured."""
    met = min(took) >= 0 and max(took) <= 1
    text = f"slowest {max(took):.3g} s{more}"
    return row(f"emergency, from the hint's arrival: {what}", "<= 1 s, each", took, "s", text, lambda _: met)


def plot(found: Found, to: pathlib.Path) -> None:
    """Seconds of each way, and what happened when."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (bars, line) = pyplot.subplots(1, 2, figsize=(12, 3.6), layout="constrained")
    seconds = {"torch over hdfs-native": found.peer}
    seconds |= {WAYS[name]: statistics.median(map(wall, of)) for name, of in found.rounds.items()}
    drawn = bars.barh(list(seconds), list(seconds.values()))
    bars.bar_label(drawn, fmt="%.3g s", padding=3)
    bars.set(xscale="log", xlabel="seconds until all tensors are there", title=f"evaluation over {RTT_MILLIS} ms")
    bars.margins(x=0.2)
    bars.invert_yaxis()
    words = ["committed", "copy_begun", "copy_ready", "opened", "loaded"]
    for i, name in enumerate(words):
        at = found.timeline[name]
        line.plot([at, at], [0, len(words) - i], color="gray", linewidth=0.8)
        line.annotate(f" {name.replace('_', ' ')} {at:.1f} s", (at, len(words) - i), fontsize=8)
    line.axvspan(found.timeline["copy_begun"], found.timeline["copy_ready"], alpha=0.3, label="copy is made")
    line.axvspan(
        found.timeline["opened"], found.timeline["loaded"], alpha=0.5, color="tab:green", label="evaluator reads"
    )
    line.set(xlabel="seconds after the commit", yticks=[], ylim=(0, 7), title="one evaluation")
    line.set_xlim(right=1.25 * found.timeline["loaded"])
    line.legend(fontsize=8, loc="upper right")
    figure.savefig(to)
    pyplot.close(figure)


def build() -> None:
    BIN.mkdir(parents=True, exist_ok=True)
    programs = ["stepahead", "stepahead-controller", "stepahead-agent", "stepahead-worker"]
    packages = ["./internal/hdfstest/minihdfs", *(f"./cmd/{name}" for name in programs)]
    subprocess.run(["go", "build", "-o", f"{BIN}/", *packages], cwd=ROOT, check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spikes", type=int, default=5, help="emergencies")
    parser.add_argument("--size", type=int, default=1024, help="MiB of the checkpoint")
    parser.add_argument("--plot", type=pathlib.Path, help="write a picture here")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    args = parser.parse_args()
    if not PEERS.exists():
        parser.error(f"no {PEERS.relative_to(ROOT)}: run internal/setup/peers.sh hdfs")
    found = []
    for one in measure(args.size * MIB, args.rounds, args.spikes, args.plot):
        found.append(one)
        if not args.json:
            print(run.show(one), flush=True)
    if args.json:
        print(json.dumps({"rows": [asdict(one) for one in found]}))
    return 0


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
