"""Fields that are no pictures: the bytes that are stored, beside pictures and alone."""

from __future__ import annotations

import hashlib
import io
import json
import pathlib
import re
import struct
import sys
import tarfile
import types
from typing import Any

import numpy as np
import pytest
import stepahead
import torch
from conftest import paint, real, run
from google.protobuf import descriptor_pb2, message_factory
from grpc_tools import protoc
from stepahead import transforms as T

ROOT = pathlib.Path(__file__).parents[3]
PAGE = ROOT / "docs" / "datasets.md"
MOSAIC = ROOT / "binfmt" / "foreign" / "mds" / "testdata"
PLAN = T.Compose([T.DecodeImage(), T.CenterCrop(64)])
SAMPLES = 10
Sample = dict[str, bytes]


def make_samples() -> list[Sample]:
    samples = []
    for i in range(SAMPLES):
        picture, array = io.BytesIO(), io.BytesIO()
        paint(i).save(picture, "JPEG")
        np.save(array, np.random.default_rng(i).standard_normal(16).astype("float32"))
        caption = json.dumps({"caption": f"grün {i}", "more": "x" * (20_000 if i == 3 else i)})
        samples.append(
            {
                "jpg": picture.getvalue(),
                "cls": b"%d\n" % (i % 3),
                "json": caption.encode(),
                "npy": array.getvalue(),
                "txt": f"text {i}".encode(),
                "bin": bytes(range(i)),  # the first one is empty
            }
        )
    return samples


def write_tar(path: pathlib.Path, samples: list[Sample], first: int = 0) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    with tarfile.open(path, "w") as tar:
        for i, sample in enumerate(samples, first):
            for field, content in sample.items():
                info = tarfile.TarInfo(f"d/{i:06}.{field}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    return make_samples()


@pytest.fixture(scope="module")
def pairs(samples: list[Sample], tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A dataset of two tar files. json has a long value, so that it is media by itself; txt is text in the index."""
    folder = tmp_path_factory.mktemp("pairs")
    write_tar(folder / "shards" / "0000.tar", samples[:6])
    write_tar(folder / "shards" / "0001.tar", samples[6:], 6)
    run("index", folder / "shards", "-o", folder / "pairs")
    return folder / "pairs"


def open_loader(dataset: Any, **changes: Any) -> stepahead.DataLoader:
    options: dict[str, Any] = {"global_batch": 4, "seed": 5, "workers": 1}
    return stepahead.DataLoader(dataset, **(options | changes))


@pytest.mark.parametrize("output", ["torch", "numpy"])
def test_beside_pictures(pairs: pathlib.Path, samples: list[Sample], output: str) -> None:
    fields = ["image", "json", "npy", "bin", "label", "txt"]
    with (
        open_loader(pairs, fields=fields, transform={"image": PLAN}, output=output, epochs=1) as loader,
        open_loader(pairs, fields=["image"], transform=PLAN, output=output) as plain,
    ):
        seen = []
        for batch, pictures in zip(loader, plain, strict=True):
            assert sorted(batch) == sorted(fields) and batch.samples == pictures.samples
            assert bool((batch["image"] == pictures["image"]).all())
            for field in ("json", "npy", "bin"):
                assert all(type(part) is bytes for part in batch[field])
                assert batch[field] == [samples[i][field] for i in batch.samples]
            assert batch["txt"] == [samples[i]["txt"].decode() for i in batch.samples]
            assert batch["label"].tolist() == [i % 3 for i in batch.samples]
            seen += batch.samples
        assert len(set(seen)) == 8
        stats = loader.stats()
        assert stats["local"] == 8 and stats["store_reads"] == 4 * 8


def test_alone_on_ranks_and_resumed(pairs: pathlib.Path, samples: list[Sample]) -> None:
    """Without pictures no worker program is needed; order and state are what they are for pictures."""
    options: dict[str, Any] = {"fields": ["jpg", "npy"], "last": "pad", "worker": "/nonexistent"}
    renamed = pairs.parent / "renamed"
    run("index", pairs.parent / "shards", "-o", renamed, "--field", "jpg=jpg", "--field", "npy=npy")
    with open_loader(renamed, **options) as loader:
        whole = [(batch.samples, batch["jpg"], batch["npy"]) for _ in range(2) for batch in loader]
        assert loader.worker_cpu_seconds() == 0
    assert len(whole) == 6
    for ids, pictures, arrays in whole:
        assert pictures == [samples[i]["jpg"] for i in ids] and arrays == [samples[i]["npy"] for i in ids]
    halves = []
    for rank in range(2):
        with open_loader(renamed, rank=rank, world_size=2, **options) as loader:
            halves.append([batch["npy"] for batch in loader])
            state = loader.state_dict()
    assert [a + b for a, b in zip(*halves, strict=True)] == [arrays for _, _, arrays in whole[:3]]
    with open_loader(renamed, **options) as loader:
        loader.load_state_dict(state)
        assert [batch["jpg"] for batch in loader] == [pictures for _, pictures, _ in whole[3:]]


def test_memory_goes_back(pairs: pathlib.Path) -> None:
    """The bytes are the caller's: of a batch that is held, only tensors keep memory of the loader."""
    with open_loader(pairs, fields=["npy", "label"], epochs=1, prefetch=1) as loader:
        held = list(loader)
        assert loader.stats()["mappings"] == len(held) == 2
        labels = held[0]["label"].clone()
        del held[1]
        assert loader.stats()["mappings"] == 1
    assert torch.equal(held[0]["label"], labels) and len(held[0]["npy"][0]) > 100


def test_records_have_them(pairs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "record.jsonl"
    with open_loader(pairs, fields=["bin", "json"], record=path) as loader:
        batches = {batch.step: batch for batch in loader}
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(records) == 8
    for record in records:
        for field in record["fields"]:
            part = batches[record["step"]][field["name"]][record["position"]]
            assert (field["dtype"], field["shape"]) == ("bytes", [])
            assert field["sha256"] == hashlib.sha256(part).hexdigest()
    assert len(run("digest", path).split()[0]) == 64


def test_inside_a_torch_dataloader(pairs: pathlib.Path, samples: list[Sample]) -> None:
    with open_loader(pairs, fields=["npy"]) as loader:
        wrapped = torch.utils.data.DataLoader(loader, batch_size=None, num_workers=0)
        for batch in wrapped:
            assert batch["npy"] == [samples[i]["npy"] for i in batch.samples]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fields": ["npz"]}, r'fields: "npz": the dataset has \[.*npy \(media\).*txt \(utf8\)'),
        (
            {"transform": {"image": PLAN}},
            r'media field "json" has no plan: give it one with transform=, or leave it out',
        ),
        ({"fields": ["image", "npy"], "transform": PLAN}, r"one plan for the media fields \[image npy\]: give a plan"),
        ({"fields": ["npy"], "transform": {"label": PLAN}}, r'"label" is no media field'),
    ],
)
def test_mistakes(pairs: pathlib.Path, changes: dict, message: str) -> None:
    with pytest.raises(stepahead.OptionError, match=message):
        open_loader(pairs, **changes)


def test_a_sample_that_lacks_a_field(samples: list[Sample], tmp_path: pathlib.Path) -> None:
    lacking = [{field: part for field, part in s.items() if i != 2 or field != "npy"} for i, s in enumerate(samples)]
    write_tar(tmp_path / "shards" / "0.tar", lacking)
    with pytest.raises(AssertionError, match=r"000002.*has no field npy"):
        run("index", tmp_path / "shards", "-o", tmp_path / "set")
    run("index", tmp_path / "shards", "-o", tmp_path / "set", "--skip-incomplete")
    with open_loader(tmp_path / "set", fields=["npy"], shuffle=False, global_batch=9) as loader:
        assert next(iter(loader))["npy"] == [s["npy"] for i, s in enumerate(samples) if i != 2]


def test_a_shard_that_changed(samples: list[Sample], tmp_path: pathlib.Path) -> None:
    write_tar(tmp_path / "shards" / "0.tar", samples)
    run("index", tmp_path / "shards", "-o", tmp_path / "set")
    write_tar(tmp_path / "shards" / "0.tar", samples)
    with (
        open_loader(tmp_path / "set", fields=["npy"]) as loader,
        pytest.raises(stepahead.StepaheadError, match="index it again"),
    ):
        next(iter(loader))


def deliver(dataset: pathlib.Path, fields: list[str]) -> list[tuple[bytes | str, ...]]:
    """All samples of a dataset, in its order."""
    with open_loader(dataset, fields=fields, global_batch=1, shuffle=False, output="numpy") as loader:
        return [tuple(batch[field][0] for field in fields) for batch in loader]


def test_mosaic_as_its_own_reader(tmp_path: pathlib.Path) -> None:
    """expect.json was made with mosaicml-streaming."""
    expect = json.loads((MOSAIC / "expect.json").read_text())["testdata/rich"]
    fields = ["a_bytes", "fixed", "image", "js", "nd", "nd_u8", "odd", "pkl", "png"]
    rich = tmp_path / "rich"
    rich.mkdir()
    for file in (MOSAIC / "rich").iterdir():
        (rich / file.name).write_bytes(file.read_bytes())
    run("index", rich, "-o", tmp_path / "set", "--media", "a_str")
    got = deliver(tmp_path / "set", [*fields, "a_str"])
    columns = ["a.bytes", *fields[1:], "a_str"]
    assert got == [tuple(bytes.fromhex(sample[column]) for column in columns) for sample in expect]


@pytest.mark.parametrize("name", ["tendata.tar", "mpdata.tar", "testgz.tar"])
def test_webdatasets_own_archives(name: str, tmp_path: pathlib.Path) -> None:
    shard = tmp_path / name
    shard.write_bytes(real(f"tar/webdataset/{name}").read_bytes())
    run("index", shard, "-o", tmp_path / "set")
    with tarfile.open(shard) as tar:
        members = [m for m in tar if m.isfile()]
        want = [(tar.extractfile(m).read(),) for m in members]  # type: ignore[union-attr]
    field = members[0].name.partition(".")[2].replace(".", "_")
    assert len(want) > 5 and deliver(tmp_path / "set", [field]) == want


def test_real_sounds_videos_and_arrays(tmp_path: pathlib.Path) -> None:
    """A tar file of pairs, and the same as plain files with --group and packed."""
    sounds = sorted(real("audio/librispeech").glob("*.wav"))
    videos = sorted(real("video").rglob("*.mp4"), key=lambda p: (p.stat().st_size, p))
    want = [(s.read_bytes(), v.read_bytes()) for s, v in zip(sounds, videos, strict=False)]
    pairs = [{"wav": wav, "mp4": mp4} for wav, mp4 in want]
    assert len(pairs) > 2
    write_tar(tmp_path / "shards" / "0.tar", pairs)
    (tmp_path / "files").mkdir()
    for i, pair in enumerate(pairs):
        for field, content in pair.items():
            (tmp_path / "files" / f"{i}.{field}").write_bytes(content)
    run("index", tmp_path / "shards", "-o", tmp_path / "tar")
    run("index", tmp_path / "files", "--group", "-o", tmp_path / "grouped")
    run("pack", tmp_path / "shards", "-o", tmp_path / "packed")
    for dataset in ("tar", "grouped", "packed"):
        assert deliver(tmp_path / dataset, ["wav", "mp4"]) == want


def records(path: pathlib.Path) -> list[bytes]:
    payloads = []
    with open(path, "rb") as file:
        while head := file.read(12):
            payloads.append(file.read(struct.unpack("<Q", head[:8])[0]))
            file.read(4)
    return payloads


EXAMPLE = """
message BytesList { repeated bytes value = 1; }
message FloatList { repeated float value = 1 [packed = true]; }
message Int64List { repeated int64 value = 1 [packed = true]; }
message Feature { oneof kind { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; } }
message Features { map<string, Feature> feature = 1; }
message Example { Features features = 1; }
"""


def example_class(folder: pathlib.Path) -> Any:
    """tf.train.Example, compiled from its definition."""
    (folder / "example.proto").write_text(f'syntax = "proto3";\npackage tensorflow;\n{EXAMPLE}')
    arguments = ["protoc", f"-I{folder}", f"--descriptor_set_out={folder}/example.pb", "example.proto"]
    assert protoc.main(arguments) == 0
    files = descriptor_pb2.FileDescriptorSet.FromString((folder / "example.pb").read_bytes())
    return message_factory.GetMessages(files.file)["tensorflow.Example"]


def test_real_tfrecords(tmp_path: pathlib.Path) -> None:
    shard = tmp_path / "morris.tfrecord"
    shard.write_bytes(real("shards/grain/morris_sequence_first_5.tfrecord").read_bytes())
    run("index", shard, "-o", tmp_path / "set")
    want = records(shard)
    got = [payload for (payload,) in deliver(tmp_path / "set", ["record"])]
    assert len(got) == 5 and got == want


def code_blocks() -> dict[str, str]:
    """The examples of the section, by the dataset that they open."""
    section = PAGE.read_text().split("## Fields that are no pictures")[1].split("\n## ")[0]
    found = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    return {re.search(r'"datasets/(\w+)"', code)[1]: code for code in found}  # type: ignore[index]


def test_the_page_is_right(samples: list[Sample], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the examples of docs/datasets.md as a reader would."""
    blocks = code_blocks()
    assert set(blocks) == {"pairs", "mosaic", "records"}
    monkeypatch.chdir(tmp_path)
    write_tar(tmp_path / "shards" / "0000.tar", samples[:4])
    write_tar(tmp_path / "shards" / "0001.tar", samples[4:8], 4)
    index = re.search(
        r"stepahead (index 'shards/.*--media json)\n", PAGE.read_text().split("## Fields that are no pictures")[1]
    )
    assert index
    run(*index[1].replace("'", "").split())
    names: dict[str, Any] = {}
    exec(compile(blocks["pairs"], str(PAGE), "exec"), names)
    assert names["images"].shape == (4, 3, 224, 224) and names["vectors"].shape == (4, 16)
    assert names["captions"] == [f"grün {i}" for i in names["batch"].samples]

    (tmp_path / "rich").mkdir()
    for file in (MOSAIC / "rich").iterdir():
        (tmp_path / "rich" / file.name).write_bytes(file.read_bytes())
    run("index", "rich", "-o", "datasets/mosaic", "--field", "meta=js", "--field", "box=fixed")
    exec(compile(blocks["mosaic"], str(PAGE), "exec"), names)
    assert names["metas"] == [{"n": i, "text": "x"} for i in names["batch"].samples]
    assert names["boxes"].tolist() == [[[-i] * 3] * 2 for i in names["batch"].samples]

    example = example_class(tmp_path)
    monkeypatch.setitem(
        sys.modules,
        "tensorflow",
        types.SimpleNamespace(train=types.SimpleNamespace(Example=example)),  # type: ignore[arg-type]
    )
    payloads = []
    for i in range(4):
        made = example()
        made.features.feature["n"].int64_list.value.append(i)
        made.features.feature["name"].bytes_list.value.append(b"x" * i)
        payloads.append(made.SerializeToString())
    write_tfrecord(tmp_path / "a.tfrecord", payloads)
    run("index", "a.tfrecord", "-o", "datasets/records")
    exec(compile(blocks["records"], str(PAGE), "exec"), names)
    values = [e.features.feature["n"].int64_list.value[0] for e in names["examples"]]
    assert values == names["batch"].samples and len(values) == 2


def write_tfrecord(path: pathlib.Path, payloads: list[bytes]) -> None:
    with open(path, "wb") as out:
        for payload in payloads:
            head = struct.pack("<Q", len(payload))
            out.write(head + struct.pack("<I", masked(head)) + payload + struct.pack("<I", masked(payload)))


def masked(data: bytes) -> int:
    """The checksum that TFRecord has: CRC32C, turned and shifted."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32
