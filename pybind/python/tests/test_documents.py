"""The examples of docs/sampler.md, docs/state.md and docs/datasets.md, run as a reader would."""

from __future__ import annotations

import io
import json
import pathlib
import re
import shlex
import shutil
import tarfile
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import stepahead
from conftest import paint, run

ROOT = pathlib.Path(__file__).parents[3]
MOSAIC = ROOT / "binfmt" / "foreign" / "mds" / "testdata"
DISTINCT = 8  # pictures


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text()
    found = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [code for name, code in found if name == language]


def commands(page: str) -> list[list[str]]:
    """The arguments of every `stepahead` in blocks of the shell."""
    lines = [line.removeprefix("$ ") for code in blocks(page, "") for line in code.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("stepahead ")]


def objects(text: str) -> list[dict[str, Any]]:
    """JSON objects, one behind another."""
    found, decoder = [], json.JSONDecoder()
    while text := text.strip():
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:]
    return found


def jpeg(i: int) -> bytes:
    picture = io.BytesIO()
    paint(i).save(picture, "JPEG")
    return picture.getvalue()


PICTURES = [jpeg(i) for i in range(DISTINCT)]


def write_tar(path: pathlib.Path, samples: int, first: int = 0) -> None:
    """Samples of a picture, a class, a caption and what else there may be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as tar:
        for i in range(first, first + samples):
            fields = {"jpg": PICTURES[i % DISTINCT], "cls": b"%d" % (i % 3), "txt": b"x" * (i % 50), "json": b"{}"}
            for ext, content in fields.items():
                info = tarfile.TarInfo(f"{i:06}.{ext}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))


def test_sampler(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, mixture, grouped = objects(blocks("sampler.md", "json")[0])
    pathlib.Path("mixture.json").write_text(json.dumps(mixture))
    pathlib.Path("grouped.json").write_text(json.dumps(grouped))
    write_tar(tmp_path / "shards" / "0.tar", 1000)
    run("index", "shards", "-o", "datasets/pairs", "--field", "image=jpg", "--field", "caption=txt")
    plain, mixed, by_length, explained = (run(*c) for c in commands("sampler.md"))
    steps = objects(plain)
    assert [s["step"] for s in steps] == [1000000, 1000001] and all(len(s["samples"]) == 8 for s in steps)
    assert len(re.findall(r"\b(?:web|books):\d+", mixed)) == mixture["changes"][1]["global_batch"]
    numbers = [int(n) for n in re.findall(r"\d+", by_length.split(":")[-1])]
    assert len(numbers) >= grouped["global_batch"] and len({n % 50 for n in numbers[-64:]}) < 10  # of like length
    assert "web" in explained and "books" in explained


def test_vectors_of_the_sampler() -> None:
    text = (ROOT / "docs" / "sampler.md").read_text().split("## Vectors")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([\d,]+) \| ([\d ]+) \|$", text, re.MULTILINE)
    assert len(rows) == 4
    for samples, want in rows:
        line = run("order", "--samples", samples.replace(",", ""), "--seed", 7, "--batch", 8, "--json")
        assert json.loads(line)["samples"] == [int(n) for n in want.split()]


def test_state(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("web", "books"):
        write_tar(tmp_path / f"{name}.tar", 40)
        run("index", f"{name}.tar", "-o", f"datasets/{name}", "--field", "image=jpg")
    (code,) = blocks("state.md", "python")
    names: dict[str, Any] = {}
    exec(compile(code, "docs/state.md", "exec"), names)
    text = names["state"]["stepahead"]
    state = json.loads(text)
    assert names["batch"].step == 5 == state["step"] and len(text) < 1024
    keys = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "state.md").read_text(), re.MULTILINE)
    assert set(state) <= set(keys) and set(state) >= set(
        objects(blocks("state.md", "json")[0].replace("{...}", "{}"))[0]
    )

    other = {name: stepahead.Source(f"datasets/{name}", weight=w) for name, w in (("web", 0.7), ("books", 0.1))}
    with (
        stepahead.DataLoader(other, global_batch=8, transform=names["plan"], seed=8) as loader,
        pytest.raises(stepahead.IdentityError) as caught,
    ):
        loader.load_state_dict(names["state"])
    assert blocks("state.md", "")[0].strip() in str(caught.value)


def make_sources(root: pathlib.Path) -> None:
    """What the commands of docs/datasets.md read."""
    for i in range(100):
        write_tar(root / "shards" / f"train-{i:04}.tar", 6, 6 * i)
    for i in range(2):
        write_tar(root / "shards" / f"{i:04}.tar", 4, 4 * i)
    (root / "names.txt").write_text("ant\nbee\ncrab\n")
    (root / "datasets").mkdir()
    shutil.copytree(MOSAIC / "rich", root / "datasets" / "mosaic")
    (root / "corpus").mkdir()
    for end in ("bin", "idx"):
        shutil.copy(
            ROOT / "binfmt" / "testdata" / "megatron" / f"int32.{end}", root / f"corpus/train_text_document.{end}"
        )
    (root / "cifar").mkdir()
    table = pyarrow.table({"image": PICTURES, "label": list(range(DISTINCT))})
    pyarrow.parquet.write_table(table, root / "cifar" / "train-0.parquet")
    for name in ("photos/cat/1.jpg", "photos/dog/2.jpg", "pairs/a.jpg"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(PICTURES[0])
    (root / "pairs" / "a.txt").write_text("one")


def test_datasets(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command, in the order of the page; its other examples in Python are run by test_stored."""
    monkeypatch.chdir(tmp_path)
    make_sources(tmp_path)
    for arguments in commands("datasets.md"):
        if "-o" in arguments:
            shutil.rmtree(arguments[arguments.index("-o") + 1], ignore_errors=True)
        if any("{000..099}.tar.gz" in a for a in arguments):
            for i in range(100):
                write_tar(tmp_path / "shards" / f"{i:03}.tar.gz", 1, i)
        run(*arguments)
    names: dict[str, Any] = {}
    exec(compile(blocks("datasets.md", "python")[0], "docs/datasets.md", "exec"), names)
    with names["loader"] as loader:
        batch = next(iter(loader))
        assert batch["image"].shape == (512, 3, 224, 224) and batch["label"].shape == (512,)
