"""One way to read token samples, in a process of its own: prints CPU and wall microseconds a sample as JSON.

`python benchmarks/tokens/child.py WAY FOLDER SAMPLES`; `__main__.py` makes the folder and runs this.
"""

from __future__ import annotations

import json
import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

LENGTH = 4096
BATCH = 64
WARM = 8192  # samples that do not count: a whole epoch, so that files are mapped and memory is there


def ours(folder: pathlib.Path, fields: list[str] | None) -> Iterator[int]:
    import stepahead

    loader = stepahead.DataLoader(
        folder / "dataset",
        global_batch=BATCH,
        seed=5,
        tokens=stepahead.Tokens(LENGTH),
        fields=fields,
        output="torch",
    )
    check(loader, folder)
    with loader:
        while True:
            for batch in loader:
                yield len(next(iter(batch.values())))


def check(loader: Any, folder: pathlib.Path) -> None:
    """The gate before any speed: the first batch is what NumPy cuts out of the file."""
    stream = np.memmap(folder / "doc.bin", dtype=np.uint16, mode="r")
    batch = next(iter(loader))
    for row, sample in enumerate(batch.samples):
        window = stream[sample * LENGTH : (sample + 1) * LENGTH + 1].astype(np.int64)
        for name, want in (("tokens", window[:-1]), ("labels", window[1:]), ("text", window)):
            if name in batch and not np.array_equal(batch[name][row].numpy(), want):
                print(f"{name} of sample {sample} are wrong", file=sys.stderr)
                raise SystemExit(3)


def gpt_dataset(folder: pathlib.Path) -> Any:
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.datasets.indexed_dataset import IndexedDataset
    from megatron.core.datasets.utils import Split

    class Tokenizer:
        vocab_size = 65000
        eod = 0
        pad = -1

        def __init__(self) -> None:
            self.unique_identifiers = {"class": "none"}

    config = GPTDatasetConfig(
        random_seed=1,
        sequence_length=LENGTH,
        split="1,0,0",
        path_to_cache=str(folder / "cache"),
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
        tokenizer=Tokenizer(),
        mmap_bin_files=True,
    )
    indexed = IndexedDataset(str(folder / "doc"), mmap=True)
    ids = np.arange(len(indexed), dtype=np.int32)
    return GPTDataset(indexed, str(folder / "doc"), ids, None, Split.train, config)


def singly(get: Callable[[int], Any], count: int) -> Iterator[int]:
    order = np.random.default_rng(5).permutation(count).tolist()
    while True:
        for i in order:
            get(i)
            yield 1


def gpt(folder: pathlib.Path) -> Iterator[int]:
    dataset = gpt_dataset(folder)
    return singly(lambda i: dataset[i], len(dataset) - 1)


def gpt_batches(folder: pathlib.Path) -> Iterator[int]:
    import torch

    dataset = gpt_dataset(folder)
    while True:
        for batch in torch.utils.data.DataLoader(dataset, batch_size=BATCH, shuffle=True, drop_last=True):
            yield len(batch["tokens"])


def indexed(folder: pathlib.Path) -> Iterator[int]:
    from megatron.core.datasets.indexed_dataset import IndexedDataset

    dataset = IndexedDataset(str(folder / "seq"), mmap=True)
    return singly(lambda i: dataset[i].astype(np.int64), len(dataset))


WAYS: dict[str, Callable[[pathlib.Path], Iterator[int]]] = {
    "stepahead": lambda folder: ours(folder, None),
    "stepahead-text": lambda folder: ours(folder, ["text"]),
    "GPTDataset": gpt,
    "GPTDataset-batches": gpt_batches,
    "IndexedDataset": indexed,
}


def main(way: str, folder: str, samples: str) -> None:
    import torch

    torch.set_num_threads(1)
    source = WAYS[way](pathlib.Path(folder))
    done = 0
    while done < WARM:
        done += next(source)
    done, cpu, wall = 0, time.process_time(), time.perf_counter()
    while done < int(samples):
        done += next(source)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"cpu": cpu * 1e6 / done, "wall": wall * 1e6 / done}))


if __name__ == "__main__":
    main(*sys.argv[1:])
