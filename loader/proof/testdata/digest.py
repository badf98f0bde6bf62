"""An independent implementation of the proof digest. Prints golden.json: python3 digest.py > golden.json."""

import hashlib
import json
import struct
from typing import Any


def text(s: str) -> bytes:
    raw = s.encode()
    return struct.pack("<I", len(raw)) + raw


def digest(files: dict[str, str]) -> str:
    records = {}
    for content in files.values():
        for line in content.split("\n")[:-1]:
            r = json.loads(line)
            records[r["step"], r["position"]] = r
    h = hashlib.sha256()
    for place in sorted(records):
        r = records[place]
        h.update(struct.pack("<QQQI", r["step"], r["position"], r["sample"], len(r["fields"])))
        for f in sorted(r["fields"], key=lambda f: f["name"].encode()):
            h.update(text(f["name"]) + text(f["dtype"]) + struct.pack("<I", len(f["shape"])))
            h.update(b"".join(struct.pack("<Q", n) for n in f["shape"]) + bytes.fromhex(f["sha256"]))
    return h.hexdigest()


def record(step: int, position: int) -> dict[str, Any]:
    sample = (step * 7 + position * 5) % 97 + (1 << 53) * (position == 3)
    pixels = hashlib.sha256(f"pixels {sample} {step}".encode()).hexdigest()
    label = hashlib.sha256(struct.pack("<q", sample % 10)).hexdigest()
    fields = [
        {"name": "label", "dtype": "int64", "shape": [], "sha256": label},
        {"name": "image", "dtype": "float32", "shape": [3, 224, 224 + position], "sha256": pixels},
        {"name": "l\u00e4nge", "dtype": "str", "shape": [], "sha256": hashlib.sha256(b"").hexdigest()},
    ]
    return {"step": step, "position": position, "sample": sample, "fields": fields[: 3 - step % 2]}


def segment(steps: range, positions: range) -> str:
    return "".join(json.dumps(record(s, p)) + "\n" for s in steps for p in positions)


# Two ranks until step 5; then a resume at step 3 with four ranks, the last of which goes on in an old file.
FILES = {
    "run1-rank0.jsonl": segment(range(0, 5), range(0, 4)) + '{"step":5,"pos',
    "run1-rank1.jsonl": segment(range(0, 5), range(4, 8)) + segment(range(3, 9), range(6, 8)),
    "run2-rank0.jsonl": segment(range(3, 9), range(0, 2)),
    "run2-rank1.jsonl": segment(range(3, 9), range(2, 4)),
    "run2-rank2.jsonl": segment(range(3, 9), range(4, 6)),
}

if __name__ == "__main__":
    print(json.dumps({"digest": digest(FILES), "files": FILES}, indent=1))
