"""Checkpoints that torch wrote, read by ours and by torch's own: the same bits, and the same refusals or better ones."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import pickle
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import weakref
from collections.abc import Callable
from typing import Any

import checkpoint_ranks
import pytest
import ranks
import stepahead
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from conftest import real
from safetensors.torch import save_file
from stepahead import _stores, checkpoint, filesystem
from stepahead.checkpoint import _local, _metadata, _safetensors, _tensors, _writer
from stepahead.checkpoint._opened import Opened
from test_hdfs import hdfs, minihdfs  # noqa: F401  the cluster
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.planner import LoadPlanner


@pytest.fixture(params=["folder", "hdfs"])
def root(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> str:
    """A folder, or one of HDFS, as its address."""
    if request.param == "folder":
        return str(tmp_path)
    cluster = request.getfixturevalue("hdfs")
    return f"{cluster.url}/user/{cluster.user}/{tmp_path.name}"


@pytest.mark.timeout(600)
def test_every_number_of_ranks_and_every_sharding(root: str) -> None:
    loads = ranks.run(4, checkpoint_ranks.everything, root, timeout=550)
    assert loads == [2 * 9 * 9] * 4


def some_state(make: Callable[[torch.Tensor], torch.Tensor] = torch.clone) -> dict[str, Any]:
    """Tensors of many kinds; the first is read in two steps, the others at once."""
    generator = torch.Generator().manual_seed(5)
    tensors = {
        "long": torch.randn(2200, 1024, generator=generator),
        "turned": torch.randn(6, 4, generator=generator).t(),
        "every other": torch.arange(40)[::2],
        "bfloat16": torch.randn(9, generator=generator).bfloat16(),
        "float8": torch.randn(9, generator=generator).to(torch.float8_e4m3fn),
        "bool": torch.tensor([True, False, True]),
        "complex": torch.randn(3, generator=generator, dtype=torch.complex64),
        "scalar": torch.tensor(2.5),
        "empty": torch.empty(0, 3),
        "parameter": torch.nn.Parameter(torch.randn(5, generator=generator)),
        "view of a view": torch.randn(10, 10, generator=generator)[2:5, 3:9],
    }
    return {name: make(tensor.detach()) for name, tensor in tensors.items()}


def save(path: pathlib.Path, state: dict[str, Any]) -> pathlib.Path:
    dcp.save(state, storage_writer=dcp.FileSystemWriter(path), no_dist=True)
    return path


def load(path: object, state: dict[str, Any], planner: LoadPlanner | None = None) -> dict[str, Any]:
    dcp.load(state, storage_reader=checkpoint.Reader(str(path)), planner=planner, no_dist=True)
    return state


def bits(tensor: torch.Tensor) -> tuple[Any, ...]:
    flat = tensor.detach().contiguous().flatten()
    return tensor.dtype, tensor.shape, flat.view(torch.uint8).numpy().tobytes()


class Others(dcp.DefaultLoadPlanner):
    """A planner that counts on a commit right after its tensor was asked for, as Megatron's does."""

    asked: Any = None

    def resolve_tensor(self, read_item: Any) -> torch.Tensor:
        assert self.asked is None
        self.asked = read_item
        return super().resolve_tensor(read_item)

    def commit_tensor(self, read_item: Any, tensor: torch.Tensor) -> None:
        assert self.asked is read_item
        self.asked = None


@pytest.mark.parametrize("planner", [dcp.DefaultLoadPlanner, Others])
def test_all_kinds_of_tensors(
    tmp_path: pathlib.Path, planner: type[LoadPlanner], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_tensors, "_STAGED_BYTES", 100)
    state = some_state()
    save(tmp_path / "a", {**state, "values": {"step": 7, "names": ["a", "b"]}})
    with torch.no_grad():
        loaded = load(
            tmp_path / "a", {**some_state(torch.zeros_like), "values": {"step": 0, "names": ["", ""]}}, planner()
        )
    assert loaded.pop("values") == {"step": 7, "names": ["a", "b"]}
    for name, tensor in state.items():
        assert bits(loaded[name]) == bits(tensor), name


def test_targets_of_every_kind(tmp_path: pathlib.Path) -> None:
    # What is in memory in another way than in the file: another dtype, other strides, two names of one memory.
    stored = torch.randn(64, 48)
    save(tmp_path / "a", {"a": stored, "b": stored.clone(), "c": stored, "d": stored})
    shared = torch.zeros(64, 48)
    wanted = {"a": torch.zeros(48, 64).t(), "b": torch.zeros(64, 48, dtype=torch.float64), "c": shared, "d": shared}
    versions = {name: tensor._version for name, tensor in wanted.items()}
    load(tmp_path / "a", wanted)
    assert all(torch.equal(tensor.float(), stored) for tensor in wanted.values())
    assert all(tensor._version > versions[name] for name, tensor in wanted.items())


def test_autograd_sees_the_load(tmp_path: pathlib.Path) -> None:
    save(tmp_path / "a", {"w": torch.ones(3)})
    weight = torch.zeros(3, requires_grad=True)
    target = weight.detach()
    result = (weight * weight).sum()
    load(tmp_path / "a", {"w": target})
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()


def test_only_a_part(tmp_path: pathlib.Path) -> None:
    save(tmp_path / "a", some_state())
    loaded = load(tmp_path / "a", {"scalar": torch.tensor(0.0)})
    assert loaded["scalar"] == 2.5
    with pytest.raises(CheckpointException, match="none"):
        load(tmp_path / "a", {"none": torch.zeros(1)})
    planner = dcp.DefaultLoadPlanner(allow_partial_load=True)
    assert load(tmp_path / "a", {"none": torch.ones(1), "scalar": torch.zeros(())}, planner)["scalar"] == 2.5


def test_without_collectives(tmp_path: pathlib.Path) -> None:
    writer = dcp.FileSystemWriter(tmp_path / "a")
    dcp.save(some_state(), storage_writer=writer, no_dist=True, use_collectives=False)
    assert not (tmp_path / "a" / ".metadata").exists()
    loaded = load(tmp_path / "a", some_state(torch.zeros_like))
    assert all(bits(loaded[name]) == bits(tensor) for name, tensor in some_state().items())


def saves_apart(path: str) -> list[str]:
    """What comes of saves of this rank without collectives: the first, one over it, one that may replace it."""
    rank = dist.get_rank()
    results = []
    for overwrite in (False, False, True):
        writer = checkpoint.Writer(path, overwrite=overwrite)
        planner = Intruded(path) if rank == 0 else None
        try:
            dcp.save({f"of {rank}": torch.ones(4)}, storage_writer=writer, planner=planner, use_collectives=False)
            results.append("")
        except stepahead.StepaheadError as error:
            results.append(str(error))
        dist.barrier()
        results.append(
            " ".join(sorted(file.name for file in pathlib.Path(path).glob("[_.]*m*") if file.stat().st_size))
        )
        dist.barrier()
    return results


class Intruded(dcp.DefaultSavePlanner):
    """A planner in whose saves another one tries to save into the same path."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def finish_plan(self, new_plan: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_writer, "_PATIENCE_SECONDS", -1.0)
            with pytest.raises(stepahead.StepaheadError, match="another save into the same path is under way"):
                _writer._Save(self._path, begin=True, overwrite=True)
        return super().finish_plan(new_plan)


def test_ranks_that_save_without_collectives(tmp_path: pathlib.Path) -> None:
    """The first of them holds the path and removes what a killed save left, of ranks that are no more too, before any other writes."""
    for name in ("__0_0.distcp", "__1_0.distcp", "__3_0.distcp", "__3_1.distcp"):
        (tmp_path / name).write_bytes(b"of a killed save")
    files = "__0.metadata __1.metadata"
    for told in ranks.run(2, saves_apart, str(tmp_path)):
        first, there, second, still_there, third, there_again = told
        assert (first, third) == ("", "") and there == still_there == there_again == files
        assert "metadata is that of a complete save" in second
    assert {file.name for file in tmp_path.glob("*.distcp")} == {"__0_0.distcp", "__1_0.distcp"}


class Forbidden:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch ran",)


def spoil(name: str, path: pathlib.Path, other: pathlib.Path) -> None:
    metadata, shard = path / ".metadata", path / "__0_0.distcp"
    match name:
        case "a shard is missing":
            shard.unlink()
        case "a shard is cut":
            shard.write_bytes(shard.read_bytes()[:-1])
        case "a shard is longer":
            shard.write_bytes(shard.read_bytes() + b"x")
        case "a shard of another step":
            shutil.copy(other / shard.name, shard)
        case "metadata is cut":
            metadata.write_bytes(metadata.read_bytes()[:-40])
        case "metadata is missing":
            metadata.unlink()
        case "a save is under way":
            (path / ".metadata.tmp").write_bytes(b"")
        case "a forbidden global":
            metadata.write_bytes(pickle.dumps(Forbidden()))


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("a shard is missing", "file-missing: __0_0.distcp"),
        ("a shard is cut", "file-short"),
        ("a shard is longer", "file-long"),
        ("a shard of another step", "another save|the file holds"),
        ("metadata is cut", r"\.metadata"),
        ("metadata is missing", "metadata-missing"),
        ("a save is under way", "save-in-flight"),
        ("a forbidden global", "system"),
    ],
)
def test_a_spoilt_checkpoint_says_what_is_wrong(tmp_path: pathlib.Path, what: str, says: str) -> None:
    path = save(tmp_path / "a", {"w": torch.zeros(30, 7), "v": torch.arange(5)})
    other = save(tmp_path / "b", {"w": torch.zeros(7, 30), "v": torch.arange(5)})
    spoil(what, path, other)
    with pytest.raises(CheckpointException, match=says) as caught:
        load(path, {"w": torch.ones(30, 7), "v": torch.ones(5, dtype=torch.int64)})
    assert str(path) in str(caught.value)
    assert not pathlib.Path("ran").exists()


def test_one_wrong_byte_is_found(tmp_path: pathlib.Path) -> None:
    values = torch.arange(1000, dtype=torch.int64)
    path = save(tmp_path / "a", {"w": values})
    shard = path / "__0_0.distcp"
    data = bytearray(shard.read_bytes())
    data[data.index(values.numpy().tobytes()) + 4000] ^= 1
    shard.write_bytes(data)
    with pytest.raises(CheckpointException, match=r"__0_0.distcp.*tensor \"w\".*CRC-32"):
        load(path, {"w": torch.zeros(1000, dtype=torch.int64)})


def test_the_unpickler_itself_refuses(tmp_path: pathlib.Path) -> None:
    # The native module has refused such a file before; this is the second door.
    for hostile in (Forbidden(), os.system, pathlib.PurePath, subprocess.Popen, torch.load, getattr):
        data = pickle.dumps(hostile)
        with pytest.raises(stepahead.CheckpointError):
            _metadata.loads(data, "x")
    assert not pathlib.Path("ran").exists()
    with pytest.raises(stepahead.CheckpointError, match="not whole"):
        _metadata.loads(b"\x80\x04", "x")


def test_shapes_that_differ_are_both_named(tmp_path: pathlib.Path) -> None:
    save(tmp_path / "a", {"w": torch.zeros(30, 7)})
    with pytest.raises(CheckpointException, match=r"30, 7.*7, 30|7, 30.*30, 7"):
        load(tmp_path / "a", {"w": torch.zeros(7, 30)})


def test_overwritten_after_the_metadata_was_read(tmp_path: pathlib.Path) -> None:
    path = save(tmp_path / "a", some_state())
    reader = checkpoint.Reader(path)
    metadata = reader.read_metadata()
    reader.set_up_storage_reader(metadata, True)
    planner = dcp.DefaultLoadPlanner()
    planner.set_up_planner(some_state(torch.zeros_like), metadata, True)
    plan = reader.prepare_local_plan(planner.create_local_plan())
    save(tmp_path / "a", some_state())
    with pytest.raises(stepahead.IdentityError, match=r"__0_0\.distcp") as caught:
        reader.read_data(plan, planner)
    assert len(caught.value.diff) == 2
    reader.reset()
    dcp.load(some_state(torch.zeros_like), storage_reader=reader, no_dist=True)


def test_ranks_with_different_versions(tmp_path: pathlib.Path) -> None:
    plans = []
    for _ in range(2):
        path = save(tmp_path / "a", some_state())
        reader = checkpoint.Reader(path)
        metadata = reader.read_metadata()
        planner = dcp.DefaultLoadPlanner()
        planner.set_up_planner(some_state(torch.zeros_like), metadata, True)
        plans.append(reader.prepare_local_plan(planner.create_local_plan()))
    with pytest.raises(stepahead.IdentityError, match="rank 1 has another version than rank 0"):
        reader.prepare_global_plan(plans)
    assert reader.prepare_global_plan(plans[1:]) and len(reader.prepare_global_plan([plans[1]] * 3)) == 3


def test_what_several_ranks_want_is_found(tmp_path: pathlib.Path) -> None:
    path = save(tmp_path / "a", {"a": torch.zeros(8), "b": torch.zeros(8), "c": torch.zeros(8)})
    reader = checkpoint.Reader(path)
    metadata = reader.read_metadata()
    plans = []
    for names in ("abc", "ab", "bc"):
        planner = dcp.DefaultLoadPlanner()
        planner.set_up_planner({name: torch.zeros(8) for name in names}, metadata, True)
        plans.append(reader.prepare_local_plan(planner.create_local_plan()))
    for plan, want in zip(reader.prepare_global_plan(plans), ("a|b|c", "a|b", "b|c"), strict=True):
        sets = ["".join(plan.items[i].storage_index.fqn for i in one) for one in plan.storage_data.together]
        assert sorted(sets) == want.split("|")


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    begin = "import sys, os\nimport torch, torch.distributed.checkpoint as dcp\nfrom stepahead import checkpoint\n"
    return ranks.program(begin + textwrap.dedent(code), *arguments)


def test_after_fork_it_says_what_to_do(tmp_path: pathlib.Path) -> None:
    save(tmp_path / "a", {"w": torch.arange(3)})
    out = run(
        """
        reader = checkpoint.Reader(sys.argv[1])
        reader.read_metadata()
        if os.fork() == 0:
            try:
                reader.read_data(reader.prepare_local_plan(dcp.LoadPlan([])), dcp.DefaultLoadPlanner())
                checkpoint.Reader(sys.argv[1]).read_metadata()
            except Exception as error:
                print(type(error).__name__, error, flush=True)
            os._exit(0)
        os.wait()
        state = {"w": torch.zeros(3, dtype=torch.int64)}
        dcp.load(state, storage_reader=reader, no_dist=True)
        print(state["w"].tolist())
        """,
        tmp_path / "a",
    )
    assert "ForkError" in out.stdout and "spawn" in out.stdout and "[0, 1, 2]" in out.stdout, out.stdout + out.stderr


def test_a_fork_during_a_load(tmp_path: pathlib.Path) -> None:
    """The child says what to do, and the load goes on as if nothing had been."""
    state = {"w": torch.arange(400_000)}
    save(tmp_path / "a", state)
    (tmp_path / ".stepahead").mkdir()
    node = {"name": "slow", "rack": "/r", "latency_us": 0, "bandwidth_bytes_per_s": 4_000_000}
    topology = {"nodes": [node], "block_size": 1 << 27, "replication": 1}
    (tmp_path / ".stepahead" / "store.json").write_text(json.dumps(topology))
    out = run(
        """
        import threading
        from stepahead import _stores
        reading = threading.Event()
        begin = _stores.Store.begin
        def begin_and_say(store, operation, **arguments):
            call = begin(store, operation, **arguments)
            if operation == "read boxes":
                reading.set()
            return call
        _stores.Store.begin = begin_and_say
        state = {"w": torch.zeros(400_000, dtype=torch.int64)}
        reader = checkpoint.Reader(sys.argv[1])
        loading = threading.Thread(target=dcp.load, args=(state,), kwargs={"storage_reader": reader, "no_dist": True})
        loading.start()
        reading.wait(60)
        child = os.fork()
        if child == 0:
            try:
                checkpoint.Reader(sys.argv[1]).read_metadata()
            except Exception as error:
                print(type(error).__name__, flush=True)
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), "while loading" if loading.is_alive() else "too late")
        loading.join()
        print(torch.equal(state["w"], torch.arange(400_000)))
        """,
        tmp_path / "a",
    )
    assert out.stdout.split("\n") == ["ForkError", "7 while loading", "True", ""], out.stdout + out.stderr


def test_ctrl_c_ends_a_load(tmp_path: pathlib.Path) -> None:
    save(tmp_path / "a", {"w": torch.arange(100_000)})
    (tmp_path / ".stepahead").mkdir()
    node = {"name": "slow", "rack": "/r", "latency_us": 0, "bandwidth_bytes_per_s": 2000}
    topology = {"nodes": [node], "block_size": 1 << 27, "replication": 1}
    code = """
        import sys, signal, torch, torch.distributed.checkpoint as dcp
        from stepahead import _binding, checkpoint
        signal.signal(signal.SIGINT, signal.default_int_handler)
        reader = checkpoint.Reader(sys.argv[1])
        metadata = reader.read_metadata()
        open(sys.argv[2], "w").write(sys.argv[3])
        reader = checkpoint.Reader(sys.argv[1])
        begin = reader._open().store.begin
        planner = dcp.DefaultLoadPlanner()
        planner.set_up_planner({"w": torch.zeros(100_000, dtype=torch.int64)}, metadata, True)
        reader.set_up_storage_reader(metadata, True)
        plan = planner.create_local_plan()
        def begin_and_say(operation, **arguments):
            call = begin(operation, **arguments)
            print("reading", flush=True)
            return call
        reader._open().store.begin = begin_and_say
        try:
            reader.read_data(plan, planner)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """
    arguments = [str(tmp_path / "a"), str(tmp_path / ".stepahead" / "store.json"), json.dumps(topology)]
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "reading\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    assert process.wait(timeout=60) == 0


def write(path: object, state: dict[str, Any], **options: Any) -> None:
    dcp.save(state, storage_writer=checkpoint.Writer(str(path), **options), no_dist=True)


def listed(path: str) -> set[str]:
    store = _stores.Store(path)
    return {info["name"].rpartition("/")[2] for info in store.call("list", name=store.name)}


def test_torch_reads_what_ours_writes(root: str) -> None:
    for threads in (1, 3):
        path = f"{root}/{threads}"
        state = {**some_state(), "values": {"step": 7}}
        write(path, state, thread_count=threads)
        empty = {**some_state(torch.zeros_like), "values": {"step": 0}}
        if "://" in root:
            reader: Any = dcp.FsspecReader(path.replace("hdfs://", "stepahead://"))
        else:
            reader = dcp.FileSystemReader(path)
        dcp.load(empty, storage_reader=reader, no_dist=True)
        assert empty["values"] == {"step": 7}
        assert all(bits(empty[name]) == bits(tensor) for name, tensor in some_state().items())
        assert listed(path) == {".metadata", *(f"__0_{i}.distcp" for i in range(threads))}
    assert checkpoint.latest(root) == f"{root}/3"


def test_saves_in_the_background(tmp_path: pathlib.Path) -> None:
    dcp.async_save(some_state(), storage_writer=checkpoint.Writer(tmp_path / "a"), no_dist=True).result()
    loaded = load(tmp_path / "a", some_state(torch.zeros_like))
    assert all(bits(loaded[name]) == bits(tensor) for name, tensor in some_state().items())


def test_a_complete_checkpoint_is_not_overwritten_unasked(root: str) -> None:
    path = f"{root}/a"
    write(path, {"w": torch.ones(3)})
    with pytest.raises(CheckpointException, match=r"\.metadata.*exist|exist.*\.metadata"):
        write(path, {"w": torch.zeros(3)})
    assert load(path, {"w": torch.zeros(3)})["w"].tolist() == [1, 1, 1]
    write(path, {"w": torch.full((3,), 2.0)}, overwrite=True)
    assert load(path, {"w": torch.zeros(3)})["w"].tolist() == [2, 2, 2]


class Failing(dcp.DefaultSavePlanner):
    def resolve_data(self, write_item: Any) -> Any:
        raise ZeroDivisionError("a planner that fails")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_save_that_fails_leaves_no_checkpoint(root: str, threads: int) -> None:
    path = f"{root}/step-2"
    write(f"{root}/step-1", {"w": torch.ones(3)})
    with pytest.raises(CheckpointException):
        writer = checkpoint.Writer(path, thread_count=threads)
        dcp.save({"w": torch.ones(3), "v": torch.ones(4)}, storage_writer=writer, planner=Failing(), no_dist=True)
    with pytest.raises(CheckpointException):
        load(path, {"w": torch.zeros(3)})
    assert checkpoint.latest(root) == f"{root}/step-1"
    write(path, {"w": torch.ones(3)})
    assert checkpoint.latest(root) == f"{root}/step-2"


def test_a_killed_save_leaves_no_checkpoint(root: str) -> None:
    code = """
        class Killed(dcp.DefaultSavePlanner):
            count = 0
            def resolve_data(self, write_item):
                self.count += 1
                if self.count == 3:
                    os.kill(os.getpid(), 9)
                return super().resolve_data(write_item)
        writer = checkpoint.Writer(sys.argv[1])
        state = {f"t{i}": torch.zeros(1 << 20) for i in range(4)}
        dcp.save(state, storage_writer=writer, planner=Killed(), no_dist=True)
        """
    assert run(code, f"{root}/step-2").returncode == -signal.SIGKILL
    with pytest.raises((stepahead.CheckpointError, stepahead.NotFoundError)):
        checkpoint.latest(root)


def test_a_shard_that_vanishes_before_the_commit(tmp_path: pathlib.Path) -> None:
    class Removing(checkpoint.Writer):
        def finish(self, *arguments: Any, **options: Any) -> None:
            (tmp_path / "a" / "__0_0.distcp").unlink()
            super().finish(*arguments, **options)

    with pytest.raises(CheckpointException, match=r"__0_0\.distcp was stored and is not there"):
        dcp.save({"w": torch.ones(3)}, storage_writer=Removing(tmp_path / "a"), no_dist=True)
    assert not (tmp_path / "a" / ".metadata").exists()


def weights() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(9)
    return {
        "embedding": torch.randn(100, 33, generator=generator),
        "norm": torch.randn(33, generator=generator).bfloat16(),
        "float8": torch.randn(8, generator=generator).to(torch.float8_e5m2),
        "counts": torch.arange(7),
        "empty": torch.empty(3, 0),
        "scalar": torch.tensor(1.5),
    }


def write_saves(folder: pathlib.Path) -> pathlib.Path:
    folder.mkdir()
    torch.save({"a": torch.ones(1)}, folder / "rank_0.pt")
    return folder


def write_set(folder: pathlib.Path) -> pathlib.Path:
    """Two files with an index, and what else from_pretrained reads."""
    folder.mkdir(parents=True)
    tensors = weights()
    names = sorted(tensors)
    parts = {f"model-0000{i + 1}-of-00002.safetensors": names[i::2] for i in range(2)}
    for file, some in parts.items():
        save_file({name: tensors[name] for name in some}, folder / file, {"format": "pt"})
    total = sum(tensor.nbytes for tensor in tensors.values())
    weight_map = {name: file for file, some in parts.items() for name in some}
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text("{}")
    (folder / "optimizer.pt").write_bytes(b"long")
    return folder


def put(folder: pathlib.Path, root: str) -> str:
    """A folder's files at a root, and where that is."""
    if "://" not in root:
        return str(folder)
    fs = filesystem.FileSystem(store=root[: root.index("/", 7)])
    for file in folder.iterdir():
        fs.put_file(str(file), f"{root[root.index('/', 7) :]}/{folder.name}/{file.name}")
    return f"{root}/{folder.name}"


def test_safetensors(root: str, tmp_path: pathlib.Path) -> None:
    path = put(write_set(tmp_path / "set"), root)
    loaded = checkpoint.load_safetensors(path)
    assert loaded.keys() == weights().keys()
    assert all(bits(loaded[name]) == bits(tensor) for name, tensor in weights().items())
    some = checkpoint.load_safetensors(path, names=["norm", "counts"], dtype=torch.float32)
    assert list(some) == ["norm", "counts"]
    assert bits(some["norm"]) == bits(weights()["norm"].float()) and some["counts"].dtype == torch.int64
    expected = {name: tensor.to("meta") for name, tensor in weights().items()}
    assert checkpoint.load_safetensors(path, names=expected).keys() == weights().keys()
    one = checkpoint.load_safetensors(f"{path}/model-00001-of-00002.safetensors")
    assert len(one) == 3
    on_meta = checkpoint.load_safetensors(path, device="meta", names=["embedding"])
    assert on_meta["embedding"].device.type == "meta"


def test_only_asked_tensors_are_described(tmp_path: pathlib.Path) -> None:
    path = write_set(tmp_path / "set")
    opened = Opened(path, tensors=True, names=["norm", "no such tensor"])
    assert [tensor["name"] for tensor in opened.tensors] == ["norm"]
    opened.close()
    assert checkpoint.load_safetensors(path, names=[]) == {}


def test_safetensors_to_a_gpu(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the way to a GPU, which is played here, tensors lie in pinned memory, a bounded part of them at a time."""
    path = write_set(tmp_path / "set")
    most = 5000
    monkeypatch.setattr(_safetensors, "_STAGED_BYTES", most)
    empty, to = torch.empty, torch.Tensor.to
    pinned: weakref.WeakSet[torch.Tensor] = weakref.WeakSet()
    peak = 0

    def pin(*shape: Any, pin_memory: bool = False, **options: Any) -> torch.Tensor:
        nonlocal peak
        made = empty(*shape, **options)
        if pin_memory:
            pinned.add(made)
            peak = max(peak, sum(tensor.nbytes for tensor in pinned))
        return made

    def move(tensor: torch.Tensor, *, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
        assert device == torch.device("cuda", 1) and any(tensor is one for one in pinned)
        return to(tensor, dtype).clone()

    monkeypatch.setattr(torch, "empty", pin)
    monkeypatch.setattr(torch.Tensor, "to", move)
    loaded = checkpoint.load_safetensors(path, device="cuda:1", dtype=torch.float16)
    monkeypatch.undo()
    for name, tensor in weights().items():
        assert bits(loaded[name]) == bits(tensor.half() if tensor.is_floating_point() else tensor), name
    longest = max(tensor.nbytes for tensor in weights().values())
    assert longest < peak <= 2 * most + longest and not pinned


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"names": ["embeding"]}, "no tensor embeding: it has embedding"),
        ({"names": {"tied": torch.empty(1)}}, "no tensor tied.*strict=False"),
        ({"names": {"norm": torch.empty(34, dtype=torch.bfloat16)}}, r"\[33\].*\[34\]"),
        ({"names": {"norm": torch.empty(33)}}, "bfloat16.*float32"),
        ({"names": {"counts": torch.empty(7)}, "dtype": torch.float16}, "int64.*float32"),
        ({"names": "norm"}, "list of str"),
        ({"dtype": torch.int8}, "floating-point"),
        ({"device": "moon"}, "moon"),
    ],
)
def test_safetensors_refused(tmp_path: pathlib.Path, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(stepahead.StepaheadError, match=says):
        checkpoint.load_safetensors(write_set(tmp_path / "set"), **arguments)


def test_safetensors_spoilt(tmp_path: pathlib.Path) -> None:
    for number, (file, data, says) in enumerate(
        [
            ("model-00002-of-00002.safetensors", None, "file-missing"),
            ("model-00002-of-00002.safetensors", b"\x08\0\0\0\0\0\0\0{}", "model-00002"),
            ("model.safetensors.index.json", b'{"weight_map": {"a": "../a.safetensors"}}', r"\.\./a"),
            ("model.safetensors.index.json", b"{", "index.json"),
        ]
    ):
        folder = write_set(tmp_path / str(number))
        (folder / file).unlink()
        if data is not None:
            (folder / file).write_bytes(data)
        with pytest.raises(stepahead.CheckpointError, match=says):
            checkpoint.load_safetensors(folder)
    with pytest.raises(stepahead.NotFoundError):
        checkpoint.load_safetensors(tmp_path / "none")
    with pytest.raises(stepahead.CheckpointError, match="Reader"):
        checkpoint.load_safetensors(save(tmp_path / "dcp", weights()))
    with pytest.raises(stepahead.CheckpointError, match="load_safetensors"):
        checkpoint.Reader(write_set(tmp_path / "last")).read_metadata()


def test_safetensors_of_other_programs() -> None:
    from safetensors.torch import load_file

    files = sorted(real("checkpoints").rglob("*.safetensors"))
    read = 0
    for file in files:
        try:
            theirs = load_file(file)
        except Exception:  # one that is to be refused
            continue
        ours = checkpoint.load_safetensors(file)
        assert {name: bits(tensor) for name, tensor in ours.items()} == {n: bits(t) for n, t in theirs.items()}, file
        read += 1
    assert read > 0


def test_files_that_are_links(tmp_path: pathlib.Path) -> None:
    """As in the cache of Hugging Face's hub."""
    blobs, snapshot = write_set(tmp_path / "blobs"), tmp_path / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    for number, file in enumerate(sorted(blobs.iterdir())):
        file.rename(blobs / str(number))
        (snapshot / file.name).symlink_to(f"../../blobs/{number}")
    assert checkpoint.load_safetensors(snapshot).keys() == weights().keys()
    assert len(checkpoint.load_safetensors(snapshot / "model-00001-of-00002.safetensors")) == 3
    with checkpoint.local(snapshot) as folder:
        assert folder == str(snapshot)


@pytest.mark.parametrize("name", ["checkpoint-500", "tmp_step", "step.tmp", "step"])
def test_names_that_say_it_is_not_complete(tmp_path: pathlib.Path, name: str) -> None:
    path = write_set(tmp_path / name)
    if name == "step":
        (tmp_path / "step-unfinished").touch()
    with pytest.raises(stepahead.CheckpointError, match=r"trainer_state\.json|unfinished"):
        checkpoint.load_safetensors(path)


def test_local(root: str, tmp_path: pathlib.Path) -> None:
    path = put(write_set(tmp_path / "set"), root)
    kept = {"model-00001-of-00002.safetensors", "model.safetensors.index.json", "config.json", "tokenizer.json"}
    cache = tmp_path / "cache"
    with checkpoint.local(path, cache_dir=cache) as folder, checkpoint.local(path, cache_dir=cache) as again:
        assert folder == again
        names = {entry.name for entry in pathlib.Path(folder).iterdir() if not entry.name.startswith(".")}
        assert names >= kept
        if "://" in root:
            assert "optimizer.pt" not in names
            folder_of_saves = put(write_saves(tmp_path / "saves"), root)
            with pytest.raises(stepahead.CheckpointError, match=r"of the layout torch; files=\['\*'\] takes all"):
                checkpoint.local(folder_of_saves, cache_dir=cache).__enter__()
            with checkpoint.local(path, files=["optimizer.pt"], cache_dir=cache) as more:
                assert (pathlib.Path(more) / "optimizer.pt").read_bytes() == b"long"
        digests = {name: hashlib.sha256((pathlib.Path(folder) / name).read_bytes()).digest() for name in kept}
        assert digests == {name: hashlib.sha256((tmp_path / "set" / name).read_bytes()).digest() for name in kept}
    if "://" in root:
        assert not pathlib.Path(folder).exists() and not list(cache.iterdir())
    else:
        assert folder == str(tmp_path / "set")


class Elsewhere(Opened):
    """A checkpoint whose files are taken to be on other machines."""

    def __init__(self, path: Any, **options: Any) -> None:
        super().__init__(path, **options)
        self.remote = True


def test_a_folder_of_copies_may_have_other_files(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_local, "Opened", Elsewhere)
    source, cache = write_set(tmp_path / "set"), tmp_path / "cache"
    (cache / "poetry").mkdir(parents=True)
    (cache / "0123456789abcdef0123456789abcdef").mkdir()
    names = ["poetry.lock", "poetry/code.py", "0123456789abcdef0123456789abcdef.lock"]
    for name in names:
        (cache / name).write_text("somebody's own")
    with checkpoint.local(source, cache_dir=cache):
        pass
    assert all((cache / name).exists() for name in names)


def test_a_copy_that_fails_leaves_nothing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_local, "Opened", Elsewhere)
    source, cache = write_set(tmp_path / "set"), tmp_path / "cache"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError, match=r"cache_dir.*safetensors"), checkpoint.local(source, cache_dir=cache):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert not list(cache.iterdir())


def test_a_local_copy_of_a_killed_process_goes(hdfs: Any, tmp_path: pathlib.Path) -> None:  # noqa: F811
    root = f"{hdfs.url}/user/{hdfs.user}/{tmp_path.name}"
    first, second = put(write_set(tmp_path / "one"), root), put(write_set(tmp_path / "two"), root)
    cache = tmp_path / "cache"
    code = "held = checkpoint.local(sys.argv[1], cache_dir=sys.argv[2]); held.__enter__(); os.kill(os.getpid(), 9)"
    assert run(code, first, cache).returncode == -signal.SIGKILL
    assert list(cache.iterdir())
    with checkpoint.local(second, cache_dir=cache):
        pass
    assert not list(cache.iterdir())
