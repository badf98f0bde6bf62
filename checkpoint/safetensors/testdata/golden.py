"""Writes golden.json: what the safetensors package makes of files, good and bad, and sharded sets of torch.

    python golden.py > golden.json

Each case is a whole file in base64 with what safetensors.safe_open says about it: its tensors (dtype, shape, SHA-256 of the
bytes) and metadata, or an error. Files are written by safetensors itself, or byte by byte to break one rule each.
"""

import base64
import hashlib
import json
import os
import random
import struct
import sys
import tempfile

import safetensors
import torch
from safetensors import safe_open
from safetensors.torch import save


def raw(header, data=b"", length=None):
    if not isinstance(header, bytes):
        header = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def one(dtype="F32", shape=(2,), offsets=(0, 8), **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}


DTYPES = {
    torch.bool: 1, torch.uint8: 1, torch.int8: 1, torch.int16: 1, torch.uint16: 1, torch.int32: 1, torch.uint32: 1,
    torch.int64: 1, torch.uint64: 1, torch.float16: 1, torch.bfloat16: 1, torch.float32: 1, torch.float64: 1,
    torch.complex64: 1, torch.float8_e5m2: 1, torch.float8_e4m3fn: 1, torch.float8_e8m0fnu: 1,
    torch.float8_e4m3fnuz: 1, torch.float8_e5m2fnuz: 1, torch.float4_e2m1fn_x2: 1,
}  # fmt: skip


def tensor(rng, dtype, shape):
    count = 1
    for d in shape:
        count *= d
    size = torch.empty(0, dtype=dtype).element_size()
    data = bytes(rng.randrange(2 if dtype == torch.bool else 256) for _ in range(count * size))
    flat = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
    return flat.view(dtype).reshape(shape)


def good(rng):
    yield "all dtypes", save({str(d): tensor(rng, d, (3, 4)) for d in DTYPES})
    yield (
        "metadata",
        save({"w": tensor(rng, torch.float32, (2, 3))}, metadata={"format": "pt", "note": 'quotes " \\ \n é 𝄞'}),
    )
    yield (
        "odd names",
        save({n: tensor(rng, torch.int8, (2,)) for n in ["", " ", "a/b", "ü", "\u2028", '"', "\\", "\x01", "𝄞"]}),
    )
    yield (
        "scalars and zeros",
        save(
            {
                "s": tensor(rng, torch.float64, ()),
                "z": tensor(rng, torch.float16, (3, 0, 2)),
                "y": tensor(rng, torch.int64, (0,)),
            }
        ),
    )
    for i in range(6):
        dtypes = list(DTYPES)[:-1]  # the last one has half bytes
        yield f"random {i}", save({
            f"layers.{k}.{rng.choice('abc')}": tensor(rng, rng.choice(dtypes), [rng.randrange(4) for _ in range(rng.randrange(4))])
            for k in range(rng.randrange(30))
        })  # fmt: skip
    for bits, name in [(6, "F6_E2M3"), (6, "F6_E3M2"), (4, "F4")]:
        yield name, raw({"w": one(name, (4,), (0, 4 * bits // 8))}, b"\1" * (4 * bits // 8))
    yield "order of names", raw({"b": one(offsets=(8, 16)), "a": one(offsets=(0, 8))}, b"ABCDEFGHijklmnop")
    yield (
        "escapes",
        raw(
            b'{"\\u0077\\ud834\\udd1e\\/\\b":{"dtyp\\u0065":"F\\u00332","shape":[2],"data_offsets":[0,8]}}', b"12345678"
        ),
    )
    yield (
        "blanks",
        raw(b' \n\t\r{ "w" : { "dtype" : "F32" , "shape" : [ 2 ] , "data_offsets" : [ 0 , 8 ] } } \n\t ', b"12345678"),
    )
    yield "unknown members", raw({"w": one(later={"a": [1, None, True, -1.5e-3, "x"]}, more=[])}, b"12345678")
    yield "empty", raw({})
    yield "metadata alone", raw({"__metadata__": {"a": "b"}})
    yield "empty metadata", raw({"__metadata__": {}})
    yield "zero dimension before a huge one", raw({"w": one(shape=(0, 2**62), offsets=(0, 0))})


def bad_bytes():
    yield "nothing", b""
    yield "seven bytes", b"\0" * 7
    yield "no header", struct.pack("<Q", 0)
    yield "longer than the file", raw({}, length=3)
    yield "over the limit", raw({}, length=100_000_001)
    yield "length of 2^63", raw({}, length=2**63)
    yield "length of 2^64-1", raw({}, length=2**64 - 1)
    good = raw({"w": one()}, b"12345678")
    yield "cut data", good[:-1]
    yield "appended", good + b"\0"
    yield "cut header", good[:20]
    yield "not utf-8", raw(b'{"\xff":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', b"12345678")
    yield "overlong utf-8", raw(b'{"\xc0\x80":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', b"12345678")
    yield "surrogate in utf-8", raw(b'{"\xed\xa0\x80":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', b"12345678")
    for text in [
        b"",
        b"[]",
        b"null",
        b"1",
        b'"x"',
        b"{",
        b"}",
        b"{}{}",
        b"{},",
        b"{,}",
        b"{}x",
        b"{\0}",
        b"\xef\xbb\xbf{}",
        b"{}\0",
        b"{'a':1}",
        b"{a:1}",
        b'{"a"}',
        b"{}\x0b",
    ]:
        yield f"json {text!r}", raw(text)


def bad_tensors():
    whole = b'"dtype":"F32","shape":[2],"data_offsets":[0,8]'
    swaps = [
        (b'"F32"', [b'"Q3"', b'"f32"', b"null", b"1", b"[]", b'"F32', b'"F3\x01"', b'"\\x"', b'"\\u12"', b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud800x"']),
        (b"[2]", [b"null", b"{}", b"2", b"[2.0]", b"[2e0]", b"[-2]", b"[+2]", b"[02]", b"[2,]", b"[,2]", b"[2", b"[[2]]", b'["2"]', b"[true]", b"[18446744073709551616]",
                  b"[9223372036854775808,0]", b"[4294967296,4294967296,4294967296]", b"[3]", b"[]", b"[2 3]", b"[0x2]"]),
        (b"[0,8]", [b"null", b"[0]", b"[]", b"[0,8,8]", b"[8,0]", b"[0,7]", b"[0,9]", b"[1,9]", b"[0.0,8]", b"[-0,8]", b"[0,8e0]", b"[00,8]", b"8", b'"0,8"', b"[0,18446744073709551615]"]),
        (b'"dtype"', [b'"DTYPE"', b'"dtype "', b"dtype"]), (b'"shape"', [b'"Shape"']), (b'"data_offsets"', [b'"offsets"']),
        (b'"dtype":"F32",', [b"", b'"dtype":"F32","dtype":"F32",', b'"dtype" "F32",', b'"dtype":"F32"']), (b'"shape":[2],', [b""]), (b',"data_offsets":[0,8]', [b"", b',"data_offsets":[0,8],', b',"data_offsets":[0,8],"data_offsets":[0,8]']),
    ]  # fmt: skip
    for old, news in swaps:
        for new in news:
            yield f"{old.decode()} -> {new!r}", raw(b'{"w":{' + whole.replace(old, new, 1) + b"}}", b"12345678")
    for value in [b"null", b"[]", b"{}", b'"x"', b"1"]:
        yield f"tensor {value.decode()}", raw(b'{"w":' + value + b"}")
    deep = b"[" * 200 + b"]" * 200
    yield "deep unknown member", raw(b'{"w":{' + whole + b',"x":' + deep + b"}}", b"12345678")


def bad_sets():
    w = lambda a, b, **k: one("U8", (b - a,), (a, b), **k)  # noqa: E731
    yield "hole", raw({"a": w(0, 4), "b": w(5, 8)}, b"12345678")
    yield "hole at the start", raw({"a": w(1, 8)}, b"12345678")
    yield "overlap", raw({"a": w(0, 5), "b": w(4, 8)}, b"12345678")
    yield "shared", raw({"a": w(0, 8), "b": w(0, 8)}, b"12345678")
    yield "inside", raw({"a": w(0, 8), "b": w(2, 4)}, b"12345678")
    yield "empty one in the middle of another", raw({"a": w(0, 8), "b": w(4, 4)}, b"12345678")
    yield "bits that are no bytes", raw({"w": one("F4", (3,), (0, 2))}, b"12")
    yield "six bits that are no bytes", raw({"w": one("F6_E2M3", (2,), (0, 2))}, b"12")
    yield (
        "same name twice",
        raw(
            b'{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"w":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}',
            b"12345678",
        ),
    )
    yield (
        "same empty name twice",
        raw(
            b'{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'
        ),
    )
    yield (
        "same name in two spellings",
        raw(
            b'{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"\\u0077":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'
        ),
    )
    for value in [
        b"null",
        b"[]",
        b'"x"',
        b'{"a":1}',
        b'{"a":null}',
        b'{"a":{}}',
        b'{"a":"b","a":"c"}',
        b'{"a":"b"},"__metadata__":{}',
    ]:
        yield f"metadata {value.decode()}", raw(b'{"__metadata__":' + value + b"}")


def verdict(data, folder):
    path = os.path.join(folder, "f")
    with open(path, "wb") as f:
        f.write(data)
    try:
        with safe_open(path, "pt") as f:
            names, metadata = list(f.keys()), f.metadata()
            found = {n: [f.get_slice(n).get_dtype(), f.get_slice(n).get_shape()] for n in names}
    except Exception as e:  # the package raises several kinds
        return {"error": str(e)[:100]}
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    for n in found:
        a, b = header[n]["data_offsets"]
        found[n].append(hashlib.sha256(data[start + a : start + b]).hexdigest())
    return {"tensors": found, "metadata": metadata}


def sharded(rng):
    """A set as Hugging Face's split of a state dict lays it out."""
    tensors = {f"layers.{i}.w": tensor(rng, torch.bfloat16, (4, i + 1)) for i in range(7)}
    names = sorted(tensors)
    files, weight_map = {}, {}
    for k in range(3):
        file = f"model-{k + 1:05}-of-00003.safetensors"
        part = {n: tensors[n] for n in names[k::3]}
        files[file] = base64.b64encode(save(part, metadata={"format": "pt"})).decode()
        weight_map |= dict.fromkeys(part, file)
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    index = {"metadata": {"total_size": total, "total_parameters": 1}, "weight_map": weight_map}
    return {"files": files, "index": json.dumps(index, indent=2, sort_keys=True) + "\n"}


def main():
    rng = random.Random(7)
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        for name, data in [*good(rng), *bad_bytes(), *bad_tensors(), *bad_sets()]:
            cases.append({"name": name, "file": base64.b64encode(data).decode(), **verdict(data, folder)})
    result = {
        "safetensors": safetensors.__version__,
        "torch": torch.__version__.split("+")[0],
        "cases": cases,
        "sharded": sharded(rng),
    }
    json.dump(result, sys.stdout, indent=1, ensure_ascii=True)
    print()


main()
