"""Every mistake is an exception of a class that says whose it is, with a text that says what to do."""

from __future__ import annotations

import ast
import inspect
import pathlib
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
import stepahead
from stepahead import _binding
from stepahead import transforms as T
from stepahead._errors import _CLASSES, InternalError, from_native

CROP = T.Compose([T.DecodeImage(), T.CenterCrop(64)])


def open_loader(dataset: pathlib.Path, **changes: object) -> stepahead.DataLoader:
    options: dict = {"global_batch": 8, "transform": CROP, "workers": 1}
    return stepahead.DataLoader(dataset, **(options | changes))


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"global_batch": None}, "global_batch"),
        ({"batch_size": 4}, "batch_size"),
        ({"global_batch": 9, "rank": 0, "world_size": 2}, "9"),
        ({"global_batch": 1000}, "1000"),
        ({"rank": 3}, "world_size"),
        ({"rank": 2, "world_size": 2}, "rank"),
        ({"shuffle": "sorted"}, "shuffle"),
        ({"last": "keep"}, "last"),
        ({"on_bad": "ignore"}, "on_bad"),
        ({"layout": "nhwc"}, "layout"),
        ({"output": "jax"}, "output"),
        ({"log_level": "loud"}, "log_level"),
        ({"fields": ["image", "depth"]}, "depth"),
        ({"transform": None}, "image"),
        ({"transform": T.Compose([T.DecodeImage()])}, "size"),
        ({"seed": 1.5}, "seed"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, r"seed=\d+: must be at most 18446744073709551615"),
        ({"global_batch": 10**30}, r"global_batch=\d+: must be at most 9223372036854775807"),
        ({"workers": -(10**30)}, r"workers=-\d+: must be at least"),
        ({"fields": []}, "names no field"),
        ({"seed": b"4"}, "seed"),
        ({"global_batch": "8"}, "global_batch"),
        ({"global_batch": True}, "global_batch"),
        ({"rank": 0, "world_size": 0}, "world_size"),
        ({"rank": 0, "world_size": "2"}, "world_size"),
        ({"workers": 10**6}, "workers"),
        ({"epochs": 0}, "epochs=0: must be at least 1"),
        ({"temperature": 0}, "temperature=0: must be more than 0"),
        ({"fetch_deadline": 0}, r"fetch_deadline=0\.0: must be more than 0"),
        ({"order": "given", "shuffle": "full"}, 'shuffle: "full": the steps are given'),
        ({"order": "given", "epochs": 2}, "epochs: 2: the steps are given"),
        ({"prefetch": float("nan")}, "prefetch"),
        ({"fetch_deadline": float("inf")}, "fetch_deadline"),
        ({"fetch_deadline": 1e300}, "fetch_deadline"),
        ({"fields": "image"}, "fields"),
        ({"fields": [5]}, "fields"),
        ({"agents": 5}, "agents"),
        ({"agents": ["nohost"]}, "agents"),
        ({"agents": ["127.0.0.1:1"], "ca": "/nonexistent"}, "/nonexistent"),
        ({"agents": ["127.0.0.1:1"], "client_cert": "/x", "client_key": "/y"}, "authority"),
        ({"ca": 5}, "ca"),
        ({"layout": object()}, "layout"),
        ({"node": "nowhere"}, "nowhere"),
        ({"record": 5}, "record"),
        ({"transform": 5}, "transform"),
        ({"job": b"x"}, "job"),
    ],
)
def test_options(dataset: pathlib.Path, changes: dict, names: str) -> None:
    with pytest.raises(stepahead.OptionError, match=names):
        next(iter(open_loader(dataset, **changes)))


@pytest.mark.parametrize("name", [None, 5, "", "a\0b"])
def test_dataset_is_no_path(name: object) -> None:
    with pytest.raises(stepahead.OptionError, match="dataset"):
        open_loader(name)  # type: ignore[arg-type]


def test_numbers_of_numpy_are_numbers(dataset: pathlib.Path) -> None:
    plan = T.Compose([T.DecodeImage(), T.RandomResizedCrop(np.int64(32), scale=np.array([0.5, 1.0], np.float32))])
    eight, one = np.int64(8), np.int32(1)
    with open_loader(dataset, global_batch=eight, transform=plan, seed=one, prefetch=one, epochs=one) as loader:
        assert next(iter(loader))["image"].shape == (8, 3, 32, 32)


@pytest.mark.parametrize("state", [None, {}, {"stepahead": None}, {"stepahead": b"{}"}, [], {"stepahead": "{"}])
def test_not_a_state(dataset: pathlib.Path, state: object) -> None:
    with open_loader(dataset) as loader, pytest.raises(stepahead.DatasetError, match="state"):
        loader.load_state_dict(state)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("plan", "names"),
    [
        ({"plan": 1, "ops": [{"op": "DecodeImage"}, {"op": "Rotate"}]}, "Rotate"),
        ({"plan": 1, "ops": [{"op": "DecodeImage"}, {"op": "CenterCrop", "size": [64, 64], "colour": 1}]}, "colour"),
        ({"plan": 9, "ops": []}, "plan"),
        (T.Compose([T.CenterCrop(64)]), "DecodeImage"),
        ("{", "JSON"),
        ("[" * 10**6, "deeper"),
        ({"plan": 1, "ops": [object()]}, "JSON"),
        (T.Compose([T.DecodeImage(), T.Normalize([float("nan")] * 3, [1, 1, 1])]), "JSON"),
    ],
)
def test_plans(dataset: pathlib.Path, plan: object, names: str) -> None:
    with pytest.raises(stepahead.PlanError, match=names):
        open_loader(dataset, transform=plan)


def test_missing_dataset(tmp_path: pathlib.Path) -> None:
    with pytest.raises(stepahead.StoreError, match="nowhere"):
        open_loader(tmp_path / "nowhere")


def test_damaged_dataset(dataset: pathlib.Path, tmp_path: pathlib.Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(dataset, copy)
    (copy / "dataset.json").write_text('{"format": 7}')
    with pytest.raises(stepahead.DatasetError, match=r"dataset\.json"):
        open_loader(copy)


def test_missing_worker(dataset: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(stepahead.WorkerError, match="no-such-worker"):
        open_loader(dataset, worker=tmp_path / "no-such-worker")


def test_digest_of_a_plan() -> None:
    assert len(CROP.digest) == 64
    assert CROP.digest == T.Compose([T.DecodeImage(mode="RGB"), T.CenterCrop([64, 64])]).digest
    with pytest.raises(stepahead.PlanError):
        _ = T.Compose([T.DecodeImage(), T.CenterCrop(0)]).digest
    with pytest.raises(TypeError, match="Compose takes operators"):
        T.Compose([lambda x: x])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"a list of operators, got Resize\(size=9,.*write Compose\(\["):
        T.Compose(T.Resize(9))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a list of operators, got 7"):
        T.Compose(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"RandomApply takes a list of operators, got GaussianBlur"):
        T.RandomApply(T.GaussianBlur(3))  # type: ignore[arg-type]
    assert len(T.Compose(op for op in [T.DecodeImage(), T.Resize(9)])) == 2  # type: ignore[arg-type]


def test_codes_become_classes() -> None:
    for code, cls in _CLASSES.items():
        assert type(from_native(RuntimeError(f"{code}: text: more"))) is cls
        assert str(from_native(RuntimeError(f"{code}: text: more"))) == "text: more"
    assert type(from_native(RuntimeError("panic: index out of range"))) is InternalError


def damage(dataset: pathlib.Path, target: pathlib.Path) -> None:
    """A copy with one wrong byte in the middle of its first bin."""
    shutil.copytree(dataset, target)
    path = min(target.glob("*.bin"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def test_bad_sample_has_attributes(dataset: pathlib.Path, tmp_path: pathlib.Path) -> None:
    damage(dataset, tmp_path / "photos")
    with open_loader(tmp_path / "photos", on_bad="raise") as loader, pytest.raises(stepahead.BadSampleError) as caught:
        for _ in loader:
            pass
    error = caught.value
    assert error.sample is not None
    assert error.key is not None
    assert error.key.endswith(".jpg")
    assert (error.field, error.kind) == ("image", "checksum")
    assert error.bin is not None
    assert error.bin.endswith(".bin")
    assert error.offset is not None
    assert f"sample {error.sample} (key" in str(error)
    assert "\n" not in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.key, again.kind) == (str(error), error.key, error.kind)
    assert stepahead.BadSampleError("text").key is None


def test_substitutions_are_listed(dataset: pathlib.Path, tmp_path: pathlib.Path) -> None:
    damage(dataset, tmp_path / "photos")
    with open_loader(tmp_path / "photos", last="pad") as loader:
        for _ in loader:
            pass
        listed = loader.stats()["substitutions"]
    assert listed
    assert set(listed[0]["substitute"]) == {"source", "epoch", "sample", "position", "key"}
    assert listed[0]["substitute"]["key"].endswith(".jpg")
    assert listed[0]["bad"]["kind"] == "checksum"


def test_stub_is_what_was_built() -> None:
    native = _binding.native()
    stub = pathlib.Path(stepahead.__file__).parent / "_native" / "pybind.pyi"
    declared = {
        node.name: [argument.arg for argument in node.args.args]
        for node in ast.parse(stub.read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    built = {
        name: [p for p in inspect.signature(function).parameters if p != "goRun"]
        for name, function in inspect.getmembers(native, inspect.isfunction)
        if name[0].isupper() and not name.startswith("Ptr_")
    }
    assert declared == built


def cut(index: pathlib.Path) -> None:
    with index.open("r+b") as f:
        f.truncate(100)


def fill_with_zeros(index: pathlib.Path) -> None:
    size = index.stat().st_size
    with index.open("r+b") as f:
        f.write(bytes(size))


@pytest.mark.parametrize("spoil", [cut, fill_with_zeros])
def test_an_index_changed_in_place_stops_the_run(
    dataset: pathlib.Path, tmp_path: pathlib.Path, spoil: Callable[[pathlib.Path], None]
) -> None:
    mine = pathlib.Path(shutil.copytree(dataset, tmp_path / "photos"))
    with (
        open_loader(mine, epochs=None) as loader,
        pytest.raises(stepahead.IdentityError, match="identity changed") as caught,
    ):
        next(iter(loader))
        spoil(*mine.glob("*.arrow"))
        while True:
            for batch in loader:
                assert len(batch["label"]) == 8
    opened, now = caught.value.diff
    assert opened.startswith("opened as inode ") and now.startswith("now inode ")
    assert str(next(mine.glob("*.arrow"))) in str(caught.value) and "nil pointer" not in str(caught.value)


def test_a_cut_index_ends_no_program_with_a_fault_handler(dataset: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """One that is enabled after ours takes memory faults, and ends the program."""
    mine = pathlib.Path(shutil.copytree(dataset, tmp_path / "photos"))
    program = """
import faulthandler, os, sys
import stepahead
loader = stepahead.DataLoader(sys.argv[1], global_batch=8, fields=["label"], epochs=None)
next(iter(loader))
faulthandler.enable()
os.truncate(sys.argv[2], 0)
try:
    while True:
        for _ in loader: pass
except stepahead.IdentityError as error:
    print(error)
"""
    command = [sys.executable, "-c", program, str(mine), *map(str, mine.glob("*.arrow"))]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0 and "identity changed" in result.stdout, result.stderr
