"""Writes golden.row: a signed row, made without the code under test (json of Python, signatures of openssl)."""

import base64
import json
import pathlib
import subprocess
import tempfile

row = {
    "v": 1,
    "placement": 7,
    "controller": "c1",
    "path": "hdfs://ns/runs/é/step-1",
    "identity": "id",
    "ttl_ns": 3600 * 10**9,
    "copy": {
        "place": "/.stepahead/data/c1-7",
        "digest": "d",
        "files": [
            {"name": "a/b.safetensors", "size": 3, "original": "hdfs:1-3-4", "here": "dir:5", "crc32c": 0x12345678}
        ],
        "labels": {"class": "internal", "region": "eu"},
    },
}


def spelled(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


with tempfile.TemporaryDirectory() as folder:
    key, message, signature = (pathlib.Path(folder, name) for name in ("key", "message", "signature"))
    key.write_bytes(bytes.fromhex("302e020100300506032b657004220420") + b"\1" * 32)  # RFC 8410
    message.write_bytes(b"stepahead-catalogue-row-v1\nk1\n" + spelled(row).encode())
    command = [
        "openssl",
        "pkeyutl",
        "-sign",
        "-rawin",
        "-keyform",
        "DER",
        "-inkey",
        key,
        "-in",
        message,
        "-out",
        signature,
    ]
    subprocess.run(command, check=True)
    signed = {"row": row, "key": "k1", "ed25519": base64.b64encode(signature.read_bytes()).decode()}
pathlib.Path(__file__).with_name("golden.row").write_text(spelled(signed) + "\n", encoding="utf-8")
