"""What pyarrow reads from Parquet files, for tests; and files that it writes for them.

    peer.py read < {"file": ["column", ...], ...} > {"file": [{"column": "value", ...}, ...] or "error", ...}
    peer.py make FOLDER PICTURE...

A value is a letter for its kind and its bytes in hexadecimal digits, or its text. What is null, not a number, or beyond 2^63 is left out.
"""

from __future__ import annotations

import json
import math
import pathlib
import struct
import sys
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def value(v: Any) -> str | None:
    if isinstance(v, dict):
        return value(v["bytes"])
    if isinstance(v, bytes):
        return "b" + v.hex()
    if isinstance(v, bool):
        return f"t{v}".lower()
    if isinstance(v, int):
        return f"i{v}" if v < 2**63 else None
    if v is None or not math.isfinite(v):
        return None
    return "f" + struct.pack("<d", v).hex()


def column(table: pa.Table, name: str) -> list[str | None]:
    data = table.column(name)
    if pa.types.is_dictionary(data.type):
        data = data.cast(data.type.value_type)
    if pa.types.is_string(data.type) or pa.types.is_large_string(data.type):
        data = data.cast(pa.large_binary())
        return [None if v is None else "s" + v.hex() for v in data.to_pylist()]
    return [value(v) for v in data.to_pylist()]


def read(path: str, columns: list[str]) -> list[dict[str, str]] | str:
    try:
        table = pq.ParquetFile(path).read(columns)
        table.validate(full=True)
        values = [column(table, name) for name in columns]
    except (pa.ArrowException, OSError, ValueError) as e:
        return f"{type(e).__name__}: {e}"
    rows = zip(*values, strict=True)
    return [{n: v for n, v in zip(columns, row, strict=True) if v is not None} for row in rows]


def make(folder: pathlib.Path, pictures: list[str]) -> None:
    """Files as Hugging Face's datasets writes them: pictures with class labels, in small row groups, of every codec and encoding."""
    files = [pathlib.Path(p).read_bytes() for p in pictures]
    n = len(files)
    image = pa.array([{"bytes": b, "path": f"{i}.jpg"} for i, b in enumerate(files)])
    features = {"image": {"_type": "Image"}, "label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}
    table = pa.table(
        {
            "image": image,
            "label": pa.array([i % 2 for i in range(n)], pa.int64()),
            "caption": [f"picture {i}" for i in range(n)],
            "score": pa.array([i / 3 for i in range(n)], pa.float32()),
            "half": pa.array([i / 4 for i in range(n)], pa.float16()),
            "small": pa.array([i % 100 - 50 for i in range(n)], pa.int8()),
            "count": pa.array([2**32 - 1 - i for i in range(n)], pa.uint32()),
            "big": pa.array([2**63 - 1 - i for i in range(n)], pa.uint64()),
            "ok": [i % 3 == 0 for i in range(n)],
            "id": pa.array([i.to_bytes(16, "big") for i in range(n)], pa.binary(16)),
            "empty": pa.array([b""] * n),
        }
    ).replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    for codec in ("none", "snappy", "gzip", "brotli", "zstd", "lz4"):
        for pages in ("1.0", "2.0"):
            path = folder / f"{codec}-{pages}.parquet"
            pq.write_table(
                table,
                path,
                row_group_size=n // 2,
                compression=codec,
                data_page_version=pages,
                use_dictionary=codec != "zstd",
            )
    one = pa.table({"image": pa.array([{"bytes": b"".join(files) * 3, "path": "x"}] * 4), "n": list(range(4))})
    pq.write_table(one, folder / "long-pages.parquet", compression="zstd", use_dictionary=False, data_page_size=1 << 30)


def main() -> None:
    if sys.argv[1] == "make":
        make(pathlib.Path(sys.argv[2]), sys.argv[3:])
    else:
        json.dump({path: read(path, columns) for path, columns in json.load(sys.stdin).items()}, sys.stdout)


if __name__ == "__main__":
    main()
