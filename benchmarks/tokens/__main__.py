"""Token samples beside megatron-core, and best-fit planning beside NumPy: `python -m benchmarks.tokens`.

README.md says how each row is measured. `make bench-sampler` runs this through benchmarks/run.py.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks.run import WRONG, Row, quartiles, show

ROOT = pathlib.Path(__file__).resolve().parents[2]
LENGTH = 4096
WINDOWS = 8192
SAMPLES = {"stepahead": 262_144, "stepahead-text": 262_144, "IndexedDataset": 262_144}
FEW = 16_384  # of what is slow
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}

OURS, TEXT = "stepahead", "stepahead-text"
GPT, BATCHES, INDEXED = "GPTDataset", "GPTDataset-batches", "IndexedDataset"


def write_index(path: pathlib.Path, lengths: np.ndarray[Any, Any]) -> None:
    """A Megatron .idx of uint16 sequences, each a document."""
    n = len(lengths)
    pointers = np.concatenate([[0], np.cumsum(lengths[:-1], dtype=np.int64)]) * 2
    with path.open("wb") as f:
        f.write(b"MMIDIDX\x00\x00" + (1).to_bytes(8, "little") + b"\x08")
        f.write(n.to_bytes(8, "little") + (n + 1).to_bytes(8, "little"))
        f.write(
            lengths.astype("<i4").tobytes() + pointers.astype("<i8").tobytes() + np.arange(n + 1, dtype="<i8").tobytes()
        )


def make_files(folder: pathlib.Path) -> None:
    """The same tokens as documents of 500 to 1,500 and as sequences of 4,096, and the dataset of the first."""
    rng = np.random.default_rng(3)
    tokens = rng.integers(1, 65000, WINDOWS * LENGTH + 1, dtype=np.uint16)
    (folder / "doc.bin").write_bytes(tokens.tobytes())
    lengths = rng.integers(500, 1501, len(tokens) // 1000 * 2)
    lengths = lengths[np.cumsum(lengths) < len(tokens)]
    write_index(folder / "doc.idx", np.append(lengths, len(tokens) - lengths.sum()))
    (folder / "seq.bin").write_bytes(tokens[: WINDOWS * LENGTH].tobytes())
    write_index(folder / "seq.idx", np.full(WINDOWS, LENGTH))
    subprocess.run(
        [ROOT / "bin" / "stepahead", "index", folder / "doc.idx", "-o", folder / "dataset"],
        check=True,
        stdout=sys.stderr,
    )


def measure(way: str, folder: pathlib.Path) -> dict[str, float]:
    command = [sys.executable, "-W", "ignore", "benchmarks/tokens/child.py", way, folder, str(SAMPLES.get(way, FEW))]
    result = subprocess.run(
        list(map(str, command)), cwd=ROOT, env=os.environ | ONE_THREAD, stdout=subprocess.PIPE, text=True
    )
    if result.returncode == WRONG:
        raise SystemExit(WRONG)
    if result.returncode != 0:
        raise RuntimeError(f"{way}: exit code {result.returncode}")
    answer: dict[str, float] = json.loads(result.stdout.splitlines()[-1])
    return answer


def samples(rounds: int) -> list[Row]:
    cpu: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="stepahead-tokens-") as name:
        make_files(pathlib.Path(name))
        for _ in range(rounds):
            for way in (OURS, TEXT, GPT, BATCHES, INDEXED):
                cpu.setdefault(way, []).append(measure(way, pathlib.Path(name))["cpu"])
    return [
        ratio("token samples, all fields / GPTDataset", 10, cpu, GPT, OURS),
        ratio("token samples, all fields / GPTDataset in torch batches", 10, cpu, BATCHES, OURS),
        ratio("token samples, text alone / IndexedDataset as int64", 0.8, cpu, INDEXED, TEXT),
        ratio("token samples, all fields / IndexedDataset as int64", None, cpu, INDEXED, OURS),
    ]


def ratio(title: str, bar: float | None, cpu: dict[str, list[float]], peer: str, ours: str) -> Row:
    """How many samples of ours cost the CPU time of one of the peer's, by round."""
    low, median, high = quartiles([a / b for a, b in zip(cpu[peer], cpu[ours], strict=True)])
    seen = "; ".join(f"{way} {statistics.median(cpu[way]):.3g} us" for way in (ours, peer))
    return Row(title, f">= {bar:g} x" if bar else "none", median, (low, high), "x", seen, bar is None or median >= bar)


def numpy_best_fit(lengths: np.ndarray[Any, Any]) -> int:
    """Best fit decreasing as one writes it with NumPy; returns the number of packs."""
    full = int((lengths // LENGTH).sum())
    ends = np.sort(lengths % LENGTH)[::-1]
    room = np.empty(len(ends), np.int64)
    packs = 0
    for end in ends[ends > 0].tolist():
        fits = room[:packs]
        best = np.where(fits >= end, fits, LENGTH + 1).argmin() if packs else 0
        if packs == 0 or fits[best] < end:
            best, packs = packs, packs + 1
            room[best] = LENGTH
        room[best] -= end
    return full + packs


def fit(rounds: int, documents: int) -> list[Row]:
    lengths = np.random.default_rng(4).lognormal(6.5, 1.1, documents).astype(np.int32) + 1
    speed, peer_ms, our_ms = [], [], []
    with tempfile.TemporaryDirectory(prefix="stepahead-tokens-") as name:
        path = pathlib.Path(name) / "lengths"
        path.write_bytes(lengths.tobytes())
        program = pathlib.Path(name) / "fit"
        subprocess.run(["go", "build", "-o", program, "./benchmarks/tokens/fit"], cwd=ROOT, check=True)
        for _ in range(rounds):
            text = subprocess.run([program, "-length", str(LENGTH), path], check=True, stdout=subprocess.PIPE).stdout
            ours = json.loads(text)
            start = time.process_time()
            packs = numpy_best_fit(lengths)
            peer_ms.append((time.process_time() - start) * 1000)
            our_ms.append(statistics.median(ours["ms"]))
            speed.append(peer_ms[-1] / our_ms[-1])
    low, median, high = quartiles(speed)
    seen = f"stepahead {statistics.median(our_ms):.3g} ms; NumPy {statistics.median(peer_ms):,.0f} ms; {documents:,} documents"
    efficiency = int(lengths.sum()) / (packs * LENGTH)
    less = (efficiency - ours["efficiency"]) / efficiency * 100
    full = f"stepahead {ours['efficiency']:.4%} full; NumPy {efficiency:.4%}"
    return [
        Row("best-fit planning / NumPy", ">= 20 x", median, (low, high), "x", seen, median >= 20),
        Row("best-fit packs, less full than NumPy's", "<= 0.5 %", less, None, "%", full, less <= 0.5),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["samples", "fit", "all"], default="all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows: list[Row] = []
    if arguments.what != "fit":
        rows += samples(arguments.rounds)
    if arguments.what != "samples":
        rows += fit(arguments.rounds, arguments.documents)
    if arguments.json:
        print(json.dumps({"rows": [asdict(row) for row in rows]}))
    else:
        print("\n".join(map(show, rows)))


if __name__ == "__main__":
    main()
