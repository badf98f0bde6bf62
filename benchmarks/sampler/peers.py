"""Measures the shuffles of other loaders once and prints benchmark lines; what is not installed is left out."""

import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from typing import Any

SIZES = (1_000_000, (1 << 20) + 1)
CALLS = 20_000


def line(name: str, n: int, ns: float) -> None:
    print(f"BenchmarkPeer/{name}/n={n} 1 {ns:.2f} ns/look-up")


def whole(name: str, build: Callable[[int], object]) -> None:
    """A shuffle that makes the whole order: its cost is spread over all samples, a resume pays all of it."""
    for n in SIZES:
        start = time.process_time()
        build(n)
        line(name, n, (time.process_time() - start) * 1e9 / n)


def module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


def grain_rows() -> None:
    try:
        shuffle = import_module(
            "grain._src.python.experimental.index_shuffle.python.index_shuffle_module"
        ).index_shuffle
    except ImportError:
        return
    for rounds in (4, 8):
        for n in SIZES:
            start = time.process_time()
            for i in range(CALLS):
                shuffle(i, max_index=n - 1, seed=1, rounds=rounds)
            line(f"grain-{version('grain')}-rounds={rounds}", n, (time.process_time() - start) * 1e9 / CALLS)
    n = (1 << 16) + 1
    lost = n - len({shuffle(i, max_index=n - 1, seed=1, rounds=4) for i in range(n)})
    print(f"# grain-{version('grain')}: {lost} of {n} samples lost")


def main() -> None:
    numpy, torch = module("numpy"), module("torch")
    if numpy:
        whole(f"numpy-{numpy.__version__}", lambda n: numpy.random.default_rng(1).permutation(n))
    if torch:
        torch.set_num_threads(1)
        whole(
            f"torch-{torch.__version__}-randperm",
            lambda n: torch.randperm(n, generator=torch.Generator().manual_seed(1)),
        )
        whole(f"torch-{torch.__version__}-RandomSampler", lambda n: list(torch.utils.data.RandomSampler(range(n))))
    grain_rows()


if __name__ == "__main__":
    main()
