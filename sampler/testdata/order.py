"""An independent implementation of docs/sampler.md. Of specs.json it makes golden.json: python3 order.py > golden.json."""

import functools
import hashlib
import json
import math
import operator
import pathlib
import struct
from decimal import Decimal
from typing import Any

Tree = tuple[int, Any, Any] | int  # (ratio, left, right), or a source
Place = tuple[int, int, int]  # source, source epoch, place in it

WORD = (1 << 64) - 1
MUL_A = 0x6A09E667F3BCC909
MUL_B = 0xBB67AE8584CAA73B
GAMMA = 0x3C6EF372FE94F82B


def mix(x: int) -> int:
    x = (x ^ (x >> 32)) * MUL_A & WORD
    x = (x ^ (x >> 29)) * MUL_B & WORD
    return x ^ (x >> 32)


def key_of(domain: bytes, seed: int, name: str) -> tuple[int, ...]:
    raw = name.encode()
    return struct.unpack("<4Q", hashlib.sha256(domain + struct.pack("<QI", seed, len(raw)) + raw).digest())


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
    total = add(tempered)
    return {i: max(1, int(tempered[i] / total * 2.0**62)) for i, w in enumerate(weights) if w > 0}


def add(values: list[float]) -> float:
    """The sum of doubles in their order: Python's own is more exact."""
    return functools.reduce(operator.add, values, 0.0)


def plant(share: dict[int, int]) -> Tree:
    """The tree over sources, given as a dict from source to share in the order of the list."""

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

    return grow(sorted(share, key=lambda i: (-share[i], i)))


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
        self.key = key_of(b"stepahead/order@1", spec["seed"], source["name"])
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
                return [first + x for first, length in line[w : w + self.window] for x in range(length)][place]
            start += size
        raise ValueError("no such place")

    def substitute(self, epoch: int, place: int, attempt: int) -> int:
        others = max(1, self.n - 1)
        away = 1 + permute((attempt - 1) % others, others, self.key, epoch, place + 1)
        return (self.sample(epoch, place) + away) % self.n


class Stream:
    def __init__(self, spec: dict[str, Any]) -> None:
        listed = spec["sources"]
        self.sources = [Source(spec, s) for s in listed]
        weighted = any("weight" in s for s in listed)
        weights = [float(s["weight"]) if weighted else float(s["samples"]) * s.get("upsample", 1.0) for s in listed]
        self.limits = [s["samples"] * s["max_epochs"] if "max_epochs" in s else math.inf for s in listed]
        self.paces = [(0, 0, int(spec["global_batch"]))]  # step, position, batch
        self.spans: list[tuple[int, Tree, list[int]]] = []  # position, tree, counts before
        self.end: int | None = None
        self.temperature = float(spec.get("temperature", 1))
        parts = [float(s["samples"]) * s.get("upsample", 1.0) for s, w in zip(listed, weights, strict=True) if w > 0]
        self.epoch_steps = int(spec.get("epoch_steps") or max(1, int(add(parts) / self.paces[0][2])))
        self.lay_out(spec, weights)

    def lay_out(self, spec: dict[str, Any], weights: list[float]) -> None:
        position, counts = 0, [0] * len(self.sources)
        for change in [*spec.get("changes", []), None]:
            until = None
            if change:
                step, at, batch = self.paces[-1]
                per = spec.get("sample_tokens", 1)
                k = change.get("step") or step + -(-(change["tokens"] - at * per) // (batch * per))
                until = at + (k - step) * batch
                self.paces.append((k, until, change.get("global_batch", batch)))
            while until is None or position < until:
                live = [w if counts[i] < self.limits[i] else 0.0 for i, w in enumerate(weights)]
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

    def length(self, tree: Tree, counts: list[int], most: int | None) -> int | None:
        """The samples until `most` or until a source is used up, found by halving."""

        def spent(m: int) -> bool:
            return any(counts[i] + c >= self.limits[i] for i, c in count(tree, m).items())

        low, high = 0, most or 2**62
        if not spent(high):
            return most
        while high - low > 1:
            mid = (low + high) // 2
            low, high = (low, mid) if spent(mid) else (mid, high)
        return high

    def find(self, step: int, position: int) -> Place:
        first, at, batch = self.pace(step)
        n = at + (step - first) * batch + position
        start, tree, counts = next(s for s in reversed(self.spans) if s[0] <= n)
        i, m = walk(tree, n - start)
        return i, *divmod(counts[i] + m, self.sources[i].n)

    def pace(self, step: int) -> tuple[int, int, int]:
        return next(p for p in reversed(self.paces) if p[0] <= step)

    def steps(self) -> int | None:
        step, at, batch = self.paces[-1]
        return None if self.end is None else step + (self.end - at) // batch


class Plain(Stream):
    def __init__(self, spec: dict[str, Any]) -> None:
        self.sources = [Source(spec, spec["sources"][0])]
        self.size, n, self.end = int(spec["global_batch"]), self.sources[0].n, None
        self.paces = [(0, 0, self.size)]
        self.epoch_steps = n // self.size if spec["last"] == "drop" else -(-n // self.size)

    def find(self, step: int, position: int) -> Place:
        return 0, step // self.epoch_steps, step % self.epoch_steps * self.size + position


def grouped(order: Stream, spec: dict[str, Any], lengths: list[list[int]], step: int) -> list[Place]:
    """The places of a step whose samples are grouped by length."""
    size, start, last = spec["group_by_length"]["steps"], step - step % order.epoch_steps, order.steps() or 2**63
    first = max(step - (step - start) % size, order.pace(step)[0])
    ends = [step - (step - start) % size + size, start + order.epoch_steps, last, *(p[0] for p in order.paces)]
    window = range(first, min(e for e in ends if e > step))
    batch = order.pace(step)[2]
    places = [order.find(s, p) for s in window for p in range(batch)]
    by_length = sorted((lengths[i][order.sources[i].sample(e, q)], x) for x, (i, e, q) in enumerate(places))
    key = key_of(b"stepahead/group-by-length@1", spec["seed"], "")
    b = permute(step - first, len(window), key, first, 0) * batch
    return [places[x] for x in sorted(x for _, x in by_length[b : b + batch])]


def canonical(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{canonical(k)}:{canonical(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return number(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def number(x: float) -> str:
    """As RFC 8785 writes it."""
    if x == int(x) and abs(x) < 1e21:
        return str(int(x))
    if abs(x) >= 1e-6:
        return format(Decimal(repr(x)), "f")
    digits, _, exponent = repr(x).partition("e")
    return f"{digits}e{int(exponent):+d}"


def vectors(spec: dict[str, Any], steps: list[int], lengths: list[list[int]] | None = None) -> dict[str, Any]:
    order = Stream(spec) if spec["last"] == "carry" else Plain(spec)
    text = canonical(spec)
    out: dict[str, Any] = {"canonical": text, "digest": hashlib.sha256(text.encode()).hexdigest()}
    out |= {"steps_per_epoch": order.epoch_steps, "run": order.steps(), "steps": [], "substitutes": []}
    for s in steps:
        places = [order.find(s, p) for p in range(order.pace(s)[2])]
        if lengths:
            out["lengths"], places = lengths, grouped(order, spec, lengths, s)
        refs = [[i, e, order.sources[i].sample(e, q)] for i, e, q in places]
        out["steps"].append({"step": s, "epoch": s // order.epoch_steps, "refs": refs})
        for p in sorted({0, len(places) - 1}):
            i, e, q = places[p]
            by = [order.sources[i].substitute(e, q, a) for a in (1, 2, 3)]
            out["substitutes"].append({"step": s, "position": p, "samples": by})
    return out


if __name__ == "__main__":
    cases = json.loads(pathlib.Path(__file__).with_name("specs.json").read_text())
    print("[\n" + ",\n".join(json.dumps(vectors(**c), ensure_ascii=False) for c in cases) + "\n]")
