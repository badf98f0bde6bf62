"""Measures safetensors' own reader (Rust) on the header that BenchmarkParse reads: best and median CPU time of 15 opens, in ms.

python bench.py
"""

import os
import statistics
import struct
import tempfile
import time

from safetensors import safe_open


def header(count):
    parts, at = ['{"__metadata__":{"format":"pt"}'], 0
    for i in range(count):
        end = at + 8 * (i % 3)
        name = f"model.layers.{i // 64}.mlp.experts.{i % 64}.down_proj.weight"
        parts.append(f',"{name}":{{"dtype":"BF16","shape":[4,{i % 3}],"data_offsets":[{at},{end}]}}')
        at = end
    return ("".join(parts) + "}").encode(), at


def main():
    text, size = header(100_000)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "f.safetensors")
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + bytes(size))
        times = []
        for _ in range(15):
            start = time.process_time()
            with safe_open(path, "np"):
                times.append(time.process_time() - start)
    print(
        f"safe_open: best {min(times) * 1e3:.1f} ms, median {statistics.median(times) * 1e3:.1f} ms, {len(text)} bytes"
    )


main()
