"""Write the golden orders of megatron-core: `python golden.py > golden.json`.

Every case is built by megatron-core's own BlendedMegatronDatasetBuilder, and every sample is asked for: what the dataset
then reads of its sequences is what is recorded. A case's digest is SHA-256 over, for each sample, the numbers
source, piece count, and sequence, offset, length of every piece, each as a little-endian int64.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy
import torch
from megatron.core.datasets.blended_dataset import BlendedDataset
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder

SPLITS = ("train", "valid", "test")
SHOWN = 3  # samples at either end that the file shows


class Tokenizer:
    eod, pad, vocab_size = 0, 1, 1000
    unique_identifiers: ClassVar = {"class": "Tokenizer"}
    special_tokens_dict: ClassVar[dict[str, int]] = {}


def lengths(source: dict[str, int]) -> list[int]:
    """The lengths that a source stands for: below `limit`, and some are zero."""
    out = []
    for i in range(source["sequences"]):
        mixed = ((i + 1) * 2654435761 + source["salt"] * 40503) % 2**32
        mixed ^= mixed >> 15
        out.append(0 if source["zeros"] and i % source["zeros"] == 0 else 1 + mixed % source["limit"])
    return out


def source(sequences: int, limit: int, salt: int = 0, zeros: int = 0) -> dict[str, int]:
    return {"sequences": sequences, "limit": limit, "salt": salt, "zeros": zeros}


def case(name: str, sources: list[dict[str, int]], samples: list[int | None], **options: Any) -> dict[str, Any]:
    return {
        "name": name,
        "seed": 1234,
        "sequence_length": 32,
        "extra_token": True,
        "surplus": 0.005,
        "split": "969,30,1",
        "weights": None,
        "sources": sources,
        "samples": samples,
        **options,
    }


def cases() -> Iterator[dict[str, Any]]:
    plain = [source(2000, 60)]
    for seed in (1234, 0, 1, 4294967295):
        yield case(f"seed {seed}", plain, [3000, 40, 5], seed=seed)
    for samples in (None, 1, 1500, 1800, 1900, 3300, 3400, 3500, 3600, 9000):
        yield case(f"{samples} samples", plain, [samples, samples, samples])
    for split in ("969,30,1", "1,1,1", "99,1,0", "0.5, 0.25, 0.25", "100", "0,0,7", "949,50,1"):
        yield case(f"split {split}", [source(1337, 25, salt=5)], [700, 31, 17], split=split)
    for length in (2, 3, 31, 500, 5000):
        yield case(f"sequence length {length}", plain, [400, 20, 2], sequence_length=length)
    yield case("no extra token", plain, [4000, 100, 10], extra_token=False)
    yield case("no extra token, one epoch", plain, [None, None, None], extra_token=False)
    yield case("sequences of no token", [source(3000, 40, zeros=3)], [5000, 100, 10])
    yield case("nearly all of no token", [source(3000, 400, zeros=1) | {"zeros": 2}], [5000, 100, 10])
    yield case("long sequences", [source(300, 5000)], [8000, 100, 0], split="9,1,0")
    yield case("nothing asked for", plain, [100, 0, 0])
    yield case("one tiny source", [source(3, 9)], [500, 0, 0], split="1,0,0", sequence_length=8)

    def several(n: int) -> list[dict[str, int]]:
        return [source(20 + 37 * i % 1000 // n, 20 + 13 * i % 60, salt=i) for i in range(n)]

    for n in (2, 3, 7, 8, 10, 33, 129, 300):
        weights = [((7 * i * i + 3 * i + 5) % 101 + 1) / 10 for i in range(n)]
        yield case(f"{n} weighted", several(n), [1500, 150, 0], weights=weights, split="900,100,0")
        yield case(f"{n} of equal weight", several(n), [1000, 50, 0], weights=[0.1] * n, split="900,100,0")
        yield case(f"{n} by size", several(n), [2000, 0, 0], split="1,0,0")
        yield case(f"{n} exhaustive", several(n), [None, None, None], split="1,0,0")
    yield case("ties", several(5), [3000, 300, 0], weights=[0.5, 0.25, 0.125, 0.0625, 0.0625], split="900,100,0")
    yield case("tenths", several(3), [3000, 300, 0], weights=[0.5, 0.3, 0.2], split="900,100,0")
    yield case("rare source", several(2), [5000, 900, 0], weights=[0.999, 0.001], split="900,100,0")
    yield case("one weighted source", plain, [2500, 50, 0], weights=[30.0], split="900,100,0")
    yield case("large surplus", several(3), [4000, 50, 0], weights=[1.0, 2.0, 3.0], surplus=0.5, split="900,100,0")
    apart = {"per_split": [{"sources": [0, 2], "weights": [0.7, 0.3]}, {"sources": [1], "weights": [2.0]}, None]}
    yield case("a blend for each split", several(3), [4000, 300, 0], split=None, **apart)
    apart = {"per_split": [{"sources": [0, 1, 2, 1], "weights": None}, {"sources": [2, 0], "weights": None}, None]}
    yield case("an epoch for each split", several(3), [None, 300, 0], split=None, **apart)


class Recorder:
    """The low-level dataset as GPTDataset sees it, and what it reads."""

    def __init__(self, dataset: IndexedDataset) -> None:
        self._dataset = dataset
        self.reads: list[tuple[int, int, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)

    def get(self, sequence: int, offset: int = 0, length: int | None = None) -> numpy.ndarray:
        if length is None:
            length = self._dataset.sequence_lengths[sequence] - offset
        assert offset + length <= self._dataset.sequence_lengths[sequence]
        if length > 0:
            self.reads.append((int(sequence), int(offset), int(length)))
        return numpy.zeros(length, dtype=numpy.int64)


class RecordedGPTDataset(GPTDataset):
    def __init__(self, indexed_dataset: IndexedDataset, *rest: Any) -> None:
        super().__init__(Recorder(indexed_dataset), *rest)


def write(folder: str, given: dict[str, int]) -> str:
    """The `.idx` of a source. Its `.bin` has as many tokens, which are never read."""
    prefix = os.path.join(folder, "_".join(str(v) for v in given.values()))
    if not os.path.exists(prefix + ".idx"):
        builder = IndexedDatasetBuilder(prefix + ".bin", dtype=numpy.uint16)
        for n in lengths(given):
            builder.add_item(torch.zeros(n, dtype=torch.int64))
            builder.end_document()
        builder.finalize(prefix + ".idx")
    return prefix


def build(folder: str, c: dict[str, Any]) -> list[Any]:
    prefixes = [write(folder, s) for s in c["sources"]]
    blends: dict[str, Any]
    if "per_split" in c:
        blends = {
            "blend_per_split": [
                None if b is None else ([prefixes[i] for i in b["sources"]], b["weights"]) for b in c["per_split"]
            ]
        }
    else:
        blends = {"blend": (prefixes, c["weights"]), "split": c["split"]}
    config = GPTDatasetConfig(
        random_seed=c["seed"],
        sequence_length=c["sequence_length"],
        add_extra_token_to_sequence=c["extra_token"],
        mid_level_dataset_surplus=c["surplus"],
        tokenizer=Tokenizer(),
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
        path_to_cache=os.path.join(folder, "cache"),
        **blends,
    )
    return BlendedMegatronDatasetBuilder(RecordedGPTDataset, c["samples"], lambda: True, config).build()


def sample(dataset: Any, i: int) -> list[int]:
    """Source, and sequence, offset and length of every piece, as one list."""
    blended = isinstance(dataset, BlendedDataset)
    at = int(dataset.dataset_index[i]) if blended else 0
    source = dataset.datasets[at] if blended else dataset
    source.dataset.reads.clear()
    source._query_document_sample_shuffle_indices(int(dataset.dataset_sample_index[i]) if blended else i)
    return [at, *(v for read in source.dataset.reads for v in read)]


def record(dataset: Any) -> dict[str, Any] | None:
    if dataset is None:
        return None
    digest, shown = hashlib.sha256(), []
    for i in range(len(dataset)):
        values = sample(dataset, i)
        digest.update(numpy.array([values[0], len(values) // 3, *values[1:]], dtype="<i8").tobytes())
        if i < SHOWN or i >= len(dataset) - SHOWN:
            shown.append(values if len(values) <= 16 else [*values[:7], *values[-6:]])
    return {"samples": len(dataset), "sha256": digest.hexdigest(), "shown": shown}


def golden() -> str:
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for c in cases():
            with contextlib.redirect_stdout(sys.stderr):
                built = build(folder, c)
                c["splits"] = {name: record(d) for name, d in zip(SPLITS, built, strict=True)}
            lines.append(json.dumps(c))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def main() -> int:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    text = golden()
    torch.distributed.destroy_process_group()
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
