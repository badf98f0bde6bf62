"""Runs benchmarks that have bars and prints one table: what was measured, and whether the bar is met.

`make bench` and the other targets `bench-...` run this. README.md says how each row is measured.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


@dataclass
class Row:
    """One bar and what was measured against it."""

    row: str
    bar: str
    median: float
    spread: tuple[float, float] | None  # quartiles
    unit: str
    peer: str  # what was measured in turn with it, for comparison
    met: bool


WRONG = 3
"""Exit code of a benchmark that made something else than it should have, so that no figure counts."""


def output(*command: str | pathlib.Path) -> str:
    """What a benchmark prints. A bar that it misses (exit code 1) is not a failure here; wrong results end the run."""
    result = subprocess.run(list(map(str, command)), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if result.returncode == WRONG:
        print(f"{' '.join(map(str, command))}: wrong results, see above; nothing was measured", file=sys.stderr)
        raise SystemExit(WRONG)
    if result.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(map(str, command))}: exit code {result.returncode}")
    return result.stdout


def python(module: str, *arguments: str) -> Any:
    text = output(sys.executable, "-m", module, "--json", *arguments)
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise RuntimeError(f"{module} ended without a result; what it said is above") from None


def at_most(name: str, bar: float, quartiles: list[float], unit: str, peer: str = "", also: bool = True) -> Row:
    low, median, high = quartiles
    return Row(name, f"<= {bar:g} {unit}", median, (low, high), unit, peer, median <= bar and also)


def quartiles(values: list[float]) -> list[float]:
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3


SIZES = {"10^6": (10**6, 100), "10^12": (10**12, 100), "2^20 + 1": (2**20 + 1, 250), "2^40 + 1": (2**40 + 1, 250)}


PEERS = ROOT / "build" / "peers" / "bin" / "python"


def sampler() -> Iterator[Row]:
    """Rows from the benchmark lines of benchmarks/sampler, each a round."""
    peers = PEERS if PEERS.exists() else sys.executable
    text = output("go", "run", "./benchmarks/sampler", "-rounds", "6", "-python", peers)
    values: dict[str, list[float]] = {}
    allocations: dict[str, int] = {}
    for name, value, rest in re.findall(r"^Benchmark(\S+) \d+ (\S+) (.*)$", text, re.MULTILINE):
        values.setdefault(name, []).append(float(value))
        if found := re.search(r"(\d+) allocs/op", rest):
            allocations[name] = max(allocations.get(name, 0), int(found[1]))

    def beside(ending: str, note: str, scale: float = 1, unit: str = "") -> str:
        found = {
            k.split("/")[1]: statistics.median(v) / scale
            for k, v in values.items()
            if re.search(f"^Peer/.*/{ending}$", k)
        }
        return ", ".join(f"{name} {value:,.0f}{unit} ({note})" for name, value in found.items() if "grain" not in name)

    for label, (n, bar) in SIZES.items():
        name = max((f"Sampler/{kind}/n={n}" for kind in ("Step", "Rank")), key=lambda k: statistics.median(values[k]))
        yield at_most(
            f"sampler, look-up, N = {label}", bar, quartiles(values[name]), "ns", beside(f"n={n}", "whole order")
        )
        yield Row(f"sampler, allocations, N = {label}", "0", allocations[name], None, "", "", allocations[name] == 0)
    for sources, bar in ((32, 150), (1000, 250)):
        name = next(k for k in values if k.startswith(f"Sampler/Mixture/sources={sources}/"))
        held = int(name.split("=")[-1].removesuffix("B"))
        title = f"sampler, mixture of {sources:,}, a sample with its place in the shuffle"
        yield at_most(
            title, bar, quartiles(values[name]), "ns", beside(f"sources={sources}", "blend alone, 10 B a sample")
        )
        bytes_bar = 1024 * sources
        yield Row(
            f"sampler, memory of a mixture of {sources:,}",
            f"<= {bytes_bar:,} B",
            held,
            None,
            "B",
            "",
            held <= bytes_bar,
        )
    for name in (k for k in values if k.startswith("Sampler/Resume")):
        what, size = name.split("/", 1)[1].rsplit("/state=", 1)
        at = what.replace("Resume90/sources=", "at 90 % of 10^9 samples, sources: ").replace("Resume", "at step 10^9")
        peer = beside("resume90=10000000", "of 10^7 samples", 1e3, " us") if "90" in what else ""
        yield at_most(f"sampler, resume {at}", 1000, [v / 1000 for v in quartiles(values[name])], "us", peer)
        if what == "Resume":
            state = float(size.removesuffix("B"))
            yield Row("sampler, state", "<= 1024 B", state, None, "B", "", state <= 1024)


def wire() -> Iterator[Row]:
    """Rows from the JSON lines of benchmarks/wire at the claim's part size."""
    text = output("go", "run", "./benchmarks/wire", "-json", "-part", str(256 << 10), "-rounds", "60")
    found = {r["wire"]: r for r in map(json.loads, text.splitlines())}
    low, speed, high = found["stepahead"]["gb_per_s"]

    def describe(name: str) -> str:
        return f"{name} {found[name]['gb_per_s'][1]:.2f} GB/s, {found[name]['cpu_s_per_gb'][1]:.2f} CPU s/GB"

    cost = found["stepahead"]["cpu_s_per_gb"][1]
    floor = describe("TCP alone")
    yield Row(
        f"wire, 256 KiB parts ({cost:.2f} CPU s/GB)", ">= 2.5 GB/s", speed, (low, high), "GB/s", floor, speed >= 2.5
    )
    for name in ("protobuf bytes", "protobuf bytes, dropped"):
        ratio = speed / found[name]["gb_per_s"][1]
        judged = name == "protobuf bytes"
        bar, title = (">= 2 x", "wire / protobuf") if judged else ("none", "wire / protobuf that drops what it gets")
        yield Row(title, bar, ratio, None, "x", describe(name), ratio >= 2 or not judged)


def handover() -> Iterator[Row]:
    result = python("benchmarks.handover")
    us = result["us"]
    peer = ", ".join(f"{name} {us[name][1]:,.0f}" for name in us if name != "stepahead")
    yield at_most("hand-over, 64 x 3 x 224 x 224 uint8", 100, us["stepahead"], "us", peer)
    copies = 0 if result["without_copy"] else 1
    yield Row("hand-over, copies", "0", copies, None, "", "", copies == 0)


def hints() -> Iterator[Row]:
    result = python("benchmarks.hints")
    by_agent = "; ".join(
        f"{node}: " + ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()) if n)
        for node, kinds in result["by_agent"].items()
    )
    value = result["per_step"]
    seen = f"{result['steps']} steps, {result['ranks']} ranks, {by_agent}"
    yield Row("hints, messages a step, agent and job", "<= 1", value, None, "", seen, value <= 1)


def images() -> Iterator[Row]:
    for row in python("benchmarks.images")["rows"]:
        yield Row(**row)


def loader() -> Iterator[Row]:
    for row in python("benchmarks.loader")["rows"]:
        yield Row(**row)


def tokens() -> Iterator[Row]:
    for row in python("benchmarks.tokens")["rows"]:
        yield Row(**row)


def index() -> Iterator[Row]:
    for row in python("benchmarks.index")["rows"]:
        yield Row(**row)


def hdfs() -> Iterator[Row]:
    for row in python("benchmarks.hdfs")["rows"]:
        yield Row(**row)


def checkpoint() -> Iterator[Row]:
    for row in python("benchmarks.checkpoint")["rows"]:
        yield Row(**row)


def start() -> Iterator[Row]:
    for row in python("benchmarks.start", "--plot", str(ROOT / "build" / "bench-start.png"))["rows"]:
        yield Row(**row)


def evaluation() -> Iterator[Row]:
    for row in python("benchmarks.evaluation", "--plot", str(ROOT / "build" / "bench-evaluation.png"))["rows"]:
        yield Row(**row)


EXPERIMENTS: dict[str, Callable[[], Iterator[Row]]] = {
    "sampler": sampler,
    "wire": wire,
    "handover": handover,
    "hints": hints,
}

# Only when they are named: they take longer, and they install what they compare with.
LONG: dict[str, Callable[[], Iterator[Row]]] = {
    "images": images,
    "loader": loader,
    "tokens": tokens,
    "index": index,
    "hdfs": hdfs,
    "checkpoint": checkpoint,
    "start": start,
    "evaluation": evaluation,
}


def machine() -> str:
    model = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{os.cpu_count()} CPUs ({model[1] if model else platform.machine()}), Linux {platform.release()}"


class Others:
    """The share of all CPU time that other processes took, or the hypervisor, between two moments."""

    def __init__(self) -> None:
        self.start = self.now()

    def now(self) -> tuple[float, float]:
        columns = [int(x) for x in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        idle = columns[3] + columns[4]
        own, children = os.times()[:2], os.times()[2:4]
        ticks = os.sysconf("SC_CLK_TCK")
        return sum(columns), sum(columns) - idle - (sum(own) + sum(children)) * ticks

    def share(self) -> float:
        total, others = (b - a for a, b in zip(self.start, self.now(), strict=True))
        return max(0.0, others / total)


def show(row: Row) -> str:
    number = f"{row.median:,.3g}" if row.median < 1000 else f"{row.median:,.0f}"
    spread = f" ({row.spread[0]:,.3g}-{row.spread[1]:,.3g})" if row.spread else ""
    verdict = "-" if row.bar == "none" else "met" if row.met else "missed"
    return f"| {row.row} | {row.bar} | {number}{spread} {row.unit} | {row.peer} | {verdict} |"


@contextlib.contextmanager
def first_in_line() -> Iterator[None]:
    """Ask the system to run the benchmarks before other work, where it lets us.

    Where sessions are scheduled as groups, nice counts within one only: then the group is asked for too, and put back.
    """
    group = pathlib.Path("/proc/self/autogroup")
    before = None
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)
        before = group.read_text().rsplit(" ", 1)[1].strip()
        group.write_text("-20")
    try:
        yield
    finally:
        if before is not None:
            with contextlib.suppress(OSError):
                group.write_text(before)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    known = EXPERIMENTS | LONG
    usual, long = ", ".join(EXPERIMENTS), ", ".join(LONG)
    parser.add_argument("only", nargs="*", help=f"experiments to run: {usual} (default: these), {long}")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a bar is missed")
    parser.add_argument("--save", action="store_true", help="also write the JSON to benchmarks/results/")
    args = parser.parse_args()
    if unknown := set(args.only) - set(known):
        parser.error(f"no such experiment: {', '.join(sorted(unknown))}")
    others, began = Others(), time.monotonic()
    rows: list[Row] = []
    with first_in_line():
        for name in args.only or EXPERIMENTS:
            print(f"{name} ...", file=sys.stderr, flush=True)
            rows += known[name]()
    facts = {"machine": machine(), "others": round(others.share(), 2), "seconds": round(time.monotonic() - began)}
    return conclude(rows, facts, args)


def conclude(rows: list[Row], facts: dict[str, Any], args: argparse.Namespace) -> int:
    text = json.dumps({**facts, "rows": [asdict(row) for row in rows]}, indent=1)
    if args.save:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / time.strftime("%Y-%m-%d-%H%M%S.json")
        path.write_text(text + "\n")
        print(f"saved {path.relative_to(ROOT)}", file=sys.stderr)
    if args.json:
        print(text)
    else:
        print(f"{facts['machine']}; other work took {facts['others']:.0%} of the CPU time; {facts['seconds']} s\n")
        print("| row | bar | measured: median (quartiles) | peers in the same run: medians | |\n|---|---|---|---|---|")
        print("\n".join(map(show, rows)))
        judged = [row for row in rows if row.bar != "none"]
        print(f"\n{sum(row.met for row in judged)} of {len(judged)} met")
    return 1 if args.strict and not all(row.met for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
