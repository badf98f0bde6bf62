"""Whole loaders side by side, the cost of a first batch, and what a trainer's host spends when agents prepare.

README.md says how each row is measured. Run from the repository's root: `python -m benchmarks.loader`, or `make bench-loader`.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from benchmarks import photos, run
from benchmarks.loader import contestants, tree

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEERS = ROOT / "build" / "peers" / "bin" / "python"
BATCHES = 36
TIMEOUT = 300  # seconds of one child
# Ours and torch run in the environment that tests use; the others need theirs.
OWN = {"stepahead", "torch", "torch-pillow"}

Result = dict[str, Any]


def environment() -> dict[str, str]:
    """Of children: one thread in libraries that would take more, and compiled Python files kept between runs."""
    own = {**os.environ, "PYTHONPYCACHEPREFIX": str(ROOT / "build" / "pycache"), "PYTHONWARNINGS": "ignore"}
    own.pop("PYTHONDONTWRITEBYTECODE", None)
    return {**own, **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")}


def python(name: str) -> str:
    return sys.executable if name in OWN or not PEERS.exists() else str(PEERS)


def child(module: str, *arguments: object, program: str = sys.executable) -> subprocess.Popen[str]:
    command = [program, "-m", f"benchmarks.loader.{module}", *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def lines(text: str) -> list[Result]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def one_run(name: str, batches: int) -> Result:
    """What one process with one loader cost; its memory is watched from here."""
    process = child("child", name, batches, program=python(name))
    with tree.peak(process.pid) as peak:
        try:
            out, err = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            err += f"\nno result within {TIMEOUT} s"
    found = lines(out)
    if len(found) != 2:
        raise RuntimeError(next((line for line in reversed(err.splitlines()) if line.strip()), "it printed nothing"))
    return {**found[1], "pss_mb": peak.value - found[0]["torch_pss_mb"]}


def prepare(names: list[str]) -> dict[str, str]:
    """Make what the loaders read, and load each once; the ones that cannot run, with the reason."""
    missing = {}
    photos.folder("inet")
    for name in names:
        try:
            if shards := contestants.ALL[name].shards:
                made = child("shards", shards, program=python(name))
                _, err = made.communicate()
                if made.returncode:
                    raise RuntimeError(err.strip().splitlines()[-1])
            one_run(name, 2)
        except (RuntimeError, ValueError) as error:
            missing[name] = str(error)
            print(f"loader: NOT MEASURED: {contestants.ALL[name].title}: {error}", file=sys.stderr, flush=True)
    return missing


def race(names: list[str], rounds: int, batches: int) -> tuple[dict[str, list[Result]], dict[str, str]]:
    """All loaders in turn, round by round."""
    missing = prepare(names)
    results: dict[str, list[Result]] = {name: [] for name in names if name not in missing}
    for i in range(rounds):
        print(f"loader: round {i + 1} of {rounds}", file=sys.stderr, flush=True)
        for name, of in results.items():
            of.append(one_run(name, batches))
    return results, missing


def figure(of: list[Result], key: str) -> list[float]:
    return [r[key] for r in of]


def spread(values: list[float], digits: int = 2) -> str:
    low, median, high = run.quartiles(values)
    return f"{median:,.{digits}f} ({low:,.{digits}f}-{high:,.{digits}f})"


def at_least(name: str, bar: float, values: list[float], unit: str, peer: str) -> run.Row:
    low, median, high = run.quartiles(values)
    return run.Row(name, f">= {bar:g} {unit}", median, (low, high), unit, peer, median >= bar)


def compared(results: dict[str, list[Result]], missing: dict[str, str], key: str, digits: int) -> str:
    """The peers' figures, and by name those that could not be measured."""
    shown = [
        f"{contestants.ALL[name].title} {spread(figure(of, key), digits)}"
        for name, of in results.items()
        if name != "stepahead"
    ]
    return ", ".join(shown + [f"NOT MEASURED: {contestants.ALL[name].title} ({why})" for name, why in missing.items()])


def whole_loader(rounds: int, batches: int, names: list[str]) -> Iterator[run.Row]:
    results, missing = race(names, rounds, batches)
    if absent := {"stepahead", "torch"} & set(missing):
        raise RuntimeError(f"cannot measure without {', '.join(sorted(absent))}: {missing}")
    ours, torch = results["stepahead"], results["torch"]
    speed = [a / b for a, b in zip(figure(ours, "img_per_s"), figure(torch, "img_per_s"), strict=True)]
    cost = [b / a for a, b in zip(figure(ours, "cpu_s_per_1000"), figure(torch, "cpu_s_per_1000"), strict=True)]
    here = spread(figure(ours, "img_per_s"), 0)
    yield at_least(
        f"whole loader, img/s against torch + torchvision ({here})", 1.5, speed, "x",
        compared(results, missing, "img_per_s", 0),
    )  # fmt: skip
    here = spread(figure(ours, "cpu_s_per_1000"))
    yield at_least(
        f"whole loader, CPU s for 1,000 pictures ({here})", 1.5, cost, "x",
        compared(results, missing, "cpu_s_per_1000", 2),
    )  # fmt: skip
    for title, bar, key, unit in (
        ("CPU after import", 0.5, "first_cpu_s", "s"),
        ("PSS beyond torch's, peak", 130, "pss_mb", "MB"),
    ):
        values = run.quartiles(figure(ours, key))
        yield run.at_most(
            f"first batch, {title}", bar, values, unit, compared(results, missing, key, 2 if unit == "s" else 0)
        )
    yield run.Row(
        "import, CPU", "none", statistics.median(figure(ours, "import_cpu_s")), None, "s",
        compared(results, missing, "import_cpu_s", 2), True,
    )  # fmt: skip


# Picture set, layout, and the bar in percent of what the host spends without agents.
AGENTS = [
    ("inet", "channels_last", 10),
    ("inet", "contiguous", None),
    ("large", "channels_last", 2),
    ("large", "contiguous", None),
]


def with_agents(rounds: int) -> Iterator[run.Row]:
    for name, layout, bar in AGENTS:
        print(f"loader: agents, {name}, {layout}", file=sys.stderr, flush=True)
        process = child("agents", name, layout, rounds)
        out, err = process.communicate()
        if process.returncode:
            raise RuntimeError(f"benchmarks.loader.agents {name} {layout}: {err}")
        of = lines(out)
        shares = [100 * r["on"] / r["off"] for r in of]
        prepared = min(figure(of, "prepared"))
        note = f"agents off {spread(figure(of, 'off'))}, on {spread(figure(of, 'on'), 4)} CPU s for 1,000; "
        note += f"the same bytes by TCP alone {spread(figure(of, 'tcp'), 4)}; at least {prepared:.1%} prepared"
        title = f"agents on, {name}, {layout}: CPU of the trainer's host against agents off"
        if bar is None:
            low, median, high = run.quartiles(shares)
            yield run.Row(title, "none", median, (low, high), "%", note, True)
        else:
            yield run.at_most(title, bar, run.quartiles(shares), "%", note, also=prepared > 0.95)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("only", nargs="*", help="race, agents (default: both)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=BATCHES, help="batches a loader is measured over (default 36)")
    parser.add_argument(
        "--loaders", nargs="+", default=contestants.USUAL, choices=list(contestants.ALL), metavar="NAME"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of rows of a table")
    args = parser.parse_args()
    if unknown := set(args.only) - {"race", "agents"}:
        parser.error(f"no such experiment: {', '.join(sorted(unknown))}")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    rows: list[run.Row] = []
    with run.first_in_line():
        if not args.only or "race" in args.only:
            rows += whole_loader(args.rounds, args.batches, args.loaders)
        if not args.only or "agents" in args.only:
            rows += with_agents(args.rounds)
    digests = {name: photos.digest(name) for name in ("inet", "large")}
    if args.json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "photographs": digests}))
    else:
        print("\n".join(map(run.show, rows)))
        print(f"photographs: {digests}")
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
