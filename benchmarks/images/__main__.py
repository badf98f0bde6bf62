"""Decoding and cropping images on one core, beside other libraries: python -m benchmarks.images

README.md says what is measured and how. `make bench-images` runs this through benchmarks/run.py.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks import photos
from benchmarks.images import pixels
from benchmarks.images.contest import Contest, compile_all
from benchmarks.run import WRONG, Row, quartiles, show

# How many files of a set one competitor does before the next one's turn. DALI wants multiples of 16.
CHUNK = {"inet": 160, "large": 16, "png": 16, "webp": 32, "webp-lossless": 16}

OURS, BATCH, SSE, SCALED = "stepahead", "stepahead, 16 a call", "stepahead, SSE4.1", "stepahead, dct-scaled"
REGION, REGION_SSE = "C, region only", "C, region only, SSE2"
TORCHVISION, TORCHVISION_SSE = "torchvision", "torchvision, no AVX"
DALI, SIMPLEJPEG_SCALED = "DALI", "simplejpeg, scaled"


@dataclass
class Result:
    """What one set gave: CPU milliseconds an image by competitor and round, and how far pixels are from Pillow's."""

    name: str
    times: dict[str, list[float]]
    missing: dict[str, str]
    distances: dict[str, pixels.Distance] = field(default_factory=dict)

    def median(self, name: str) -> str:
        return f"{name} {quartiles(self.times[name])[1]:.3g} ms"

    def faster(self, row: str, bar: float, ours: str, *peers: str) -> Row:
        """A row for how many times faster ours is than each peer; the least favourable counts."""
        return self._row(row, f">= {bar:g} x", ours, peers, lambda worst: worst >= bar, lambda a, b: b / a, min)

    def costs(self, row: str, bar: float, ours: str, floor: str) -> Row:
        """A row for ours as a multiple of a floor."""
        return self._row(row, f"<= {bar:g} x", ours, [floor], lambda worst: worst <= bar, lambda a, b: a / b, max)

    def _row(
        self,
        row: str,
        bar: str,
        ours: str,
        peers: Sequence[str],
        holds: Callable[[float], bool],
        ratio: Callable[[float, float], float],
        worst: Callable[..., list[float]],
    ) -> Row:
        have = [peer for peer in peers if peer in self.times]
        absent = [f"NOT MEASURED: {name}" for name in (ours, *peers) if name not in self.times]
        peer = ", ".join([*map(self.median, have), *absent])
        if ours not in self.times or not have:
            return Row(row, bar, math.nan, None, "x", peer, False)
        pairs = [zip(self.times[ours], self.times[name], strict=True) for name in have]
        low, median, high = worst((quartiles([ratio(a, b) for a, b in pair]) for pair in pairs), key=lambda q: q[1])
        return Row(row, bar, median, (low, high), "x", f"{self.median(ours)}; {peer}", holds(median))


def crops(name: str, rounds: int, files: int | None) -> Result:
    """JPEG to a crop of 224 x 224, by all who can."""
    contest = Contest(name, photos.files(name)[:files])
    enter = contest.add
    enter(OURS, "run", "stepahead")
    enter(BATCH, "run16", "stepahead")
    enter(SCALED, "scaled", "stepahead")
    enter(SSE, "sse41", "stepahead", limited=True)
    enter(REGION, "region", "floor")
    enter(REGION_SSE, "region", "floor", limited=True)
    enter(TORCHVISION, "crop", "torchvision")
    enter(TORCHVISION_SSE, "crop", "torchvision", limited=True)
    enter(DALI, "crop", "dali")
    enter("OpenCV, no antialias", "crop", "opencv")
    enter("Pillow", "crop", "pillow")
    enter("Pillow, draft", "scaled", "pillow")
    enter("simplejpeg", "crop", "simplejpeg")
    enter(SIMPLEJPEG_SCALED, "scaled", "simplejpeg")
    exact = {OURS, BATCH, SSE}
    return measured(contest, name, rounds, exact, [e.name for e in contest.entries if e.job not in ("region", "full")])


def decodes(name: str, rounds: int, files: int | None, library: str) -> Result:
    """Whole pictures to RGB."""
    contest = Contest(name, photos.files(name)[:files])
    contest.add(BATCH, "decode16", "stepahead")
    contest.add(library, name.split("-")[0], "floor")
    contest.add(TORCHVISION, "decode", "torchvision")
    contest.add("Pillow", "decode", "pillow")
    contest.add("OpenCV", "decode", "opencv")
    return measured(contest, name, rounds, {BATCH}, [BATCH, TORCHVISION, "Pillow", "OpenCV"])


def measured(contest: Contest, name: str, rounds: int, exact: set[str], shown: list[str]) -> Result:
    """Look at the pixels first: no speed is printed for ours unless they equal Pillow's."""
    try:
        distances = pixels.compare(contest, "Pillow", shown)
        for wrong in sorted(exact & distances.keys()):
            if distances[wrong].most > 0:
                print(f"images: {wrong} differs from Pillow on {name}: {distances[wrong]}", file=sys.stderr)
                raise SystemExit(WRONG)
        return Result(name, contest.rounds(rounds, CHUNK[name]), contest.missing, distances)
    finally:
        contest.close()


def small_rows(r: Result) -> list[Row]:
    what = "JPEG crop, 500x375-like"
    return [
        r.faster(f"{what}, one a call / torchvision", 1.55, OURS, TORCHVISION),
        r.costs(f"{what}, one a call, CPU / region decode in C", 1.25, OURS, REGION),
        r.faster(f"{what}, 16 a call / torchvision", 1.6, BATCH, TORCHVISION),
        r.costs(f"{what}, 16 a call, CPU / region decode in C", 1.18, BATCH, REGION),
        r.faster(f"{what}, SSE4.1 / torchvision without AVX", 1.3, SSE, TORCHVISION_SSE),
    ]


def large_rows(r: Result) -> list[Row]:
    what = "JPEG crop, 2-12 megapixels"
    return [
        r.faster(f"{what} / best of torchvision and DALI", 1.65, OURS, TORCHVISION, DALI),
        r.costs(f"{what}, CPU / region decode in C", 1.2, OURS, REGION),
        r.faster(f"{what}, dct-scaled / simplejpeg's scaled path", 1.3, SCALED, SIMPLEJPEG_SCALED),
        r.faster(f"{what}, SSE4.1 / torchvision without AVX", 1.3, SSE, TORCHVISION_SSE),
    ]


def experiment(name: str, rounds: int, files: int | None) -> tuple[Result, list[Row]]:
    """What was measured on one set, and its rows."""
    if name in ("inet", "large"):
        r = crops(name, rounds, files)
        return r, small_rows(r) if name == "inet" else large_rows(r)
    library = "libpng" if name == "png" else "libwebp"
    r = decodes(name, rounds, files, library)
    return r, [r.faster(f"{name} decode, 16 a call / {library} in C", 0.95, BATCH, library)]


def describe(result: Result) -> str:
    """All competitors of a set, fastest first."""
    lines = [
        f"\n{result.name} ({photos.digest(result.name)}): CPU ms an image, median (quartiles); levels away from Pillow"
    ]
    for name in sorted(result.times, key=lambda n: quartiles(result.times[n])[1]):
        low, median, high = quartiles(result.times[name])
        distance = result.distances.get(name, "")
        lines.append(f"  {name:26} {median:8.3f} ({low:.3f}-{high:.3f})  {distance}")
    return "\n".join(lines + [f"  NOT MEASURED: {name}: {why}" for name, why in result.missing.items()])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("only", nargs="*", help=f"sets to measure, of {', '.join(CHUNK)} (default: all)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds that count (default 7)")
    parser.add_argument("--files", type=int, help="only so many files of each set, a multiple of 16, for a quick look")
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, the table on standard error"
    )
    args = parser.parse_args()
    if unknown := set(args.only) - set(CHUNK):
        parser.error(f"no such set: {', '.join(sorted(unknown))}")
    compile_all()
    rows: list[Row] = []
    sets: dict[str, Any] = {}
    for name in args.only or CHUNK:
        result, found = experiment(name, args.rounds, args.files)
        print(describe(result), file=sys.stderr if args.json else sys.stdout, flush=True)
        rows += found
        sets[result.name] = {
            "digest": photos.digest(result.name),
            "cpu_ms": result.times,
            "missing": result.missing,
            "from_pillow": {name: asdict(d) for name, d in result.distances.items()},
        }
    if args.json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "sets": sets}))
    else:
        print("\n".join(map(show, rows)))
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
