"""What the demo found: a table, a picture, and whether it holds what is claimed."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass, field
from typing import Any

HELPED = 0.8  # what is at most left of the time without the controller


@dataclass
class Evaluation:
    """One evaluation of a checkpoint at the other datacenter."""

    path: str
    saved: str  # the digest of what was saved
    answer: dict[str, Any]
    phases: dict[str, float] = field(default_factory=dict)  # seconds, by name
    age: float = float("nan")  # of the checkpoint, when the regression was declared

    @property
    def reading(self) -> float:
        return float(self.answer["seconds"])

    def take(self, timelines: list[dict[str, Any]]) -> None:
        """Take the phases from what `ctl timeline --json` says."""
        for timeline in timelines:
            for found in timeline["evaluations"]:
                for phase in found.get("phases", []):
                    self.phases[phase["name"]] = (phase["to_ns"] - phase["from_ns"]) / 1e9
                if "regression_ns" in found:
                    self.age = found["regression_ns"] / 1e9


@dataclass
class Start:
    """What the ranks of a job took for the file that all read at their start."""

    answers: list[dict[str, Any]]
    began: float

    @property
    def walls(self) -> list[float]:
        return sorted(a["ended"] - self.began for a in self.answers)

    def bytes(self, source: str) -> int:
        return sum(int(a["sources"].get(source) or 0) for a in self.answers)


@dataclass
class Outcome:
    """All that happened, in seconds."""

    evaluations: dict[str, Evaluation] = field(default_factory=dict)
    starts: dict[str, Start] = field(default_factory=dict)
    sha256: str = ""  # of the file of the start
    left: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)

    def table(self) -> str:
        rows = [["", "without", "with", ""]]

        def row(name: str, without: float, with_: float) -> None:
            rows.append([name, f"{without:.2f} s", f"{with_:.2f} s", f"{100 * (with_ / without - 1):+.0f} %"])

        off, on = self.evaluations["without"], self.evaluations["with"]
        row("evaluation at the other datacenter: reading the checkpoint", off.reading, on.reading)
        for phase in sorted(off.phases.keys() & on.phases.keys()):
            row(f"  timeline: {phase}", off.phases[phase], on.phases[phase])
        row("  age of the checkpoint when the regression was declared", off.age, on.age)
        for name, what in (("killed", "meanwhile"), ("recovered", "when it was back")):
            text = f"{self.evaluations[name].reading:.2f} s"
            rows.append([f"  the controller was killed while it copied: reading {what}", "", text, ""])
        before, after = self.starts["without"].walls, self.starts["with"].walls
        row(f"restart, {len(after)} ranks read one file: the last has it", before[-1], after[-1])
        row("  the middle one", before[len(before) // 2], after[len(after) // 2])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([r[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(r[1:], widths[1:], strict=True))]).rstrip()
            for r in rows
        ]
        return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])

    def wrong(self) -> list[str]:
        """What of the demo's claims does not hold; empty when all do."""
        off, on, killed, recovered = (self.evaluations[name] for name in ("without", "with", "killed", "recovered"))
        every = list(self.evaluations.values())
        ranks = [a for start in self.starts.values() for a in start.answers]
        read, raced = on.reading / off.reading, self.starts["with"].walls[-1] / self.starts["without"].walls[-1]
        claims = [
            (all(e.answer["digest"] == e.saved for e in every), "an evaluator loaded other weights"),
            (off.saved == on.saved, "the two runs saved other weights"),
            (all(e.answer["regression"] for e in every), "an evaluator missed the regression"),
            (all(e.answer["told"] for e in every), "agents did not take what an evaluator said"),
            (not off.answer["sources"].get("copy_bytes"), "there was a copy without a controller"),
            (bool(on.answer["sources"].get("copy_bytes")), f"the copy was not read: {on.answer['sources']}"),
            (not killed.answer["sources"].get("copy_bytes"), "a copy was read that was never whole"),
            (bool(recovered.answer["sources"].get("copy_bytes")), "the copy was not gone on with after the kill"),
            (read <= HELPED, f"with the controller reading took {read:.0%} of the time without"),
            (on.age < off.age, f"the regression was declared at an age of {on.age:.2f} s, without at {off.age:.2f} s"),
            (all(a["sha256"] == self.sha256 for a in ranks), "a rank read other bytes"),
            (self.starts["without"].bytes("sibling_bytes") == 0, "there were sources without a controller"),
            (self.starts["with"].bytes("sibling_bytes") > 0, "no rank read from what the controller made"),
            (raced <= HELPED, f"with the controller the last rank took {raced:.0%} of the time without"),
            (not self.moved, f"files lie elsewhere than before: {', '.join(self.moved)}"),
            (not self.left, f"something is left: {', '.join(self.left)}"),
        ]
        return [what for holds, what in claims if not holds]

    def picture(self, path: pathlib.Path) -> None:
        """Where the time of the evaluations went, and how many ranks had the file over time."""
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 4), layout="constrained")
        colours = {"queue": "#bbbbbb", "copy late": "#c0392b", "reading": "#d9a441", "computing": "#3b6ea5"}
        labelled: set[str] = set()
        for name in ("with", "without"):
            at = 0.0
            for phase, colour in colours.items():
                if length := self.evaluations[name].phases.get(phase, 0.0):
                    label = "" if phase in labelled else phase
                    labelled.add(phase)
                    left.barh(f"{name} controller", length, left=at, color=colour, label=label)
                    at += length
        left.set(title="from the commit to the result", xlabel="seconds")
        left.legend(fontsize=8)
        for name, start in self.starts.items():
            walls = start.walls
            right.step([0, *walls], range(len(walls) + 1), where="post", label=f"{name} controller")
        right.set(title="ranks that have the file", xlabel="seconds from the start")
        right.legend(fontsize=8)
        figure.savefig(path, dpi=100)
        pyplot.close(figure)
