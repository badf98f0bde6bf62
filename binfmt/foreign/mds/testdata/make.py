"""Writes the Mosaic datasets of this folder with mosaicml-streaming, and expect.json: what its own reader gives for them.

    pip install mosaicml-streaming==0.13.0 torch numpy pillow zstd
    python binfmt/foreign/mds/testdata/make.py [FOLDER...]

Other datasets (folders with an index.json) are read too, and go into expect.json under their last two names.
"""

from __future__ import annotations

import io
import json
import pathlib
import shutil
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import streaming.base.format.mds.reader as mds
from PIL import Image
from streaming import MDSWriter
from streaming.base.format import reader_from_json

HERE = pathlib.Path(__file__).parent


def picture(kind: str, i: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (5 + i, 3), (40 * i, 100, 200)).save(out, kind)
    return out.getvalue()


ENCODINGS = {
    "a.bytes": "bytes",
    "a_str": "str",
    "count": "int",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "fixed": "ndarray:int16:2,3",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "image": "jpeg",
    "js": "json",
    "nd": "ndarray",
    "nd_u8": "ndarray:uint8",
    "odd": "bytes",
    "pkl": "pkl",
    "png": "png",
    "s_dec": "str_decimal",
    "s_float": "str_float",
    "s_int": "str_int",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
}


def sample(i: int) -> dict[str, Any]:
    return {
        "a.bytes": bytes(range(i)),
        "a_str": "grün" * i,
        "count": -(10**12) - i,
        "f16": np.float16(1.5 + i / 3),
        "f32": np.float32(-0.1 * i),
        "f64": np.float64(1e300 * i),
        "fixed": np.full((2, 3), -i, np.int16),
        "i8": -i,
        "i16": -1000 - i,
        "i32": -100000 - i,
        "i64": 2**62 + i,
        "image": picture("JPEG", i),  # bytes are taken as they are
        "js": {"n": i, "text": "x"},
        "nd": np.arange(i + 1, dtype=np.float32).reshape(1, -1),
        "nd_u8": np.arange(300 + i, dtype=np.uint8),
        "odd": picture("PNG", i) if i % 2 else b"",
        "pkl": [1, i],
        "png": picture("PNG", i),
        "s_dec": Decimal("1.10") + i,
        "s_float": i / 7,
        "s_int": 10**i,
        "u8": 250 + i,
        "u16": 65530 + i,
        "u32": 2**32 - 1 - i,
        "u64": 2**63 - 3 + i,  # the last ones do not fit into int64
    }


def fresh(name: str) -> pathlib.Path:
    shutil.rmtree(HERE / name, ignore_errors=True)
    return HERE / name


def write() -> None:
    with MDSWriter(out=str(fresh("rich")), columns=ENCODINGS, size_limit=4096) as out:
        for i in range(6):
            out.write(sample(i))
    with MDSWriter(
        out=str(fresh("zipped")), columns={"x": "int", "y": "str"}, compression="zstd:3", hashes=["sha1"]
    ) as out:
        for i in range(3):
            out.write({"x": i, "y": "y" * i})
    # Compressed, with the raw shard kept beside: readable.
    with MDSWriter(
        out=str(fresh("kept")), columns={"x": "int", "y": "str"}, compression="zstd:3", keep_local=True
    ) as out:
        for i in range(3):
            out.write({"x": i, "y": "y" * i})
    for shard in json.loads((HERE / "kept/index.json").read_text())["shards"]:
        import zstd

        zipped = (HERE / "kept" / shard["zip_data"]["basename"]).read_bytes()
        (HERE / "kept" / shard["raw_data"]["basename"]).write_bytes(zstd.decompress(zipped))


def read(folder: pathlib.Path) -> list[dict[str, str]]:
    """Every sample as the peer takes it apart: the bytes of each column before they are decoded."""
    mds.mds_decode = lambda _encoding, value: value
    samples = []
    for shard in json.loads((folder / "index.json").read_text())["shards"]:
        reader = reader_from_json(str(folder), "", shard)
        for i in range(len(reader)):
            samples.append({k: bytes(v).hex() for k, v in reader.decode_sample(reader.get_sample_data(i)).items()})
    return samples


def main() -> None:
    write()
    folders = [HERE / "rich", HERE / "kept", *map(pathlib.Path, sys.argv[1:])]
    expect = {"/".join(f.resolve().parts[-2:]): read(f) for f in folders}
    (HERE / "expect.json").write_text(json.dumps(expect, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
