"""Reads every part of a dataset and checks all that docs/format.md says; prints what it found as JSON.

It is written from that page alone and shares no code with the Go package. pyarrow parses the indexes.
"""

import collections
import hashlib
import json
import os
import struct
import sys
from typing import Any

import pyarrow as pa

TABLE = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    TABLE.append(n)


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def read(folder: str) -> dict[str, Any]:
    with open(os.path.join(folder, "dataset.json"), "rb") as f:
        text = f.read()
    m = json.loads(text)
    canonical = json.dumps(m, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert m["format"] == 1 and canonical == text
    media = [f["name"] for f in m["fields"] if f["kind"] == "media"]
    out: dict[str, Any] = {"identity": hashlib.sha256(canonical).hexdigest(), "samples": 0, "parts": 0, "bytes": 0}
    types: collections.Counter[str] = collections.Counter()
    labels: collections.Counter[str] = collections.Counter()
    last = b""
    for b in m["bins"]:
        path = os.path.join(folder, b["name"])
        with open(path + ".arrow", "rb") as f:
            index = f.read()
        assert hashlib.sha256(index).hexdigest() == b["index_sha256"]
        reader = pa.ipc.open_file(pa.py_buffer(index))
        assert reader.schema.metadata == {b"stepahead.format": b"1", b"stepahead.uuid": b["uuid"].encode()}
        for i in range(reader.num_record_batches - 1):
            assert reader.get_batch(i).num_rows == 65536
        with open(path + ".bin", "rb") as f:
            data = f.read()
        head = struct.unpack("<8sI16sI32s", data[:64])
        assert head == (b"SABIN\n\x1a\n", 1, bytes.fromhex(b["uuid"]), 64, bytes(32))
        assert len(data) == b["bytes"]
        uuid, end = hashlib.sha256(), 64
        for row in reader.read_all().to_pylist():
            key = row["key"].encode()
            assert key > last
            last = key
            for name in media:
                off, length, crc = row[name + ".offset"], row[name + ".length"], row[name + ".crc32c"]
                part = data[off : off + length]
                assert off % 64 == 0 and off >= end and not any(data[end:off])
                assert len(part) == length and crc32c(part) == crc, (key, name)
                end = off + length
                uuid.update(struct.pack("<I", len(key)) + key)
                uuid.update(struct.pack("<I", len(name.encode())) + name.encode() + struct.pack("<QI", length, crc))
                types[row[name + ".type"]] += 1
                out["parts"] += 1
                out["bytes"] += length
            if m["classes"]:
                labels[m["classes"][row["label"]]] += 1
            out["samples"] += 1
        assert end == len(data) and uuid.digest()[:16].hex() == b["uuid"]
    return out | {"types": types, "labels": labels}


if __name__ == "__main__":
    print(json.dumps(read(sys.argv[1])))
