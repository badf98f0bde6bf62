"""Reads every part of a dataset and checks all that docs/format.md says; prints what it found as JSON.

It is written from that page alone and shares no code with the Go package. pyarrow parses the indexes.
"""

import collections
import hashlib
import json
import os
import struct
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

TABLE = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    TABLE.append(n)

DTYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float64", 7: "float32", 8: "uint16"}
WIDTHS = {"uint8": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "float32": 4, "int64": 8, "float64": 8}

Row = dict[str, Any]


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def content(path: str) -> bytes:
    with open(path, "rb") as f:
        return f.read()


def arrow_rows(path: str, bin_: Row, form: bytes) -> list[Row]:
    """The rows of an Arrow index."""
    index = content(path)
    assert hashlib.sha256(index).hexdigest() == bin_["index_sha256"]
    reader = pa.ipc.open_file(pa.py_buffer(index))
    assert reader.schema.metadata == {b"stepahead.format": form, b"stepahead.uuid": bin_["uuid"].encode()}
    for i in range(reader.num_record_batches - 1):
        assert reader.get_batch(i).num_rows == 65536
    return reader.read_all().to_pylist()


def token_rows(path: str, bin_: Row, fields: list[Row]) -> list[Row]:
    """The sequences of an .idx, as rows."""
    index = content(path)
    assert hashlib.sha256(index).hexdigest() == bin_["index_sha256"]
    magic, version, code, count, entries = struct.unpack_from("<9sQBQQ", index)
    assert magic == b"MMIDIDX\x00\x00" and version == 1 and count == bin_["samples"]
    lengths = struct.unpack_from(f"<{count}i", index, 34)
    pointers = struct.unpack_from(f"<{count}q", index, 34 + 4 * count)
    end = 34 + 12 * count + 8 * entries
    assert fields[0] == {"name": "tokens", "kind": "tokens", "dtype": DTYPES[code]}
    modes = struct.unpack_from(f"<{count}b", index, end) if len(fields) > 1 else ()
    assert len(index) == end + len(modes)
    width = WIDTHS[DTYPES[code]]
    return [
        {
            "key": str(i),
            "tokens.offset": p,
            "tokens.length": n * width,
            "tokens.crc32c": None,
            "tokens.type": "application/octet-stream",
        }
        for i, (p, n) in enumerate(zip(pointers, lengths, strict=True))
    ]


def added_sums(folder: str, m: Row, names: list[str], identity: bytes) -> Iterator[int | None]:
    """The sums in dataset.sums, part by part; endless None where there is no such file, or it is another dataset's."""
    path = os.path.join(folder, "dataset.sums")
    data = content(path) if os.path.exists(path) else b""
    if data[32:64] != identity:
        while True:
            yield None
    samples = sum(b["samples"] for b in m["bins"])
    assert struct.unpack("<8sIIQ8s", data[:32]) == (b"SASUM\n\x1a\n", 1, len(names), samples, bytes(8))
    at = 64
    for b in m["bins"]:
        end = at + 4 * len(names) * b["samples"]
        assert struct.unpack_from("<I", data, end) == (crc32c(data[at:end]),)
        yield from struct.unpack_from(f"<{(end - at) // 4}I", data, at)
        at = end + 4
    assert at == len(data)


class Packed:
    """A bin that was packed: a header, then parts that fill it in order."""

    def __init__(self, folder: str, bin_: Row):
        self.data = content(os.path.join(folder, bin_["name"]) + ".bin")
        head = struct.unpack("<8sI16sI32s", self.data[:64])
        assert head == (b"SABIN\n\x1a\n", 1, bytes.fromhex(bin_["uuid"]), 64, bytes(32))
        assert len(self.data) == bin_["bytes"]
        self.bin, self.uuid, self.end = bin_, hashlib.sha256(), 64

    def part(self, row: Row, name: str) -> bytes:
        off, length = row[name + ".offset"], row[name + ".length"]
        assert off % 64 == 0 and off >= self.end and not any(self.data[self.end : off])
        self.end = off + length
        key = row["key"].encode()
        self.uuid.update(struct.pack("<I", len(key)) + key)
        self.uuid.update(struct.pack("<I", len(name.encode())) + name.encode())
        self.uuid.update(struct.pack("<QI", length, row[name + ".crc32c"]))
        return self.data[off : off + length]

    def finish(self) -> None:
        assert self.end == len(self.data) and self.uuid.digest()[:16].hex() == self.bin["uuid"]


class Foreign:
    """A bin that another program wrote: one file, or a folder of files."""

    def __init__(self, folder: str, bin_: Row):
        self.path, self.bin = os.path.join(folder, bin_["foreign"]["path"]), bin_
        self.many, self.total = bin_["foreign"]["container"] == "folder", 0
        if not self.many:
            self.data = content(self.path)
            assert len(self.data) == bin_["bytes"] and bin_["foreign"]["identity"]

    def part(self, row: Row, name: str) -> bytes:
        off, length = row[name + ".offset"], row[name + ".length"]
        data = self.data if not self.many else content(os.path.join(self.path, row[name + ".file"]))
        assert not self.many or row[name + ".identity"]
        self.total += length
        return data[off : off + length]

    def finish(self) -> None:
        assert not self.many or self.total == self.bin["bytes"]


def rows_of(folder: str, bin_: Row, fields: list[Row]) -> list[Row]:
    foreign = bin_.get("foreign")
    if foreign and foreign["container"] == "megatron":
        return token_rows(os.path.join(folder, foreign["path"].removesuffix(".bin") + ".idx"), bin_, fields)
    return arrow_rows(os.path.join(folder, bin_["name"] + ".arrow"), bin_, b"2" if foreign else b"1")


def read(folder: str) -> dict[str, Any]:
    text = content(os.path.join(folder, "dataset.json"))
    m = json.loads(text)
    canonical = json.dumps(m, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    new = any("foreign" in b for b in m["bins"]) or any(f["kind"] == "tokens" for f in m["fields"])
    assert m["format"] == (2 if new else 1) and canonical == text
    names = [f["name"] for f in m["fields"] if f["kind"] in ("media", "tokens")]
    identity = hashlib.sha256(canonical)
    sums = added_sums(folder, m, names, identity.digest())
    out: dict[str, Any] = {"identity": identity.hexdigest(), "samples": 0, "parts": 0, "bytes": 0, "summed": 0}
    types: collections.Counter[str] = collections.Counter()
    labels: collections.Counter[str] = collections.Counter()
    last = b""
    for b in m["bins"]:
        rows = rows_of(folder, b, m["fields"])
        assert len(rows) == b["samples"]
        data: Packed | Foreign = Foreign(folder, b) if "foreign" in b else Packed(folder, b)
        for row in rows:
            if "foreign" not in b:
                assert row["key"].encode() > last
                last = row["key"].encode()
            for name in names:
                part, crc, added = data.part(row, name), row[name + ".crc32c"], next(sums)
                assert len(part) == row[name + ".length"]
                for want in (crc, added):
                    assert want is None or crc32c(part) == want, (row["key"], name)
                types[row[name + ".type"]] += 1
                out["parts"] += 1
                out["bytes"] += len(part)
                out["summed"] += crc is not None or added is not None
            if m["classes"]:
                labels[m["classes"][row["label"]]] += 1
            out["samples"] += 1
        data.finish()
    return out | {"types": types, "labels": labels}


if __name__ == "__main__":
    print(json.dumps(read(sys.argv[1])))
