"""What the runs of the demo showed: numbers, table, picture and verdict."""

from __future__ import annotations

import json
import pathlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from processes import Training

# Steps at the start of a run that are left out of times and shares: caches fill, and with agents
# the first window is asked for before it can be ready.
WARM_UP = 20


def lines(path: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@dataclass
class Run:
    """One row of the table: all segments of a run, read from what its ranks wrote."""

    name: str
    segments: list[Training]
    killed: tuple[int, int] | None = None
    digest: str = ""
    log: list[dict[str, Any]] = field(default_factory=list)
    stats: list[dict[str, Any]] = field(default_factory=list)
    totals: list[dict[str, Any]] = field(default_factory=list)
    agents: Mapping[str, float] = field(default_factory=dict)  # what their metrics said

    def read(self) -> Run:
        for number, segment in enumerate(self.segments):
            for rank in range(segment.ranks):
                extra = {"rank": rank, "segment": number, "first": self.first(segment)}
                self.log += [line | extra for line in lines(segment.folder / f"times.rank{rank}")]
                self.stats += [line | extra for line in lines(segment.folder / f"stats.rank{rank}")]
                totals = segment.folder / f"totals.rank{rank}"  # none where the loader was closed early
                self.totals += lines(totals) if totals.exists() else []
        return self

    @staticmethod
    def first(segment: Training) -> int:
        return lines(segment.folder / "times.rank0")[0]["step"]

    def warm(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [row for row in rows if row["step"] >= row["first"] + WARM_UP]

    def times(self, key: str) -> np.ndarray:
        return np.array([row[key] for row in self.warm(self.log)])

    def prepared_share(self, steps: range | None = None) -> float:
        """Prepared images of all, after the warm-up or in some steps."""
        rows = self.warm(self.stats) if steps is None else [row for row in self.stats if row["step"] in steps]
        prepared = sum(row["prepared"] for row in rows)
        return prepared / max(1, prepared + sum(row["raw"] + row["local"] for row in rows))

    def prepared(self) -> int:
        return sum(row["prepared"] for row in self.stats)

    def reasons(self) -> Counter[str]:
        return _summed(row.get("by_reason", {}) for row in self.stats)

    def reasons_of(self, node: str) -> Counter[str]:
        return _summed(row.get("by_node", {}).get(node, {}) for row in self.stats)

    def reads(self) -> list[dict[str, Any]]:
        """What each rank's reads cost, as its store counted; empty where it does not count."""
        return [total["reads"] for total in self.totals if total.get("reads")]

    def lead_seconds(self) -> float:
        leads = [row["lead_seconds"] for row in self.warm(self.stats) if row["prepared"]]
        return float(np.median(leads)) if leads else float("nan")

    def cpu_per_step(self, key: str) -> float:
        """Seconds a step of a counter in the log, summed over ranks, in the first segment after its warm-up."""
        total = 0.0
        for rank in range(self.segments[0].ranks):
            rows = [row for row in self.warm(self.log) if row["rank"] == rank and row["segment"] == 0]
            total += (rows[-1][key] - rows[0][key]) / (rows[-1]["step"] - rows[0]["step"])
        return total


def _summed(counts: Any) -> Counter[str]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return total


def loading_cpu(run: Run, from_memory: Run) -> float:
    """Trainer-side CPU seconds a step for loading, summed over the ranks.

    These are the worker processes and all that the ranks' processes spend, less what the training thread spends
    between two batches and what is spent beside it when batches come from memory (communication).
    """
    return run.cpu_per_step("worker_cpu") + run.cpu_per_step("other_cpu") - from_memory.cpu_per_step("other_cpu")


def table(runs: list[Run], from_memory: Run) -> str:
    head = [
        "run",
        "step",
        "wait for data p50 / p99",
        "loading CPU a step",
        "prepared",
        "lead time",
        "not prepared, by reason",
    ]
    rows = [head]
    for run in runs:
        waits = 1e3 * run.times("load_seconds")
        reasons = ", ".join(f"{reason} {n}" for reason, n in run.reasons().most_common()) or "-"
        lead = run.lead_seconds()
        rows.append(
            [
                run.name,
                f"{1e3 * np.median(run.times('seconds')):.0f} ms",
                f"{np.median(waits):.1f} / {np.percentile(waits, 99):.1f} ms",
                f"{1e3 * loading_cpu(run, from_memory):.0f} ms",
                f"{100 * run.prepared_share():.1f} %",
                f"{lead:.1f} s" if run.prepared() else "-",
                reasons,
            ]
        )
    return _aligned(rows)


def _aligned(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([text[0], "-" * max(map(len, text)), *text[1:]])


def agents_table(runs: list[Run]) -> str:
    """How long the agents took for a part, on average: to read it, and then in a worker."""
    rows = [["run", "tensors made", "read", "in a worker"]]
    for run in runs:

        def mean(stage: str, run: Run = run) -> str:
            name = f"stepahead_agent_{stage}_seconds"
            return f"{1e3 * run.agents[f'{name}_sum'] / max(1, run.agents[f'{name}_count']):.1f} ms"

        made = run.agents["stepahead_agent_transform_seconds_count"]
        rows.append([run.name, f"{made:.0f}", mean("read"), mean("transform")])
    return _aligned(rows)


def reads_table(runs: list[Run]) -> str:
    """Bytes, connections, retries, hedges, places of replicas and calls of the NameNode, over all ranks of each run."""
    rows = [
        [
            "run",
            "asked",
            "on the wire",
            "connections",
            "retries, by cause",
            "hedges won / lost",
            "same host / rack / other",
            "calls",
        ]
    ]
    for run in runs:
        sums: Counter[str] = Counter()
        retries, calls = (
            _summed(r.get("retries") or {} for r in run.reads()),
            _summed(r.get("calls") or {} for r in run.reads()),
        )
        for reads in run.reads():
            sums.update({key: value for key, value in reads.items() if isinstance(value, int)})
        places = (sums[f"{place}_bytes"] / 1e6 for place in ("same_node", "same_rack", "remote"))
        rows.append(
            [
                run.name,
                f"{sums['asked_bytes'] / 1e6:.1f} MB",
                f"{sums['wire_bytes'] / 1e6:.1f} MB",
                f"{sums['connections']} (reused {sums['connections_reused']})",
                ", ".join(f"{cause} {n}" for cause, n in retries.most_common() if n) or "-",
                f"{sums['hedges_won']} / {sums['hedges_lost']}",
                " / ".join(f"{megabytes:.1f}" for megabytes in places) + " MB",
                f"{sum(calls.values())}",
            ]
        )
    return _aligned(rows)


def verdict(off: Run, on: Run, killed: Run, resumed: Run, from_memory: Run, dead: str, recovered: range) -> list[str]:
    """What of the demo's claims does not hold; empty when all do."""
    runs = [off, on, killed, resumed]
    ratio = loading_cpu(on, from_memory) / loading_cpu(off, from_memory)
    claims = [
        (len({run.digest for run in runs}) == 1, "the proof digests of the four runs differ"),
        (off.prepared() == 0, f"run 1 had no agents but got {off.prepared()} prepared images"),
        (
            on.prepared_share() >= 0.9,
            f"run 2 prepared {100 * on.prepared_share():.1f} % after its first window, not 90 %",
        ),
        (killed.prepared() > 0, "run 3 got no prepared image"),
        (bool(killed.reasons_of(dead)), f"run 3 has no fallback that names the killed agent {dead}"),
        (
            killed.prepared_share(recovered) >= 0.8,
            f"run 3 prepared {100 * killed.prepared_share(recovered):.1f} % in its last {len(recovered)} steps, not 80 %",
        ),
        (ratio < 0.5, f"loading CPU of run 2 is {ratio:.2f} of run 1, not below half"),
    ]
    return [what for holds, what in claims if not holds]


def picture(runs: list[Run], from_memory: Run, path: pathlib.Path) -> None:
    """One row a run: how long training waited for each step's data, and who made the images."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(runs), 2, sharex=True, sharey="col", figsize=(13, 9), layout="constrained")
    for run, (wait, source) in zip(runs, axes, strict=True):
        draw_waits(wait, run)
        draw_sources(source, run)
        cpu = 1e3 * loading_cpu(run, from_memory)
        wait.set_title(f"{run.name}", fontsize=11, loc="left")
        share = 100 * run.prepared_share()
        source.set_title(
            f"{share:.0f} % prepared by agents; loading costs the trainers {cpu:.0f} ms CPU a step",
            fontsize=10,
            loc="left",
        )
        for axis in (wait, source):
            mark(axis, run)
    axes[0, 1].legend(fontsize=8, loc="lower right")
    for axis in axes[-1]:
        axis.set_xlabel("training step")
    figure.suptitle(
        "Left: time that training waits for the data of a step (slowest rank). Right: where its images were made."
    )
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def draw_waits(axis: Any, run: Run) -> None:
    slowest: dict[int, float] = {}
    for row in run.log:
        slowest[row["step"]] = max(slowest.get(row["step"], 0), 1e3 * row["load_seconds"])
    steps = sorted(slowest)
    axis.bar(steps, [max(slowest[s], 0.05) for s in steps], width=1.0, color="#3b6ea5")
    axis.set_yscale("log")
    axis.set_ylabel("wait (ms)")
    axis.grid(axis="y", alpha=0.3)


def draw_sources(axis: Any, run: Run) -> None:
    made: dict[str, Counter[int]] = {"prepared": Counter(), "here": Counter()}
    for row in run.stats:
        made["prepared"][row["step"]] += row["prepared"]
        made["here"][row["step"]] += row["raw"] + row["local"]
    steps = sorted(made["prepared"])
    prepared = [made["prepared"][s] for s in steps]
    axis.bar(steps, prepared, width=1.0, color="#5a9e6f", label="by agents, ahead of the step")
    axis.bar(
        steps, [made["here"][s] for s in steps], bottom=prepared, width=1.0, color="#d9a441", label="by the trainer"
    )
    axis.set_ylabel("images")


def mark(axis: Any, run: Run) -> None:
    """Draw where an agent was killed and restarted, and where the run was resumed."""
    if run.killed:
        kill, restart = run.killed
        axis.axvline(kill, color="#c0392b", linewidth=1.5, label="agent killed (kill -9)")
        axis.axvline(restart, color="#1e6b3a", linewidth=1.5, linestyle="--", label="agent restarted")
    for segment in run.segments[1:]:
        label = f"resumed with {segment.ranks} ranks"
        axis.axvline(run.first(segment), color="#8e44ad", linewidth=1.5, linestyle=":", label=label)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(fontsize=8, loc="upper right" if axis.get_yscale() == "log" else "lower right")
