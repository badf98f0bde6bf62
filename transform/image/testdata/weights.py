"""Pillow's resampling weights, computed a second time with the C library's sine: weights.json holds their digests.

    python weights.py > weights.json

For every filter, N scalings drawn by a linear congruential generator from state 1 (state = state * 1664525 +
1013904223 modulo 2^32; a draw of n values is (state >> 8) % n): inputs, outputs, and a box in eighths of an input.
Hashed are, for each output, i32le first input, number of inputs and weights with 22 fractional bits.
"""

import hashlib
import json
import math
import struct
from collections.abc import Callable, Iterator

SCALINGS = {"box": 1500, "bilinear": 1500, "bicubic": 1500, "lanczos": 4000}


def box(x: float) -> float:
    return 1.0 if -0.5 < x <= 0.5 else 0.0


def bilinear(x: float) -> float:
    return max(0.0, 1.0 - abs(x))


def bicubic(x: float) -> float:
    a, x = -0.5, abs(x)
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * a if x < 2 else 0.0


def sinc(x: float) -> float:
    return math.sin(x * math.pi) / (x * math.pi) if x else 1.0


def lanczos(x: float) -> float:
    return sinc(x) * sinc(x / 3) if -3 <= x < 3 else 0.0


KERNELS: dict[str, tuple[float, Callable[[float], float]]] = {
    "box": (0.5, box),
    "bilinear": (1, bilinear),
    "bicubic": (2, bicubic),
    "lanczos": (3, lanczos),
}


def draws() -> Iterator[tuple[int, int, float, float]]:
    state = 1

    def draw(n: int) -> int:
        nonlocal state
        state = (state * 1664525 + 1013904223) % 2**32
        return (state >> 8) % n

    while True:
        n, m = 1 + draw(500), 1 + draw(300)
        start = draw(4 * n)
        end = start + 1 + draw(8 * n - start)
        yield (n, m, 0.0, float(n)) if draw(2) else (n, m, start / 8, end / 8)


def weights(kind: str, n: int, m: int, start: float, end: float) -> bytes:
    support, kernel = KERNELS[kind]
    scale = (end - start) / m
    stretch = max(scale, 1.0)
    support, inverse = support * stretch, 1 / stretch
    out = bytearray()
    for o in range(m):
        center = start + (o + 0.5) * scale
        lo, hi = max(0, int(center - support + 0.5)), min(n, int(center + support + 0.5))
        w = [kernel((x - center + 0.5) * inverse) for x in range(lo, hi)]
        total = 0.0
        for v in w:
            total += v
        fixed = [v / total * (1 << 22) if total else v * (1 << 22) for v in w]
        whole = [int(v + (-0.5 if v < 0 else 0.5)) for v in fixed]
        out += struct.pack(f"<{2 + len(whole)}i", lo, len(whole), *whole)
    return bytes(out)


def main() -> None:
    answer = {}
    for kind, count in SCALINGS.items():
        h, some = hashlib.sha256(), draws()
        for _ in range(count):
            h.update(weights(kind, *next(some)))
        answer[kind] = {"scalings": count, "sha256": h.hexdigest()}
    print(json.dumps(answer, indent=2))


main()
