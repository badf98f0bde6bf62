"""An independent implementation of docs/sampler.md. Prints golden.json: python3 order.py > golden.json."""

import hashlib
import json
import struct
from typing import Any

WORD = (1 << 64) - 1
MUL_A = 0x6A09E667F3BCC909
MUL_B = 0xBB67AE8584CAA73B
GAMMA = 0x3C6EF372FE94F82B


def mix(x: int) -> int:
    x = (x ^ (x >> 32)) * MUL_A & WORD
    x = (x ^ (x >> 29)) * MUL_B & WORD
    return x ^ (x >> 32)


def source_key(seed: int, name: str) -> tuple[int, ...]:
    raw = name.encode()
    text = b"stepahead/order@1" + struct.pack("<QI", seed, len(raw)) + raw
    return struct.unpack("<4Q", hashlib.sha256(text).digest())


def permute(x: int, n: int, key: tuple[int, ...], epoch: int, use: int) -> int:
    width = (n - 1).bit_length()
    low_bits = (width + 1) // 2
    e = mix((mix(key[0] ^ epoch) + use) & WORD)
    keys = [mix(((e ^ key[i % 4]) + i * GAMMA) & WORD) for i in range(32 if width <= 12 else 8)]
    low_mask, high_mask = (1 << low_bits) - 1, (1 << (width - low_bits)) - 1

    def f(half: int, round_key: int) -> int:
        y = (half ^ round_key) * MUL_A & WORD
        return ((y ^ (y >> 32)) * MUL_B & WORD) >> 32

    while True:
        low, high = x & low_mask, x >> low_bits
        for i, k in enumerate(keys):
            if i % 2 == 0:
                high ^= f(low, k) & high_mask
            else:
                low ^= f(high, k) & low_mask
        x = high << low_bits | low
        if x < n:
            return x


class Order:
    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.n: int = spec["sources"][0]["samples"]
        self.batch: int = spec["global_batch"]
        self.key = source_key(spec["seed"], spec["sources"][0]["name"])
        self.steps: int = self.n // self.batch if spec["last"] == "drop" else -(-self.n // self.batch)

    def sample(self, step: int, position: int) -> int:
        place = (step % self.steps * self.batch + position) % self.n
        if self.spec["shuffle"] == "none":
            return place
        return permute(place, self.n, self.key, step // self.steps, 0)

    def substitute(self, step: int, position: int, attempt: int) -> int:
        bad = self.sample(step, position)
        if attempt == 0 or self.n == 1:
            return bad
        place = step % self.steps * self.batch + position
        away = 1 + permute((attempt - 1) % (self.n - 1), self.n - 1, self.key, step // self.steps, place + 1)
        return (bad + away) % self.n


def case(samples: int, batch: int, steps: list[int], **other: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"spec": 1, "seed": 7, "global_batch": batch, "shuffle": "full", "last": "drop"}
    spec["sources"] = [{"name": other.pop("name", ""), "samples": samples}]
    spec.update(other)
    order = Order(spec)
    canonical = json.dumps(spec, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    ask = [(s, p, a) for s in steps[:2] for p in {0, batch - 1} for a in (1, 2, 3)]
    return {
        "canonical": canonical,
        "digest": hashlib.sha256(canonical.encode()).hexdigest(),
        "steps_per_epoch": order.steps,
        "steps": [
            {"step": s, "epoch": s // order.steps, "samples": [order.sample(s, p) for p in range(batch)]} for s in steps
        ],
        "substitutes": [
            {"step": s, "position": p, "attempt": a, "sample": order.substitute(s, p, a)} for s, p, a in sorted(ask)
        ],
    }


CASES = [
    case(1, 1, [0, 1, 2]),
    case(2, 2, [0, 1, 2, 3]),
    case(3, 3, [0, 1, 2, 3]),
    case(10, 4, [0, 1, 2, 3, 4, 5], last="pad"),
    case(10, 4, [0, 1, 2, 3, 4, 5]),
    case(10, 4, [0, 2, 3], shuffle="none", last="pad"),
    case(100, 20, [0, 4, 5], name='caf\u00e9 "1"\\'),
    case(4096, 8, [0, 511, 512]),
    case(4097, 8, [0, 511, 512]),
    case(65537, 8, [0, 8191, 8192], seed=0),
    case(1 << 20, 8, [0, 1, 1_000_000], seed=(1 << 64) - 1),
    case((1 << 20) + 1, 8, [0, 1, 1_000_000], name="web"),
    case(10**12, 8, [0, 10**9, 1 << 40, (1 << 63) - 1]),
    case((1 << 40) + 1, 8, [0, 10**9, 1 << 40]),
    case(1 << 62, 2, [0, (1 << 61) - 1, 1 << 61, (1 << 63) - 1]),
]

if __name__ == "__main__":
    print("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in CASES) + "\n]")
