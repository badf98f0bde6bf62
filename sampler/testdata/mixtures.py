"""An independent implementation of docs/sampler.md for streams and block shuffle, on top of order.py.

Prints mixtures.json: python3 mixtures.py > mixtures.json.
"""

import hashlib
import json
import math
from typing import Any

from order import permute, source_key

Tree = tuple[int, Any, Any] | int  # (ratio, left, right), or a source


def temper(weights: list[float], t: float) -> list[float]:
    roots = [math.isqrt(2**125)]
    while len(roots) < 40:
        roots.append(math.isqrt(roots[-1] << 62))
    powers: dict[int, int] = {}
    for i, w in enumerate(weights):
        if w > 0:
            f, e = math.frexp(w)
            x, y = int(f * 2**63), e - 1
            for _ in range(40):
                x = x * x >> 62
                y <<= 1
                if x >= 2**63:
                    x >>= 1
                    y |= 1
            powers[i] = math.floor(y / t)
    top = max(z >> 40 for z in powers.values())
    out = [0.0] * len(weights)
    for i, z in powers.items():
        r = 2**62
        for k, root in enumerate(roots, 1):
            if z >> (40 - k) & 1:
                r = r * root >> 62
        out[i] = math.ldexp(float(r), (z >> 40) - top - 62)
    return out


def shares(weights: list[float], temperature: float) -> dict[int, int]:
    tempered = weights if temperature == 1 else temper(weights, temperature)
    total = 0.0
    for w in tempered:
        total += w
    return {i: max(1, int(tempered[i] / total * 2.0**62)) for i, w in enumerate(weights) if w > 0}


def plant(share: dict[int, int]) -> Tree:
    """The tree over sources, given as a dict from source to share in the order of the list."""
    order = sorted(share, key=lambda i: (-share[i], i))

    def grow(members: list[int]) -> Tree:
        if len(members) == 1:
            return members[0]
        sides: tuple[list[int], list[int]] = ([], [])
        sums = [0, 0]
        for i in members:
            lighter = 0 if sums[0] <= sums[1] else 1
            sides[lighter].append(i)
            sums[lighter] += share[i]
        return ((sums[0] << 64) // sum(sums), grow(sides[0]), grow(sides[1]))

    return grow(order)


def to_left(m: int, ratio: int) -> int:
    return (m * ratio + 2**63) >> 64


def walk(tree: Tree, m: int) -> tuple[int, int]:
    while not isinstance(tree, int):
        ratio, left, right = tree
        before = to_left(m, ratio)
        if to_left(m + 1, ratio) > before:
            tree, m = left, before
        else:
            tree, m = right, m - before
    return tree, m


def count(tree: Tree, m: int) -> dict[int, int]:
    if isinstance(tree, int):
        return {tree: m}
    ratio, left, right = tree
    return count(left, to_left(m, ratio)) | count(right, m - to_left(m, ratio))


class Source:
    def __init__(self, spec: dict[str, Any], source: dict[str, Any]) -> None:
        self.n: int = source["samples"]
        self.key = source_key(spec["seed"], source["name"])
        self.shuffle: str = spec["shuffle"]
        self.chunk, self.window = min(spec.get("chunk", 1), self.n), spec.get("window", 1)

    def sample(self, epoch: int, place: int) -> int:
        place %= self.n  # padding
        if self.shuffle == "none":
            return place
        if self.shuffle == "full":
            return permute(place, self.n, self.key, epoch, 0)
        # Chunks in a line, as a list of (first sample, length): the tests' sources are small.
        whole, rest = divmod(self.n, self.chunk)
        line = [(permute(k, whole, self.key, epoch, 2**63) * self.chunk, self.chunk) for k in range(whole)]
        if rest:
            line.insert(permute(0, whole + 1, self.key, epoch, 2**64 - 1), (whole * self.chunk, rest))
        start = 0
        for w in range(0, len(line), self.window):
            size = sum(length for _, length in line[w : w + self.window])
            if place < start + size:
                place = permute(place - start, size, self.key, epoch, 2**63 + 1 + w // self.window)
                for first, length in line[w : w + self.window]:
                    if place < length:
                        return first + place
                    place -= length
            start += size
        raise ValueError("no such place")

    def substitute(self, epoch: int, place: int, attempt: int) -> int:
        s = self.sample(epoch, place)
        if self.n == 1:
            return s
        return (s + 1 + permute((attempt - 1) % (self.n - 1), self.n - 1, self.key, epoch, place + 1)) % self.n


class Stream:
    def __init__(self, spec: dict[str, Any]) -> None:
        listed = spec["sources"]
        self.sources = [Source(spec, s) for s in listed]
        weighted = any("weight" in s for s in listed)
        natural = [s["weight"] if weighted else float(s["samples"]) * s.get("upsample", 1.0) for s in listed]
        self.limits = [s["samples"] * s["max_epochs"] if "max_epochs" in s else None for s in listed]
        self.paces = [(0, 0, int(spec["global_batch"]))]  # step, position, batch
        self.spans: list[tuple[int, Tree, list[int]]] = []  # position, tree, counts before
        self.end: int | None = None
        self.temperature = float(spec.get("temperature", 1))
        epoch = 0.0
        for s, w in zip(listed, natural, strict=True):
            if w > 0:
                epoch += float(s["samples"]) * s.get("upsample", 1.0)
        self.epoch_steps = int(spec.get("epoch_steps") or max(1, int(epoch / self.paces[0][2])))
        self.lay_out(spec, natural)

    def lay_out(self, spec: dict[str, Any], weights: list[float]) -> None:
        weights, position, counts = list(weights), 0, [0] * len(self.sources)
        for change in [*spec.get("changes", []), None]:
            until = None
            if change:
                step, at, batch = self.paces[-1]
                if "tokens" in change:
                    per = batch * spec["sample_tokens"]
                    k = step + -(-(change["tokens"] - at * spec["sample_tokens"]) // per)
                else:
                    k = change["step"]
                until = at + (k - step) * batch
                self.paces.append((k, until, change.get("global_batch", batch)))
            while until is None or position < until:
                live = [0.0 if self.used(i, counts) else w for i, w in enumerate(weights)]
                if not any(live):
                    self.end = position
                    return
                tree = plant(shares(live, self.temperature))
                self.spans.append((position, tree, list(counts)))
                length = self.length(tree, counts, None if until is None else until - position)
                if length is None:
                    return
                for i, c in count(tree, length).items():
                    counts[i] += c
                position += length
            for name, w in (change or {}).get("weights", {}).items():
                weights[[s["name"] for s in spec["sources"]].index(name)] = w

    def used(self, i: int, counts: list[int]) -> bool:
        limit = self.limits[i]
        return limit is not None and counts[i] >= limit

    def length(self, tree: Tree, counts: list[int], most: int | None) -> int | None:
        """The samples until `most` or until a source is used up, found by halving."""

        def spent(m: int) -> bool:
            return any(self.used(i, [*[0] * i, counts[i] + c]) for i, c in count(tree, m).items())

        high = most or 2**62
        if not spent(high):
            return most
        low = 0
        while high - low > 1:
            mid = (low + high) // 2
            low, high = (low, mid) if spent(mid) else (mid, high)
        return high

    def find(self, step: int, position: int) -> tuple[int, int, int]:
        first, at, batch = self.pace(step)
        n = at + (step - first) * batch + position
        start, tree, counts = next(s for s in reversed(self.spans) if s[0] <= n)
        i, m = walk(tree, n - start)
        epoch, place = divmod(counts[i] + m, self.sources[i].n)
        return i, epoch, place

    def pace(self, step: int) -> tuple[int, int, int]:
        return next(p for p in reversed(self.paces) if p[0] <= step)

    def steps(self) -> int | None:
        step, at, batch = self.paces[-1]
        return None if self.end is None else step + (self.end - at) // batch


class Plain(Stream):
    """One source with drop or pad, for block shuffle."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.sources = [Source(spec, spec["sources"][0])]
        self.size, n, self.end = int(spec["global_batch"]), self.sources[0].n, None
        self.paces = [(0, 0, self.size)]
        self.epoch_steps = n // self.size if spec["last"] == "drop" else -(-n // self.size)

    def find(self, step: int, position: int) -> tuple[int, int, int]:
        return 0, step // self.epoch_steps, step % self.epoch_steps * self.size + position


def number(x: float) -> str:
    """As RFC 8785 writes it: Python's digits, JavaScript's choice of notation."""
    if x == int(x) and abs(x) < 1e21:
        return str(int(x))
    digits, _, exponent = repr(x).partition("e")
    if not exponent and abs(x) >= 1e-6:
        return digits
    if abs(x) >= 1e-6:
        return f"{x:f}".rstrip("0")
    if not exponent:
        digits, _, exponent = f"{x:e}".partition("e")
        digits = digits.rstrip("0").rstrip(".")
    return f"{digits}e{int(exponent):+d}"


def canonical(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{canonical(k)}:{canonical(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return number(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def case(sources: list[dict[str, Any]], batch: int, steps: list[int], **other: Any) -> dict[str, Any]:
    last = "drop" if len(sources) == 1 and other.get("shuffle") == "block" else "carry"
    spec: dict[str, Any] = {"spec": 2, "seed": 7, "global_batch": batch, "shuffle": "full", "last": last, **other}
    spec["sources"] = sources
    order = Stream(spec) if spec["last"] == "carry" else Plain(spec)
    text = canonical(spec)
    out: dict[str, Any] = {"canonical": text, "digest": hashlib.sha256(text.encode()).hexdigest()}
    out |= {"steps_per_epoch": order.epoch_steps, "run": order.steps(), "steps": [], "substitutes": []}
    for s in steps:
        refs = [order.find(s, p) for p in range(order.pace(s)[2])]
        samples = [[i, e, order.sources[i].sample(e, q)] for i, e, q in refs]
        out["steps"].append({"step": s, "epoch": s // order.epoch_steps, "refs": samples})
        i, e, q = refs[-1]
        for a in (1, 2):
            by = order.sources[i].substitute(e, q, a)
            out["substitutes"].append({"step": s, "position": len(refs) - 1, "attempt": a, "sample": by})
    return out


def sources(*samples: int, **lists: list[Any]) -> list[dict[str, Any]]:
    rows = [{"name": f"s{i}", "samples": n} for i, n in enumerate(samples)]
    for key, values in lists.items():
        for row, v in zip(rows, values, strict=True):
            row |= {} if v is None else {key: v}
    return rows


ZIPF = [1 / (1 + i) for i in range(32)]
CHANGES = [
    {"step": 10, "weights": {"s2": 0.25}},
    {"step": 20, "global_batch": 4},
    {"step": 30, "global_batch": 12, "weights": {"s0": 0, "s1": 1.25e-3}},
]
BY_TOKENS = [{"tokens": 100_000, "global_batch": 8}, {"tokens": 200_000, "weights": {"s1": 1}}]
CASES = [
    case(sources(1000, 10, 3), 16, [0, 1, 62, 63, 64, 10**9]),
    case(sources(100, 100, weight=[0.7, 0.3]), 20, [0, 1, 4, 5, 10**12]),
    case(sources(1000, 1, 7, weight=[1, 1, 1e-7]), 12, [0, 1, 2, 10**6]),
    case(sources(70, 30, upsample=[1.5, 0.3]), 8, [0, 7, 13, 14]),
    case(sources(10**12, 10**6, 5), 9, [0, 3, 10**10], temperature=2.5),
    case(sources(10**9, 3, 40, 5000, weight=[3e17, 2.5, 1e-18, 77]), 10, [0, 10**8], temperature=0.7),
    case(sources(*[1000 + 77 * i for i in range(32)], weight=ZIPF), 24, [0, 1, 1000, 10**10], shuffle="none"),
    case(sources(50, 20, 10, max_epochs=[1, 2, None]), 6, [0, 10, 14, 15, 16, 17, 100]),
    case(sources(30, 20, 11, max_epochs=[1, 2, 3]), 10, [0, 5, 6, 7, 8, 9], epoch_steps=4),
    case(sources(100, 50, 20, weight=[0.5, 0.5, 0]), 8, [0, 9, 10, 11, 29, 30, 31, 10**6], changes=CHANGES),
    case(sources(300, 200), 4, [0, 12, 13, 14, 30], sample_tokens=2049, changes=BY_TOKENS),
    case([{"name": "", "samples": 10}], 4, [0, 2, 3, 10**15]),
    case([{"name": "one", "samples": 103}], 10, [0, 9, 10, 11], shuffle="block", chunk=8, window=3),
    case([{"name": "", "samples": 20}], 6, [0, 3, 4], shuffle="block", chunk=1024, window=32, last="pad"),
    case(sources(64, 33), 8, [0, 8, 9, 25], shuffle="block", chunk=5, window=2),
]

if __name__ == "__main__":
    print("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in CASES) + "\n]")
