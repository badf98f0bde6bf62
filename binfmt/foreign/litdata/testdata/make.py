"""Write datasets by LitData's own writer, one of each way of storing chunks, and expect.json: the bytes that its reader gives its serialisers for every
leaf of every item.

    pip install litdata==0.2.76 (with torch and Pillow)
    python binfmt/foreign/litdata/testdata/make.py
"""

from __future__ import annotations

import io
import json
import pathlib
import shutil
import tempfile
from typing import Any

import numpy
import torch
from litdata.streaming import StreamingDataset
from litdata.streaming import serializers as peers
from litdata.streaming.writer import BinaryWriter
from PIL import Image

HERE = pathlib.Path(__file__).parent


def picture(folder: str, n: int) -> Image.Image:
    """A JPEG file, opened: LitData takes the bytes of the file."""
    out = io.BytesIO()
    Image.frombytes("RGB", (8 + n, 6), bytes((x * 7 + n) % 256 for x in range(3 * 6 * (8 + n)))).save(
        out, format="JPEG"
    )
    path = pathlib.Path(folder) / f"{n}.jpg"
    path.write_bytes(out.getvalue())
    return Image.open(path)


def item(folder: str, n: int) -> dict[str, Any]:
    return {
        "image": picture(folder, n),
        "label": n % 3 - 1,
        "score": n / 4,
        "even": n % 2 == 0,
        "caption": f"picture {n}: é" + "!" * n,
        "raw": bytes(range(n)),
        "mask": numpy.arange(6, dtype=numpy.uint8).reshape(2, 3) + n,
        "ids": numpy.arange(n + 1, dtype=numpy.int32),
        "grid": torch.full((2, 2), float(n)),
        "pixels": Image.new("L", (3, 2), n),
    }


def write(name: str, items: list[Any], **options: Any) -> None:
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    writer = BinaryWriter(str(folder), **options)
    for i, it in enumerate(items):
        writer[i] = it
    writer.done()
    writer.merge()
    for lock in folder.glob("*.lock"):
        lock.unlink()


def flat(value: Any, name: str = "") -> dict[str, str]:
    if isinstance(value, dict):
        pairs = [(str(k), v) for k, v in value.items()]
    elif isinstance(value, (list, tuple)):
        pairs = [(str(i), v) for i, v in enumerate(value)]
    else:
        return {name or "item": bytes(value).hex()}
    out: dict[str, str] = {}
    for key, inner in pairs:
        out |= flat(inner, f"{name}.{key}" if name else key)
    return out


def read(name: str) -> list[dict[str, str]]:
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(HERE / name, copy, dirs_exist_ok=True)
        data = StreamingDataset(copy, shuffle=False)
        return [flat(data[i]) for i in range(len(data))]


def main() -> None:
    for serializer in {type(s) for s in peers._SERIALIZERS.values()}:
        serializer.deserialize = lambda self, data: bytes(
            data
        )  # what the reader found, before it is made something else
    with tempfile.TemporaryDirectory() as folder:
        items = [item(folder, n) for n in range(7)]
        write("plain", items, chunk_size=3)
        write("zipped", items, chunk_size=4, compression="zstd", compression_level="chunk")
        write("frames", items, chunk_size=5, compression="zstd", compression_level="batch", compression_batch_size=2)
        write("items", items, chunk_size=4, compression="zstd", compression_level="sample")
    write("arrays", [torch.arange(n + 1, dtype=torch.int64) * 3 for n in range(5)], chunk_bytes=100)
    write("single", [b"one", b"", b"three"], chunk_size=10)
    expect = {name: read(name) for name in ("plain", "zipped", "frames", "items", "arrays", "single")}
    (HERE / "expect.json").write_text(json.dumps(expect, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
