"""Writes made.tfrecord, and expect.json: what a reading of TFRecord files by the format's description alone gives.

    python binfmt/foreign/tfrecord/testdata/make.py [FILE...]

Other files are read too, and go into expect.json under their last name. Only the standard library is used.
"""

from __future__ import annotations

import json
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).parent


def crc32c(data: bytes) -> int:
    """CRC-32 with the Castagnoli polynomial, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


def read(path: pathlib.Path) -> list[dict[str, object]]:
    records = []
    with open(path, "rb") as file:
        while head := file.read(12):
            length, check = struct.unpack("<QI", head)
            assert check == masked(head[:8])
            data = file.read(length)
            assert struct.unpack("<I", file.read(4)) == (masked(data),)
            records.append({"offset": file.tell() - 4 - length, "crc32c": crc32c(data), "data": data.hex()})
    return records


def main() -> None:
    with open(HERE / "made.tfrecord", "wb") as out:
        for n in (0, 1, 2, 1000, 5, 0):
            data = bytes(i * 7 % 256 for i in range(n))
            head = struct.pack("<Q", n)
            out.write(head + struct.pack("<I", masked(head)) + data + struct.pack("<I", masked(data)))
    paths = [HERE / "made.tfrecord", *map(pathlib.Path, sys.argv[1:])]
    (HERE / "expect.json").write_text(json.dumps({p.name: read(p) for p in paths}, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
