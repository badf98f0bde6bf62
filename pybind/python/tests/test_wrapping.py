"""The loader inside torch's DataLoader and torchdata's StatefulDataLoader, as FSDP2 trainers use them."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import stepahead
import torch
from conftest import run
from stepahead import transforms as T
from test_tokens import write_pair
from torchdata.stateful_dataloader import StatefulDataLoader

PLAN = T.Compose([T.DecodeImage(), T.RandomResizedCrop(16)])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("packs")
    lengths = np.random.default_rng(5).integers(0, 90, 200).tolist()
    write_pair(folder / "corpus", lengths, "uint16")
    run("index", folder / "corpus.idx", "-o", folder / "dataset")
    return folder / "dataset"


@pytest.fixture(params=["photos", "packs"])
def make(request: pytest.FixtureRequest, dataset: pathlib.Path, corpus: pathlib.Path) -> Iterator[Any]:
    """Opens a loader of 5 steps an epoch: of photographs, or of packs whose number of pieces varies."""
    opened: list[stepahead.DataLoader] = []

    def open_one() -> stepahead.DataLoader:
        if request.param == "photos":
            loader = stepahead.DataLoader(dataset, global_batch=8, transform=PLAN, seed=1, workers=1)
        else:
            tokens = stepahead.Tokens(64, packing="best-fit")
            loader = stepahead.DataLoader(corpus, global_batch=25, seed=1, tokens=tokens)
        opened.append(loader)
        return loader

    yield open_one
    for loader in opened:
        loader.close()


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def test_in_torchs_loader(make: Any) -> None:
    plain = make()
    wrapped = torch.utils.data.DataLoader(make(), batch_size=None, num_workers=0)
    assert len(wrapped) == len(plain)
    for _ in range(2):  # epochs
        ours, theirs = list(plain), list(wrapped)
        assert len(ours) == len(theirs) == len(plain)
        assert all(same(a, b) for a, b in zip(ours, theirs, strict=True))
    if "cu_seqlens" in ours[0]:
        assert all(b["cu_seqlens"].dtype == torch.int32 and b["cu_seqlens"].dim() == 1 for b in theirs)
        assert len({len(b["cu_seqlens"]) for b in theirs}) > 1
        assert all(int(b["cu_seqlens"][-1]) == b["tokens"].numel() for b in theirs)


def test_in_the_stateful_loader(make: Any) -> None:
    plain = make()
    whole = [batch for _ in range(3) for batch in plain]
    wrapped = StatefulDataLoader(make(), batch_size=None, num_workers=0)
    epoch = iter(wrapped)
    assert all(same(next(epoch), want) for want in whole[:2])
    state = wrapped.state_dict()

    again = StatefulDataLoader(make(), batch_size=None, num_workers=0)
    again.load_state_dict(state)
    rest = [batch for _ in range(2) for batch in again]  # the rest of this epoch, and the next
    assert len(rest) == 2 * len(plain) - 2
    assert all(same(a, b) for a, b in zip(rest, whole[2:], strict=False))

    ended = again.state_dict()  # at the end of an epoch: the next one is whole
    last = StatefulDataLoader(make(), batch_size=None, num_workers=0)
    last.load_state_dict(ended)
    third = list(last) or list(last)
    assert len(third) == len(plain) and all(same(a, b) for a, b in zip(third, whole[2 * len(plain) :], strict=True))
