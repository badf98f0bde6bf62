"""An independent implementation of docs/tokens.md. Prints golden.json: python3 tokens.py > golden.json."""

import hashlib
import json
import pathlib
import struct
import sys
from typing import Any

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "testdata"))
from order import permute

Piece = list[int]  # sequence, first token, tokens


def key(seed: int, source: str) -> tuple[int, ...]:
    raw = source.encode()
    text = b"stepahead/tokens@1" + struct.pack("<QI", seed, len(raw)) + raw
    return struct.unpack("<4Q", hashlib.sha256(text).digest())


def streams(case: dict[str, Any], epoch: int) -> list[list[Piece]]:
    lengths, length = case["lengths"], case["sequence_length"]
    order = list(range(len(lengths)))
    if case["packing"] == "chunk" and case["shuffle"]:
        order = [permute(i, len(lengths), key(case["seed"], case["source"]), epoch, 0) for i in order]
    tokens = [(i, t) for i in order for t in range(lengths[i])]
    samples = [tokens[w * length : (w + 1) * length + 1] for w in range((len(tokens) - 1) // length)]
    return [join(sample) for sample in samples]


def join(tokens: list[tuple[int, int]]) -> list[Piece]:
    pieces: list[Piece] = []
    for sequence, token in tokens:
        if not pieces or pieces[-1][0] != sequence:
            pieces.append([sequence, token, 0])
        pieces[-1][2] += 1
    return pieces


def packs(case: dict[str, Any], epoch: int) -> list[list[Piece]]:
    lengths, length = case["lengths"], case["sequence_length"]
    fulls = [[[i, k * length, length]] for i, n in enumerate(lengths) for k in range(n // length)]
    ends = sorted((i for i, n in enumerate(lengths) if n % length), key=lambda i: (-(lengths[i] % length), i))
    rooms: list[int] = []
    since: list[int] = []  # when each pack got its room
    members: list[list[int]] = []
    for now, i in enumerate(ends):
        n = lengths[i] % length
        fitting = [p for p, room in enumerate(rooms) if room >= n]
        if fitting:
            pack = min(fitting, key=lambda p: (rooms[p], -since[p]))
        else:
            pack = len(rooms)
            rooms.append(length)
            since.append(now)
            members.append([])
        rooms[pack] -= n
        since[pack] = now
        members[pack].append(i)

    def exchanged(i: int) -> int:
        n = lengths[i] % length
        equal = [j for j in ends if lengths[j] % length == n]
        if not case["shuffle"]:
            return i
        return equal[permute(equal.index(i), len(equal), key(case["seed"], case["source"]), epoch, n)]

    def piece(i: int) -> Piece:
        return [i, lengths[i] // length * length, lengths[i] % length]

    return fulls + [[piece(exchanged(i)) for i in pack] for pack in members]


def main() -> None:
    cases = []
    sequences = [[5, 3, 8, 2], [0, 5, 0, 0, 7], [(i * i * 7 + 3 * i) % 23 for i in range(24)], [4] * 9 + [1] * 9 + [30]]
    for lengths in sequences:
        for packing in ("windows", "chunk", "best-fit"):
            for shuffle, seed, source in ((False, 0, ""), (True, 7, ""), (True, 2**64 - 1, "web")):
                case: dict[str, Any] = {"lengths": lengths, "sequence_length": 6, "packing": packing}
                case |= {"shuffle": shuffle, "seed": seed, "source": source}
                make = packs if packing == "best-fit" else streams
                cases.append(case | {"epochs": [make(case, epoch) for epoch in range(2)]})
    print("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]")


if __name__ == "__main__":
    main()
