"""Batches of tokens against NumPy slices of the same files."""

from __future__ import annotations

import itertools
import pathlib
import re

import numpy as np
import pytest
import stepahead
import torch
from conftest import run
from stepahead import Tokens, megatron
from stepahead import transforms as T

CODES = {"uint16": 8, "int32": 4}
Stream = np.ndarray


def write_pair(prefix: pathlib.Path, lengths: list[int], dtype: str) -> Stream:
    """A Megatron pair of random tokens; returns them as one array."""
    tokens = np.random.default_rng(len(lengths)).integers(1, 50000, sum(lengths)).astype(dtype)
    prefix.with_suffix(".bin").write_bytes(tokens.tobytes())
    sizes = np.array(lengths, "<i8")
    pointers = (np.cumsum(sizes) - sizes) * tokens.itemsize
    head = b"MMIDIDX\x00\x00" + np.array([1], "<u8").tobytes() + bytes([CODES[dtype]])
    head += np.array([len(lengths), len(lengths) + 1], "<u8").tobytes()
    body = sizes.astype("<i4").tobytes() + pointers.tobytes() + np.arange(len(lengths) + 1, dtype="<i8").tobytes()
    prefix.with_suffix(".idx").write_bytes(head + body)
    return tokens


LENGTHS = [700, 0, 1, 33, 1200, 5, 5, 410, 64, 128, 0, 77]


@pytest.fixture(scope="module", params=CODES)
def corpus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, Stream]:
    folder = tmp_path_factory.mktemp("tokens")
    tokens = write_pair(folder / "corpus", LENGTHS, request.param)
    run("index", folder / "corpus.idx", "-o", folder / "dataset")
    return folder / "dataset", tokens


def test_windows_are_slices_of_the_file(corpus: tuple[pathlib.Path, Stream]) -> None:
    dataset, tokens = corpus
    length = 64
    stream = torch.from_numpy(tokens.astype(np.int64))
    seen: list[int] = []
    with stepahead.DataLoader(dataset, global_batch=4, seed=3, tokens=Tokens(length, vocab_size=50000)) as loader:
        assert len(loader) == (len(tokens) - 1) // length // 4
        for batch in loader:
            assert list(batch) == ["tokens", "labels", "loss_mask", "position_ids"]
            for row, sample in enumerate(batch.samples):
                window = stream[sample * length : (sample + 1) * length + 1]
                assert torch.equal(batch["tokens"][row], window[:-1])
                assert torch.equal(batch["labels"][row], window[1:])
            assert batch["loss_mask"].dtype == torch.float32 and bool((batch["loss_mask"] == 1).all())
            assert torch.equal(batch["position_ids"], torch.arange(length).expand(4, length))
            batch["labels"][:] = -100  # memory of its own
            assert int(batch["tokens"].min()) > 0
            seen += batch.samples
    assert len(set(seen)) == len(seen) == len(loader) * 4 and seen != sorted(seen)


def test_packs_hold_every_token_once(corpus: tuple[pathlib.Path, Stream]) -> None:
    dataset, tokens = corpus
    length = 100
    fields = ["tokens", "labels", "loss_mask", "position_ids", "cu_seqlens", "document_ids"]
    inputs, labels = [], 0
    with stepahead.DataLoader(
        dataset, global_batch=2, seed=3, last="pad", tokens=Tokens(length, packing="best-fit"), fields=fields
    ) as loader:
        samples: set[int] = set()
        for batch in loader:
            assert batch["cu_seqlens"].dtype == torch.int32
            bounds = batch["cu_seqlens"].tolist()
            assert bounds[0] == 0 and bounds[-1] == 2 * length
            flat = {name: batch[name].flatten() for name in fields if name != "cu_seqlens"}
            for first, end in itertools.pairwise(bounds):
                n = end - first
                assert flat["position_ids"][first:end].tolist() == list(range(n))
                assert len(set(flat["document_ids"][first:end].tolist())) == 1
                mask = flat["loss_mask"][first:end]
                if flat["document_ids"][first] < 0:
                    assert not mask.any() and not flat["tokens"][first:end].any()
                    continue
                assert bool((mask[:-1] == 1).all())
                assert torch.equal(flat["labels"][first : end - 1], flat["tokens"][first + 1 : end])
                row = first // length
                if batch.samples[row] not in samples:
                    inputs += flat["tokens"][first:end].tolist()
                    labels += int(mask.sum())
            samples |= set(batch.samples)
    assert sorted(inputs) == sorted(tokens.tolist())
    assert labels == len(tokens) - sum(n > 0 for n in LENGTHS)


@pytest.mark.parametrize("packing", ["windows", "chunk", "best-fit"])
def test_resume_goes_on_with_the_next_token(corpus: tuple[pathlib.Path, Stream], packing: str) -> None:
    dataset, _ = corpus
    options: dict = {"global_batch": 4, "seed": 5, "tokens": Tokens(50, packing=packing)}

    def steps(loader: stepahead.DataLoader, count: int) -> list[torch.Tensor]:
        out: list[torch.Tensor] = []
        while len(out) < count:
            for batch in loader:
                out.append(batch["tokens"].clone())
                if len(out) == count:
                    break
        return out

    with stepahead.DataLoader(dataset, **options) as loader:
        want = steps(loader, 17)
    with stepahead.DataLoader(dataset, **options) as loader:
        steps(loader, 6)
        state = loader.state_dict()
    for world in (1, 2):
        parts = []
        for rank in range(world):
            with stepahead.DataLoader(dataset, **options, rank=rank, world_size=world) as loader:
                loader.load_state_dict(state)
                parts.append(steps(loader, 11))
        for got, expected in zip(zip(*parts, strict=True), want[6:], strict=True):
            assert torch.equal(torch.cat(got), expected)
    with (
        stepahead.DataLoader(dataset, **(options | {"tokens": Tokens(51, packing=packing)})) as loader,
        pytest.raises(stepahead.IdentityError, match="sequence length"),
    ):
        loader.load_state_dict(state)


def test_numpy_output(corpus: tuple[pathlib.Path, Stream]) -> None:
    dataset, tokens = corpus
    options: dict = {"shuffle": False, "output": "numpy", "tokens": Tokens(32), "fields": ["tokens"]}
    with stepahead.DataLoader(dataset, batch_size=3, **options) as loader:
        batch = next(iter(loader))
    np.testing.assert_array_equal(batch["tokens"], tokens[: 3 * 32].astype(np.int64).reshape(3, 32))


def test_wrong_arguments(corpus: tuple[pathlib.Path, Stream], tmp_path: pathlib.Path) -> None:
    dataset, tokens = corpus
    for arguments in ({"sequence_length": 0}, {"sequence_length": 8, "packing": "none"}, {"sequence_length": 8.5}):
        with pytest.raises(stepahead.OptionError):
            Tokens(**arguments)  # type: ignore[arg-type]
    with pytest.raises(stepahead.OptionError, match="packing='chunk': order="):
        Tokens(8, packing="chunk", order=megatron.Order(samples=10))
    order = Tokens(8, order=megatron.Order(samples=10, split="1,0,0"))
    with pytest.raises(stepahead.OptionError, match="seed: 0: Megatron's order has its own"):
        stepahead.DataLoader(dataset, batch_size=1, tokens=order, seed=0)
    with pytest.raises(stepahead.OptionError, match="shuffle"):
        stepahead.DataLoader(dataset, batch_size=1, tokens=order, shuffle=True)
    for name, value in {"layout": "contiguous", "workers": 2, "worker": "w", "on_bad": "substitute"}.items():
        with pytest.raises(stepahead.OptionError, match=f"{name}: {value}: .*: leave it out"):
            stepahead.DataLoader(dataset, batch_size=1, tokens=Tokens(64), **{name: value})  # type: ignore[arg-type]
    with pytest.raises(stepahead.OptionError, match=r"transform: .*: leave it out"):
        stepahead.DataLoader(dataset, batch_size=1, tokens=Tokens(64), transform=T.Compose([T.DecodeImage()]))
    with pytest.raises(stepahead.OptionError, match="tokens="):
        stepahead.DataLoader(dataset, batch_size=1, tokens=64)  # type: ignore[arg-type]
    with pytest.raises(stepahead.OptionError, match="make batches of them with tokens="):
        stepahead.DataLoader(dataset, batch_size=1)
    with pytest.raises(stepahead.OptionError, match="tokens in all"):
        stepahead.DataLoader(dataset, batch_size=1, tokens=Tokens(len(tokens)))
    with (
        stepahead.DataLoader(dataset, batch_size=1, tokens=Tokens(64, vocab_size=100)) as loader,
        pytest.raises(stepahead.BadSampleError, match="vocab_size") as caught,
    ):
        next(iter(loader))
    bad = caught.value
    assert (
        bad.kind == "token"
        and bad.field == "tokens"
        and bad.bin == str(dataset.parent / "corpus.bin")
        and bad.offset is not None
    )
    assert tokens[bad.offset // tokens.itemsize] >= 100


def test_the_document_runs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (pathlib.Path(__file__).resolve().parents[3] / "docs" / "tokens.md").read_text()
    blocks = re.findall(r"^```(python|)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks] == ["python", "", "python", "python"]
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for kind, code in blocks[:3]:  # the last one is about files that are not made here
        if kind:
            exec(code, names)
        else:
            run(*code.split()[2:])  # after "$ stepahead"
    assert names["batch"]["cu_seqlens"][-1] == 8 * 256


def test_megatrons_order_of_two_datasets(tmp_path: pathlib.Path) -> None:
    """Every rank gets its micro batches of samples that go on from step to step; a state knows the order."""
    for name, seed in (("a", 1), ("b", 2)):
        lengths = np.random.default_rng(seed).integers(0, 60, 90 + seed).tolist()
        write_pair(tmp_path / name, lengths, "uint16")
        run("index", tmp_path / f"{name}.idx", "-o", tmp_path / f"{name}.stepahead")
    datasets = {str(i): tmp_path / f"{name}.stepahead" for i, name in enumerate("ab")}

    def opened(rank: int, seed: int = 1234) -> stepahead.DataLoader:
        order = megatron.Order(64, seed, split="969,30,1", weights=[0.7, 0.3], micro_batch=2)
        tokens = Tokens(16, order=order)
        return stepahead.DataLoader(datasets, global_batch=8, tokens=tokens, rank=rank, world_size=2)

    seen = []
    for rank in range(2):
        with opened(rank) as loader:
            assert len(loader) == 8
            batches = [next(iter(loader)) for _ in range(2)]
            seen += [sample for batch in batches for sample in batch.samples]
            assert all(torch.equal(b["tokens"][:, 1:], b["labels"][:, :-1]) for b in batches)
            state = loader.state_dict()
    assert seen == [0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15]
    with opened(0, seed=1) as other, pytest.raises(stepahead.IdentityError, match=r"1234|order"):
        other.load_state_dict(state)
    with pytest.raises(stepahead.OptionError, match="part"):
        megatron.Order(1, part="all")
    for weights in ([float("nan"), 1], "ab", 1, [None, 1]):
        with pytest.raises(stepahead.OptionError, match="weights"):
            megatron.Order(1, weights=weights)  # type: ignore[arg-type]
