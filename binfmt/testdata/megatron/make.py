"""Writes the .idx and .bin files of this folder with megatron-core, and expect.json: what its own reader gives for them.

    pip install megatron-core==0.16.1 torch numpy
    python binfmt/testdata/megatron/make.py [PREFIX]

With a PREFIX of other files (x for x.idx and x.bin) it prints what the reader gives for those, one JSON object.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import sys
import tempfile
from typing import Any

import numpy as np
import torch
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder, _IndexWriter

HERE = pathlib.Path(__file__).parent
DTYPES = ("uint8", "int8", "int16", "int32", "int64", "float64", "float32", "uint16")


def read(prefix: str | pathlib.Path, multimodal: bool = False) -> dict[str, Any]:
    """What the peer's reader says of a pair of files: heads, arrays, and the bytes of every sequence."""
    data = IndexedDataset(str(prefix), multimodal=multimodal, mmap=True)
    items = [data[i] for i in range(len(data))]
    return {
        "dtype": np.dtype(data.index.dtype).name,
        "lengths": data.sequence_lengths.tolist(),
        "pointers": data.index.sequence_pointers.tolist(),
        "documents": data.document_indices.tolist(),
        "modes": data.index.sequence_modes.tolist() if multimodal else None,
        "sequences": [(item[0] if multimodal else item).tobytes().hex() for item in items],
    }


def write(
    name: str, dtype: str, documents: list[list[tuple[list[int], int]]], multimodal: bool = False
) -> dict[str, Any]:
    """Documents are lists of sequences, each its tokens and its mode."""
    builder = IndexedDatasetBuilder(str(HERE / f"{name}.bin"), dtype=np.dtype(dtype).type, multimodal=multimodal)
    for document in documents:
        for tokens, mode in document:
            builder.add_item(torch.tensor(tokens, dtype=torch.int64), mode)
        builder.end_document()
    builder.finalize(str(HERE / f"{name}.idx"))
    return read(HERE / name, multimodal)


def image(data: bytes) -> list[int]:
    """An image as preprocess_mmdata.py stores it: the number of pad bytes, then the padded file as int32."""
    pad = -len(data) % 4
    return [pad, *np.frombuffer(data + bytes(pad), np.int32).tolist()]


def huge() -> dict[str, Any]:
    """An index whose .bin reaches past 2^32 bytes. The .bin is a hole with a few marks in it, made again by the test."""
    lengths = [1_000_000_000, 3, 1_200_000_000, 0, 5]
    with _IndexWriter(str(HERE / "huge.idx"), np.uint16) as writer:
        writer.write(lengths, None, [0, 1, 3, 5])
    ends = np.cumsum(np.array(lengths, np.int64))
    starts = ends - np.array(lengths)
    marks = {
        int(2 * (starts[1])): "0102030405ff",
        int(2 * (ends[2] - 3)): "aabbccddeeff",
        int(2 * starts[4]): "01000200030004000500",
    }
    windows = []
    with tempfile.TemporaryDirectory() as folder:
        prefix = pathlib.Path(folder) / "huge"
        (prefix.with_suffix(".idx")).write_bytes((HERE / "huge.idx").read_bytes())
        with open(prefix.with_suffix(".bin"), "wb") as out:
            out.truncate(2 * int(ends[-1]))
            for at, mark in marks.items():
                out.seek(at)
                out.write(bytes.fromhex(mark))
        data = IndexedDataset(str(prefix), mmap=True)
        for i, offset, count in (
            (0, 999_999_990, 10),
            (1, 0, 3),
            (1, 1, 2),
            (2, 1_199_999_995, 5),
            (4, 0, 5),
            (4, 3, 2),
        ):
            windows.append([i, offset, count, data.get(i, offset, count).tobytes().hex()])
        expect = {
            "dtype": np.dtype(data.index.dtype).name,
            "lengths": data.sequence_lengths.tolist(),
            "pointers": data.index.sequence_pointers.tolist(),
            "documents": data.document_indices.tolist(),
            "modes": None,
        }
    return expect | {"bytes": 2 * int(ends[-1]), "marks": {str(k): v for k, v in marks.items()}, "windows": windows}


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(read(sys.argv[1])))
        return
    expect = {}
    plain = [[([1, 2, 3], 0), ([4], 0)], [([5, 6, 7, 8, 9, 100], 0)], [([11, 12], 0)]]
    for dtype in DTYPES:
        expect[dtype] = write(dtype, dtype, plain)
    # Lengths 0,5,0,0,7, with a document that has no sequence at all, first, in the middle and last.
    some = [[], [([], 0)], [([1, 2, 3, 4, 5], 0)], [([], 0), ([], 0)], [], [([1, 2, 3, 4, 5, 6, 7], 0)], []]
    expect["zero"] = write("zero", "int32", some)
    # Nothing but empty sequences. The peer cannot map an empty .bin, so its arrays are read without it.
    empty = IndexedDatasetBuilder(str(HERE / "none.bin"), dtype=np.uint16)
    for _ in range(3):
        empty.add_item(torch.tensor([], dtype=torch.int64))
        empty.end_document()
    empty.finalize(str(HERE / "none.idx"))
    with contextlib.suppress(ValueError):
        read(HERE / "none")
        raise AssertionError("megatron-core maps an empty .bin after all: compare it too")
    text, other = ([7, 8, 9], 0), ([10, 11], 0)
    pictures = [[text, (image(b"\xff\xd8\xff" + bytes(range(n))), 1)] for n in (1, 2, 3, 4)]
    expect["modes"] = write("modes", "int32", [*pictures, [other]], multimodal=True)
    expect["huge"] = huge()
    (HERE / "expect.json").write_text(json.dumps(expect, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
