"""Writes golden.json: pickles of Python's own pickler and what they hold, and pickles that must be refused.

    python golden.py > golden.json

A value is written as [kind, content]; the pickles that must be refused are made by hand or by a __reduce__, and none is loaded.
"""

import base64
import collections
import fractions
import functools
import io
import json
import os
import pickle
import random
import struct
import subprocess
import sys


def show(v):
    """The value as the test writes it."""
    match v:
        case None:
            return ["none"]
        case bool():
            return ["bool", v]
        case int():
            return ["int", str(v)]
        case float():
            return ["float", struct.pack(">d", v).hex()]
        case str():
            return ["text", v]
        case bytes():
            return ["bytes", base64.b64encode(v).decode()]
        case tuple():
            return ["tuple", *map(show, v)]
        case list():
            return ["list", *map(show, v)]
        case dict():
            return ["dict", *([show(k), show(x)] for k, x in v.items())]
        case set() | frozenset():
            return ["set", *sorted(map(show, v))]
    raise TypeError(v)


def values(rng):
    yield None
    yield from [
        True,
        False,
        0,
        1,
        -1,
        255,
        256,
        65535,
        65536,
        2**31 - 1,
        -(2**31),
        2**31,
        2**63 - 1,
        -(2**63),
        2**40,
        -(2**40),
    ]
    yield from [0.0, -0.0, 1.5, -1e300, float("inf"), float("nan")]
    yield from ["", "a", "é", "𝄞", "x" * 255, "x" * 256, "x" * 70000, "\0", "two\nlines"]
    yield from [b"", b"\0\xff", b"x" * 255, b"x" * 256]
    yield from [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), tuple(range(300))]
    yield from [[], [1], list(range(1100)), {}, {"a": 1}, {i: str(i) for i in range(1100)}, {(1, "x"): [None]}]
    yield from [set(), {1}, set(range(20)), frozenset(), frozenset("abc")]
    shared = ["shared"]
    yield [shared, shared, (shared,), {"x": shared}]
    text = "a name of some length"
    yield [text, text, "".join(text)]
    yield {f"layers.{i}": (i, [rng.random(), (rng.random() < 0.5,)] * rng.randrange(4)) for i in range(300)}


def cases(rng):
    for v in values(rng):
        for protocol in (2, 3, 4, 5):
            if protocol == 2 and contains_bytes_or_sets(v):
                continue  # written as calls of codecs.encode and set
            if protocol == 3 and contains_sets(v):
                continue
            if protocol != 4 and isinstance(v, str) and len(v) > 2**16:
                continue  # frames are of protocol 4
            yield {"protocol": protocol, "pickle": pickle.dumps(v, protocol), "value": show(v)}


def contains_sets(v):
    return isinstance(v, set | frozenset)


def contains_bytes_or_sets(v):
    return isinstance(v, bytes) or contains_sets(v)


class Calls:
    """Pickles as a call of what it is given."""

    def __init__(self, *reduced):
        self.reduced = reduced

    def __reduce__(self):
        return self.reduced


def hostile():
    """Name, pickle, and what the refusal must name."""
    for protocol in (2, 4):
        for name, value in {
            "posix.system": Calls(os.system, ("true",)),
            "builtins.eval": Calls(eval, ("1",)),
            "builtins.exec": Calls(exec, ("",)),
            "builtins.getattr": Calls(getattr, ((), "x")),
            "builtins.__import__": Calls(__import__, ("os",)),
            "subprocess.Popen": Calls(subprocess.Popen, (["true"],)),
            "functools.partial": Calls(functools.partial, (print,)),
            "io.open": Calls(io.open, ("/dev/null",)),
            "fractions.Fraction": fractions.Fraction(1, 2),
            "collections.defaultdict": collections.defaultdict(list),
        }.items():
            attr = name.partition(".")[2]
            yield f"{name} protocol {protocol}", pickle.dumps(value, protocol), attr
            yield f"{name} inside protocol {protocol}", pickle.dumps({"a": [1, (value,)]}, protocol), attr
    head = b"\x80\x04"
    text = lambda s: b"\x8c" + bytes([len(s)]) + s.encode()  # noqa: E731
    yield "name built at run time", head + text("po") + text("six") + b"\x93.", "six"
    yield (
        "attribute of an allowed class",
        head + text("allowed") + text("Thing.__init__") + b"\x93)R.",
        "Thing.__init__",
    )
    yield "call of a text", head + text("os.system") + b")R.", "a call of a text"
    yield "call of an instance", head + text("allowed") + text("Thing") + b"\x93)\x81)R.", "a call of an instance"
    yield "state of a list", head + b"]}b.", "a state for a list"
    yield "state of a class", head + text("allowed") + text("Thing") + b"\x93}b.", "a state for Thing"
    for opcode, name in {
        b"0": "POP", b"1": "POP_MARK", b"2": "DUP", b"F1.5\n": "FLOAT", b"I1\n": "INT", b"L1L\n": "LONG", b"Px\n": "PERSID",
        b"S'x'\n": "STRING", b"T\1\0\0\0x": "BINSTRING", b"U\1x": "SHORT_BINSTRING", b"Vx\n": "UNICODE", b"(d": "DICT", b"g0\n": "GET",
        b"(iposix\nsystem\n": "INST", b"(l": "LIST", b"(o": "OBJ", b"p0\n": "PUT", b"\x82\1": "EXT1", b"\x83\1\0": "EXT2", b"\x84\1\0\0\0": "EXT4",
        b"\x8b\1\0\0\0\1": "LONG4", b"\x92": "NEWOBJ_EX", b"\x96" + b"\0" * 8: "BYTEARRAY8", b"\x97": "NEXT_BUFFER", b"\x98": "READONLY_BUFFER", b"NQ": "BINPERSID",
    }.items():  # fmt: skip
        yield f"opcode {name}", head + opcode + b".", name


def broken():
    """Pickles that are not whole, or not sound."""
    good = pickle.dumps({"a": [1, 2.5, "text", (None, True)], "b": b"bytes"}, 4)
    for n in range(len(good)):
        yield f"cut to {n}", good[:n]
    head = b"\x80\x04"
    yield "appended", good + b"\0"
    yield "two pickles", good + good
    yield "no opcode", head + b"\xff."
    yield "protocol 6", b"\x80\x06N."
    yield "protocol 1", b"\x80\x01N."
    yield "protocol in the middle", b"N\x80\x04."
    yield "text of 2^64-1 bytes", head + b"\x8d" + b"\xff" * 8 + b"x."
    yield "text of 4 GiB", head + b"X\xff\xff\xff\xffx."
    yield "bytes of 2^63", head + b"\x8e" + struct.pack("<Q", 2**63) + b"x."
    yield "frame of 2^64-1", head + b"\x95" + b"\xff" * 8 + b"N."
    yield "integer of 255 bytes", head + b"\x8a\xff" + b"\x7f" * 255 + b"."
    yield "integer of 9 bytes", head + b"\x8a\x09" + b"\x01" * 9 + b"."
    yield "text that is not UTF-8", head + b"\x8c\1\xff."
    yield "long text that is not UTF-8", head + b"X" + struct.pack("<I", 300) + b"\xff" * 300 + b"."
    yield "memo out of order", head + b"Nr\xff\xff\xff\xff."
    yield "memo read before it is written", head + b"h\0."
    yield "memo read between", head + b"(h\0N\x94t."
    yield "memo of nothing", head + b"\x94h\0."
    yield "nothing on the stack", head + b"."
    yield "two values", head + b"NN."
    yield "open mark", head + b"(N."
    yield "tuple without a mark", head + b"Nt."
    yield "tuple across a mark", head + b"N(N\x86."
    yield "append to a dict", head + b"}Na."
    yield "append across a mark", head + b"](Na."
    yield "items of a list", head + b"](NNu."
    yield "key without a value", head + b"}(NNNu."
    yield "global without a name", head + b"callowed\n."
    yield "stack global of integers", head + b"K\1K\2\x93."
    yield "arguments that are no tuple", head + b"\x8c\7allowed\x8c\5Thing\x93]R."


def main():
    rng = random.Random(7)
    encode = lambda b: base64.b64encode(b).decode()  # noqa: E731
    result = {
        "python": sys.version.split()[0],
        "values": [{**c, "pickle": encode(c["pickle"])} for c in cases(rng)],
        "hostile": [{"name": n, "pickle": encode(p), "names": r} for n, p, r in hostile()],
        "broken": [{"name": n, "pickle": encode(p)} for n, p in broken()],
    }
    json.dump(result, sys.stdout, indent=None, separators=(",", ":"))
    print()


main()
