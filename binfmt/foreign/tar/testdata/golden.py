"""Write odd/*.tar, and webdataset.tsv: what webdataset 1.0.2 reads from them and from the tar files of the test data.

    pip install webdataset==1.0.2
    STEPAHEAD_TESTDATA=... python binfmt/foreign/tar/testdata/golden.py

A line is file, key, field, bytes, SHA-256; or file, "error", the exception's name, after the samples before it. Bytes of
keys that are no UTF-8, and control characters, are written as \\xNN.
"""

from __future__ import annotations

import hashlib
import io
import os
import pathlib
import tarfile

import webdataset

HERE = pathlib.Path(__file__).parent


def archive(members: list[tuple[str, bytes | str]], **options) -> bytes:
    """A tar file; content that is text is the type of a member without content."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", **options) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type = content.encode()
                info.linkname = "a.txt"
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def cut(data: bytes, end: int) -> bytes:
    return data[:end]


def odd() -> dict[str, bytes]:
    pair = [("a.txt", b"one"), ("a.cls", b"1"), ("b.txt", b"two" * 300), ("b.cls", b"2")]
    plain = archive(pair)
    made = {
        "plain": plain,
        "dots": archive([("train.v1/0001.jpg", b"1"), ("train.v1/0002.jpg", b"2"), ("v1.0/README", b"x")]),
        "names": archive(
            [
                ("./a.jpg", b"1"),
                ("d/a.seg.png", b"2"),
                ("d/a.PNG", b"3"),
                ("a..jpg", b"4"),
                ("a.", b"5"),
                ("dir/.hidden", b"6"),
                ("README", b"7"),
                (".x", b"8"),
                ("d.x/.h", b"9"),
                ("x.y/b/.c", b"10"),
                ("../up/../e.jpg", b"11"),
                ("é/ü.jpg", b"12"),
            ]
        ),
        "meta": archive(
            [
                ("__meta__", b"1"),
                ("__meta__/x.json", b"2"),
                ("__x__.json", b"3"),
                ("d/__meta__/x.json", b"4"),
                ("a.txt", b"5"),
            ]
        ),
        "apart": archive([("0.a", b"1"), ("1.a", b"2"), ("0.b", b"3"), ("1.b", b"4")]),
        "twice": archive([("a.txt", b"1"), ("b.txt", b"1"), ("b.txt", b"2")]),
        "case": archive([("a.jpg", b"1"), ("a.JPG", b"2")]),
        "keycase": archive([("a.jpg", b"1"), ("A.jpg", b"2")]),
        "types": archive(
            [
                ("d", "5"),
                ("a.txt", b"1"),
                ("a.hard", "1"),
                ("a.soft", "2"),
                ("a.fifo", "6"),
                ("a.cls", b"7"),
                ("e.txt", b""),
            ]
        ),
        "long-gnu": archive([("d" * 90 + "/" + "n" * 150 + ".jpg", b"1"), ("z.txt", b"2")], format=tarfile.GNU_FORMAT),
        "long-pax": archive([("d" * 200 + "/" + "é" * 150 + ".jpg", b"1"), ("z.txt", b"2")], format=tarfile.PAX_FORMAT),
        "long-ustar": archive(
            [("d" * 120 + "/" + "n" * 80 + ".jpg", b"1"), ("z.txt", b"2")], format=tarfile.USTAR_FORMAT
        ),
        "global": archive(pair, format=tarfile.PAX_FORMAT, pax_headers={"comment": "x" * 600}),
        "latin": archive(
            [("caf\udce9/a.txt", b"1"), ("caf\udce9/b.txt", b"2"), ("new\nline.txt", b"3")], format=tarfile.GNU_FORMAT
        ),
        "no-end": cut(plain, 4 * 512 + 3 * 512),
        "cut-header": cut(plain, 2 * 1024 + 100),
        "cut-data": cut(plain, 2 * 1024 + 512 + 700),
        "cut-padding": cut(plain, 2 * 1024 + 512 + 1000),
        "two": plain + archive([("c.txt", b"3")]),
        "lone-zero": cut(plain, 4 * 512 + 3 * 512) + bytes(512),
        "empty": archive([]),
        "short": bytes(512),
    }
    damaged = bytearray(plain)
    damaged[2 * 1024 + 5] ^= 1
    made["damaged"] = bytes(damaged)
    first = bytearray(plain)
    first[5] ^= 1
    made["damaged-first"] = bytes(first)
    big = bytearray(archive([("a.txt", b"one"), ("a.cls", b"1")]))
    big[124:136] = b"\x80" + (3).to_bytes(11, "big")  # the same size in base 256
    big[148:156] = b" " * 8
    big[148:156] = b"%06o\0 " % sum(big[:512])
    made["base256"] = bytes(big)
    return made


def shown(name: str) -> str:
    raw = name.encode("utf-8", "surrogateescape")
    text = raw.decode("utf-8", "backslashreplace")
    return "".join(f"\\x{ord(c):02x}" if ord(c) < 0x20 or ord(c) == 0x7F else c for c in text)


def huge(path: pathlib.Path) -> bool:
    """Whether a member claims more bytes than a reader should be asked for: sparse ones do."""
    try:
        with tarfile.open(path) as tar:
            return any(m.size > 1 << 28 for m in tar)
    except (tarfile.TarError, ValueError, OSError):
        return False


def samples(path: pathlib.Path):
    if huge(path):
        yield ("huge",)
        return
    try:
        for sample in webdataset.WebDataset(str(path), shardshuffle=False, empty_check=False):
            for field, data in sample.items():
                if not field.startswith("__"):
                    digest = hashlib.sha256(data).hexdigest()
                    yield shown(sample["__key__"]), field, str(len(data)), digest
    except Exception as e:  # whatever it is, it is the reference
        yield "error", type(e).__name__


def main() -> None:
    (HERE / "odd").mkdir(exist_ok=True)
    for name, data in odd().items():
        (HERE / "odd" / f"{name}.tar").write_bytes(data)
    root = pathlib.Path(os.environ["STEPAHEAD_TESTDATA"])
    lines = []
    for base, folder in [(HERE, HERE / "odd"), (root, root / "tar")]:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            if path.stat().st_size < 1 << 20 or path.suffix == ".tar":
                name = str(path.relative_to(base))
                rows = list(samples(path)) or [("none",)]
                lines += ["\t".join((name, *row)) for row in rows]
    (HERE / "webdataset.tsv").write_text("".join(line + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
