"""The provider for Megatron, driven by megatron-core itself: here in one process, and by megatron_ranks.py in several."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from conftest import run
from megatron.core import parallel_state as mpu
from megatron.core.datasets.gpt_dataset import _get_ltor_masks_and_position_ids
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
from megatron_job import LENGTH, arguments
from stepahead import OptionError, StepaheadError, Tokens, megatron
from stepahead._megatron_batches import MicroBatch, MicroBatches, padded_boundaries
from stepahead._megatron_masks import Masks, masks_of
from stepahead._megatron_state import state_file


def random_batch(seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    text = torch.randint(0, 6, (3, LENGTH + 1), generator=generator)
    return {
        "tokens": text[:, :-1].contiguous(),
        "labels": text[:, 1:].contiguous(),
        "loss_mask": torch.ones(3, LENGTH),
        "position_ids": torch.arange(LENGTH).expand(3, LENGTH).contiguous(),
    }


@pytest.mark.parametrize("seed", range(40))
def test_masks_are_megatrons(seed: int) -> None:
    names = ("reset_position_ids", "reset_attention_mask", "eod_mask_loss", "create_attention_mask")
    options = dict(zip(names, random.Random(seed).choices((False, True), k=4), strict=True))
    eod, pad = 2, 3
    batch = random_batch(seed)
    got = Masks(eod=eod, pad=pad, **options)(batch)
    for row in range(3):
        tokens, labels = batch["tokens"][row].clone(), batch["labels"][row].clone()
        mask, loss, positions = _get_ltor_masks_and_position_ids(tokens, eod, *options.values())
        loss[labels == pad] = 0.0
        tokens[tokens == pad] = 0
        labels[labels == pad] = 0
        want = {"tokens": tokens, "labels": labels, "loss_mask": loss, "position_ids": positions}
        if options["create_attention_mask"]:
            want["attention_mask"] = mask
        assert got.keys() == want.keys()
        for name, tensor in want.items():
            assert got[name][row].dtype == tensor.dtype and torch.equal(got[name][row], tensor), name
    assert all(t.is_contiguous() for t in got.values())


def test_masks_without_the_end_of_documents() -> None:
    with pytest.raises(OptionError, match="eod"):
        Masks(eod_mask_loss=True)


@pytest.mark.parametrize("seed", range(20))
def test_boundaries_of_packs(seed: int) -> None:
    rng = random.Random(seed)
    rows = [sorted({0, *(rng.randrange(LENGTH) for _ in range(rng.randrange(4)))}) for _ in range(4)]
    flat = torch.tensor([LENGTH * i + at for i, row in enumerate(rows) for at in row] + [4 * LENGTH], dtype=torch.int32)
    boundaries, longest = padded_boundaries(flat, slice(1, 3), LENGTH)
    assert boundaries.dtype == longest.dtype == torch.int32
    for got, most, row in zip(boundaries.tolist(), longest.tolist(), rows[1:3], strict=True):
        ends = [*row, LENGTH]
        assert got == ends + [LENGTH] * (LENGTH + 1 - len(ends))
        assert most == max(b - a for a, b in itertools.pairwise(ends))


class Batch(dict):
    step: int
    samples: list[int]


class Loader:
    """The face of stepahead.DataLoader that the provider uses, over numbers in the place of tokens."""

    def __init__(self, datasets: Any, **options: Any) -> None:
        self.datasets, self.options, self.closed = datasets, options, False
        self.step, self.epoch_steps = 0, 5
        self.rows = options["global_batch"] // options["world_size"]

    def __len__(self) -> int:
        return self.epoch_steps

    def __iter__(self) -> Any:
        yield from iter(self.next, None) if self.step % self.epoch_steps else self.epoch()

    def epoch(self) -> Any:
        for _ in range(self.epoch_steps):
            yield self.next()

    def next(self) -> Batch | None:
        first = self.step * self.options["global_batch"] + self.options["rank"] * self.rows
        batch = Batch(tokens=torch.arange(first, first + self.rows)[:, None].expand(self.rows, LENGTH).contiguous())
        batch["labels"], batch["position_ids"] = batch["tokens"] + 1, batch["tokens"]
        batch["loss_mask"] = torch.ones(self.rows, LENGTH)
        batch.step, batch.samples = self.step, list(range(first, first + self.rows))
        self.step += 1
        return batch

    def state_dict(self) -> dict[str, str]:
        state = {"epoch": self.step // self.epoch_steps, "step": self.step}
        return {"stepahead": json.dumps(state, separators=(",", ":"))}

    def state_at(self, step: int) -> dict[str, str]:
        return {"stepahead": json.dumps({"step": step})}

    def load_state_dict(self, state: dict[str, str]) -> None:
        self.step = json.loads(state["stepahead"])["step"]

    def close(self) -> None:
        self.closed = True


def micro_batches(**options: Any) -> MicroBatches:
    loader = Loader("d", global_batch=8, rank=0, world_size=2)
    return MicroBatches(loader, 2, 2, dict, **options)


def test_micro_batches_go_on_for_ever() -> None:
    it = micro_batches()
    assert iter(it) is it and len(it) == 10
    seen = [next(it) for _ in range(24)]
    assert [b.step for b in seen] == [i // 2 for i in range(24)]
    assert [b.samples for b in seen[:4]] == [[0, 1], [2, 3], [8, 9], [10, 11]]
    assert all(b["tokens"].shape == (2, LENGTH) for b in seen)


def test_an_order_that_ends() -> None:
    it = micro_batches(ends=True)
    for _ in range(10):
        next(it)
    with pytest.raises(StepaheadError, match="used up"):
        next(it)


def test_no_state_inside_an_iteration() -> None:
    it = micro_batches()
    assert json.loads(it.save_state()["stepahead"])["step"] == 0
    next(it)
    with pytest.raises(StepaheadError, match="1 of the 2 micro batches"):
        it.save_state()
    next(it)
    assert json.loads(it.save_state()["stepahead"])["step"] == 1


@pytest.fixture(scope="module")
def one_process() -> Iterator[None]:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    mpu.initialize_model_parallel()
    yield
    mpu.destroy_model_parallel()
    torch.distributed.destroy_process_group()


def opened(request: list[int], **changes: Any) -> dict[str, Loader]:
    """The loaders that the provider opens for Megatron's arguments."""
    provide = megatron.provider(args=arguments(**changes), tokenizer=object(), loader=Loader, locate=lambda p: p + "!")
    parts = zip(("train", "valid", "test"), provide(request), strict=True)
    return {name: part.loader for name, part in parts if part is not None}


@pytest.mark.usefixtures("one_process")
def test_arguments_of_megatron(tmp_path: pathlib.Path) -> None:
    loaders = opened([64, 16, 8])
    assert [loader.datasets for loader in loaders.values()] == [{"0": "a!", "1": "b!"}] * 3
    order = loaders["valid"].options["tokens"].order
    assert order == megatron.Order(16, 1234, "valid", "969,30,1", [0.7, 0.3], 0.005, 2)
    assert {loader.options["job"].partition("/")[2] for loader in loaders.values()} == {"", "valid", "test"}

    assert opened([64, 0, 0]).keys() == {"train"}
    assert opened([64, 16, 8], split="99,1,0").keys() == {"train", "valid"}
    apart = opened([64, 16, 8], data_path=None, split=None, train_data_path=["x"], valid_data_path=["1", "y"])
    assert {name: loader.datasets for name, loader in apart.items()} == {"train": "x!", "valid": "y!"}
    assert apart["valid"].options["tokens"].order.split is None
    (tmp_path / "words").write_text("0.2 c\n0.8 d\n")
    words = opened([64, 0, 0], data_path=None, data_args_path=tmp_path / "words")
    assert words["train"].datasets == {"0": "c!", "1": "d!"}
    (tmp_path / "parts").write_text(json.dumps({"train": ["1", "e", "2", "f"], "valid": ["g"], "test": None}))
    (tmp_path / "texts").write_text(json.dumps({"train": "1 e 2 f", "valid": "g", "test": None}))
    parts = opened([64, 16, 8], data_path=None, split=None, per_split_data_args_path=tmp_path / "parts")
    assert {name: loader.datasets for name, loader in parts.items()} == {"train": {"0": "e!", "1": "f!"}, "valid": "g!"}
    texts = opened([64, 16, 8], data_path=None, split=None, per_split_data_args_path=tmp_path / "texts")
    assert {name: loader.datasets for name, loader in texts.items()} == {"train": {"0": "e!", "1": "f!"}, "valid": "g!"}
    later = opened([64, 16, 8], consumed_valid_samples=8, consumed_train_samples=24, iteration=3, load="there")
    assert [loader.step for loader in later.values()] == [3, 1, 0]


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"dataloader_type": "single"}, "must be external"),
        ({"dataloader_type": "cyclic"}, "torch.randperm"),
        ({"rampup_batch_size": [8, 8, 100]}, "one global batch"),
        ({"fim_data": True}, "fill in the middle"),
        ({"drop_last_partial_validation_sequence": False}, "float32"),
        ({"global_batch_size": 7}, "train: global batch 7: must be a multiple"),
        ({"eval_global_batch_size": 8, "eval_micro_batch_size": 3}, "valid: global batch 8: must be a multiple"),
        ({"split": None}, "--split"),
        ({"data_args_path": "words"}, "one of them"),
        ({"consumed_train_samples": 7, "iteration": 1, "load": "x"}, "consumed_train_samples=7"),
        ({"data_path": None}, "no data"),
    ],
)
def test_arguments_that_cannot_work(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        opened([64, 16, 8], **changes)


PACKS: dict[str, Any] = {"micro_batch_size": 1, "create_attention_mask_in_dataloader": False}


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, None),
        ({"micro_batch_size": 2}, "must be 1 for packs"),
        ({"create_attention_mask_in_dataloader": True}, "--no-create-attention-mask-in-dataloader"),
        ({"seq_length": 2 * LENGTH}, "is not --seq-length"),
    ],
)
def test_packs_as_megatron_takes_them(changes: dict[str, Any], text: str | None) -> None:
    packs = Tokens(LENGTH, packing="best-fit")
    given = arguments(**{**PACKS, **changes})
    provide = megatron.provider({"train": "d"}, tokens=packs, args=given, tokenizer=object(), loader=Loader)
    if text is None:
        assert provide([8, 8, 8])[0].loader.options["tokens"] == packs
    else:
        with pytest.raises(OptionError, match=text):
            provide([8, 8, 8])


@pytest.mark.usefixtures("one_process")
def test_what_was_opened_is_closed_if_the_start_fails() -> None:
    opened: list[Loader] = []

    def loader(*args: Any, **options: Any) -> Loader:
        if opened:
            raise StepaheadError("no valid part")
        opened.append(Loader(*args, **options))
        return opened[0]

    with pytest.raises(StepaheadError, match="no valid part"):
        megatron.provider(args=arguments(), tokenizer=object(), loader=loader)([64, 16, 8])
    assert [it.closed for it in opened] == [True]


def test_replayed_batches_are_read_without_pickles_of_classes(tmp_path: pathlib.Path) -> None:
    batch = MicroBatch(tokens=torch.arange(6).view(2, 3))
    batch.step, batch.samples = 4, [1, 2]
    torch.save({"saved_microbatches": [batch]}, tmp_path / "rerun")
    (read,) = torch.load(tmp_path / "rerun", weights_only=True)["saved_microbatches"]
    assert list(read) == ["tokens"] and torch.equal(read["tokens"], batch["tokens"])


def test_the_newest_state_of_an_iteration(tmp_path: pathlib.Path) -> None:
    for i, stage in enumerate(("00_001", "00", "00_000")):
        path = tmp_path / "iter_0000007" / f"mp_rank_{stage}" / "train_dataloader_dprank000.pt"
        path.parent.mkdir(parents=True)
        path.touch()
        os.utime(path, (i, i))
    assert "mp_rank_00_000/" in state_file(str(tmp_path), 7)


class Special:
    eod, eos = 2, 2
    special_tokens_dict: ClassVar = {"eos_token": 2, "pad_token": 5}

    def __init__(self, pad: int) -> None:
        self.pad = pad


def test_padding_that_means_something_else_too() -> None:
    assert masks_of(arguments(), Special(5)).pad == 5
    assert masks_of(arguments(), Special(2)).pad == -1
    assert masks_of(arguments(allow_ambiguous_pad_tokens=True), Special(2)).pad == 2
    assert masks_of(arguments(), object()).pad == -1


def write_tokens(prefix: pathlib.Path, sequences: int, seed: int) -> None:
    """A Megatron pair, and its dataset beside it."""
    rng = np.random.default_rng(seed)
    builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=np.uint16)
    for _ in range(sequences):
        builder.add_item(torch.from_numpy(rng.integers(0, 60, rng.integers(0, 40))))
        builder.end_document()
    builder.finalize(f"{prefix}.idx")
    run("index", f"{prefix}.idx", "-o", f"{prefix}.stepahead")


@pytest.mark.timeout(600)  # processes import Megatron for seconds, and on a busy machine for minutes
def test_driven_by_megatron_core(tmp_path: pathlib.Path, dataset: pathlib.Path) -> None:
    """Four processes under megatron-core's parallel state, in several layouts."""
    write_tokens(tmp_path / "a", 120, 1)
    write_tokens(tmp_path / "b", 70, 2)
    script = pathlib.Path(__file__).with_name("megatron_ranks.py")
    ranks = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), str(tmp_path), str(dataset)],
        capture_output=True,
        text=True,
        timeout=550,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert ranks.returncode == 0, ranks.stderr[-10000:]


def example(*given: object) -> subprocess.Popen[str]:
    script = pathlib.Path(__file__).parents[3] / "examples" / "train_megatron.py"
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", str(script), *map(str, given)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def lines(process: subprocess.Popen[str]) -> list[str]:
    out, err = process.communicate(timeout=250)
    assert process.returncode == 0, err
    return out.splitlines()


def killed_and_resumed(tmp_path: pathlib.Path, iterations: int, last: int, *given: object) -> None:
    """Runs the example as a whole, and beside it one that is killed behind an iteration and started again: both take the same
    batches and have the same losses."""
    given = (*given, "--train-iters", iterations, "--save-interval", 4)
    whole, killed = (example(*given, "--save", tmp_path / name) for name in ("whole", "killed"))
    assert killed.stdout is not None
    for line in killed.stdout:
        if line.startswith(f"iteration {last} "):
            break
    killed.kill()
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    saved = int((tmp_path / "killed" / "latest_checkpointed_iteration.txt").read_text())
    assert 0 < saved < iterations
    want = lines(whole)
    assert len(want) == iterations
    assert lines(example(*given, "--save", tmp_path / "killed")) == want[saved:]


@pytest.mark.timeout(600)
def test_example_of_text(tmp_path: pathlib.Path) -> None:
    write_tokens(tmp_path / "a", 300, 3)
    write_tokens(tmp_path / "b", 300, 4)
    blend = ("0.7", tmp_path / "a", "0.3", tmp_path / "b")
    killed_and_resumed(tmp_path, 50, 15, "--data-path", *blend, "--seq-length", 16, "--vocab-size", 64)


@pytest.mark.timeout(600)
def test_example_of_pictures(tmp_path: pathlib.Path, dataset: pathlib.Path) -> None:
    killed_and_resumed(tmp_path, 30, 7, "--pictures", dataset, "--seq-length", 12)
