"""Measures the shuffles of other loaders once and prints benchmark lines; what is not installed is left out."""

import itertools
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
    except Exception:  # what it imports in turn may fail in any way
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


BLENDED = 1_000_000
RESUMED = 10_000_000  # of 10^9 they would need tens of GB


def blend_rows() -> None:
    """Megatron's blend: which source each sample is of, and its number there, as arrays; no shuffle within."""
    numpy = module("numpy")
    helpers = module("megatron.core.datasets.helpers_cpp")
    if helpers is None:
        return
    for sources in (32, 1000):
        weights = 1 / numpy.arange(1, sources + 1, dtype=numpy.float64)
        of, number = numpy.zeros(BLENDED, numpy.int16), numpy.zeros(BLENDED, numpy.int64)
        start = time.process_time()
        helpers.build_blending_indices(of, number, weights / weights.sum(), sources, BLENDED, False)
        print(
            f"BenchmarkPeer/megatron-core-{version('megatron-core')}-blend/sources={sources} 1 "
            f"{(time.process_time() - start) * 1e9 / BLENDED:.2f} ns/look-up"
        )


def resumed(name: str, resume: Callable[[], object]) -> None:
    """The cost to stand at 90 % of an epoch, a fresh process's imports left out."""
    start = time.process_time()
    resume()
    print(f"BenchmarkPeer/{name}/resume90={RESUMED} 1 {(time.process_time() - start) * 1e9:.0f} ns/resume")


def resume_rows() -> None:
    numpy, torch, shuffle = module("numpy"), module("torch"), module("streaming.base.shuffle")
    if torch:
        order = torch.utils.data.RandomSampler(range(RESUMED))
        resumed(
            f"torch-{torch.__version__}-RandomSampler",
            lambda: next(itertools.islice(iter(order), 9 * RESUMED // 10, None)),
        )
    if shuffle:
        sizes = numpy.full(RESUMED // 4093, 4093, numpy.int64)  # samples a shard
        resumed(
            f"mosaicml-streaming-{version('mosaicml-streaming')}-py1e",
            lambda: shuffle.get_shuffle("py1e", sizes, 1, 9176, 0, 4_000_000),
        )


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
    blend_rows()
    resume_rows()


if __name__ == "__main__":
    main()
