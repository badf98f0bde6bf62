"""Operators of plans: torchvision's signatures, what becomes of arguments, and whole plans through workers."""

from __future__ import annotations

import inspect
import json
import pathlib

import numpy as np
import pytest
import stepahead
import torch
from stepahead import transforms as T

TORCHVISIONS = (
    "CenterCrop",
    "ColorJitter",
    "GaussianBlur",
    "Grayscale",
    "Pad",
    "RandAugment",
    "RandomCrop",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
)


@pytest.mark.parametrize("name", TORCHVISIONS)
def test_signatures_are_torchvisions(name: str) -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    ours = list(inspect.signature(getattr(T, name)).parameters.values())
    for theirs in inspect.signature(getattr(v2, name)).parameters.values():
        mine = ours.pop(0)
        default = getattr(theirs.default, "value", theirs.default)  # of an enumeration
        assert (mine.name, mine.default, mine.kind) == (theirs.name, default, theirs.kind)
    assert [p.name for p in ours] in ([], ["version"])


@pytest.mark.parametrize(
    ("op", "parameters"),
    [
        (
            T.RandomCrop(32),
            {"size": [32, 32], "padding": 0, "pad_if_needed": False, "fill": 0, "padding_mode": "constant"},
        ),
        (
            T.RandomCrop((30, 20), padding=(1, 2), pad_if_needed=True, fill=(1, 2, 3), padding_mode="edge"),
            {"size": [30, 20], "padding": [1, 2], "pad_if_needed": True, "fill": [1, 2, 3], "padding_mode": "edge"},
        ),
        (T.Pad((1, 2, 3, 4)), {"padding": [1, 2, 3, 4], "fill": 0, "padding_mode": "constant"}),
        (T.RandomVerticalFlip(), {"p": 0.5}),
        (T.Grayscale(), {"num_output_channels": 1}),
        (T.RandomGrayscale(), {"p": 0.1}),
        (
            T.ColorJitter(0.4, (0.5, 2), hue=np.float64(0.1)),
            {"brightness": 0.4, "contrast": [0.5, 2], "saturation": None, "hue": 0.1},
        ),
        (T.GaussianBlur(5), {"kernel_size": [5, 5], "sigma": [0.1, 2.0]}),
        (T.GaussianBlur((5, 9), sigma=3), {"kernel_size": [5, 9], "sigma": 3}),
        (
            T.RandAugment(fill=None),
            {"num_ops": 2, "magnitude": 9, "num_magnitude_bins": 31, "interpolation": "nearest", "fill": 0},
        ),
        (
            T.RandomApply([T.RandomVerticalFlip(1.0)], p=0.3),
            {"transforms": [{"op": "RandomVerticalFlip", "p": 1.0}], "p": 0.3},
        ),
        (T.RandomErasing(value="random"), {"p": 0.5, "scale": [0.02, 0.33], "ratio": [0.3, 3.3], "value": "random"}),
        (
            T.RandomErasing(value=(1, 2, 3), inplace=True),
            {"p": 0.5, "scale": [0.02, 0.33], "ratio": [0.3, 3.3], "value": [1, 2, 3]},
        ),
        (T.DecodeImage(), {"mode": "RGB", "orientation": "stored"}),
        (
            T.DecodeImage(orientation="apply", jpeg="dct-scaled", truncated="fill"),
            {"mode": "RGB", "orientation": "apply", "jpeg": "dct-scaled", "truncated": "fill"},
        ),
    ],
)
def test_arguments(op: T.Operator, parameters: dict) -> None:
    assert op.params == parameters
    plan = T.Compose([op] if isinstance(op, T.DecodeImage) else [T.DecodeImage(), op])
    assert json.loads(plan.to_json()) == plan.to_dict()
    assert len(plan.digest) == 64


def test_interpolation_may_be_torchvisions() -> None:
    mode = pytest.importorskip("torchvision.transforms").InterpolationMode.BICUBIC
    assert T.Resize(9, interpolation=mode) == T.Resize(9, interpolation="bicubic")
    assert T.RandomResizedCrop(9, interpolation=mode) == T.RandomResizedCrop(9, interpolation="bicubic")


def test_spellings_have_one_digest() -> None:
    def digest(*ops: T.Operator) -> str:
        return T.Compose([T.DecodeImage(), *ops]).digest

    assert digest(T.Pad(3, fill=(5, 5, 5))) == digest(T.Pad([3, 3, 3, 3], fill=5))
    assert digest(T.ColorJitter(0.4)) == digest(T.ColorJitter((0.6, 1.4), contrast=0))
    assert digest(T.GaussianBlur(3, 2)) == digest(T.GaussianBlur((3, 3), (2.0, 2.0)))
    assert digest(T.RandomErasing(value=0)) == digest(T.RandomErasing(value=[0.0]))


@pytest.mark.parametrize(
    ("op", "names"),
    [
        (T.RandomCrop(9, padding=-1), r"ops\[1\] RandomCrop.*padding"),
        (T.Pad((1, 2, 3)), r"ops\[1\] Pad.*padding"),
        (T.Grayscale(2), r"ops\[1\] Grayscale.*num_output_channels"),
        (T.ColorJitter(hue=0.6), r"ops\[1\] ColorJitter.*hue"),
        (T.GaussianBlur(4), r"ops\[1\] GaussianBlur.*kernel_size"),
        (T.RandAugment(magnitude=31), r"ops\[1\] RandAugment.*magnitude"),
        (T.RandomApply([T.GaussianBlur(4)]), r"ops\[1\] RandomApply transforms\[0\] GaussianBlur.*kernel_size"),
        (T.RandomApply([T.Pad(1)]), r"ops\[1\] RandomApply.*transforms\[0\]: Pad is not one"),
        (T.RandomErasing(value=0.5), r"ops\[1\] RandomErasing.*value"),
        (T.Resize(9, interpolation="hamming"), r"ops\[1\] Resize.*interpolation"),
        (T.DecodeImage(), r"ops\[1\] DecodeImage"),
        (T.Resize(9.5), r"ops\[1\] Resize.*size: 9.5"),
        (T.CenterCrop(None), r"ops\[1\] CenterCrop.*size"),
        (T.RandomResizedCrop(9, scale=0.5), r"ops\[1\] RandomResizedCrop.*scale: 0.5"),
        (T.RandomErasing(ratio=1), r"ops\[1\] RandomErasing.*ratio: 1"),
        (T.GaussianBlur((3, 3, 3)), r"ops\[1\] GaussianBlur.*kernel_size: has 3"),
        (T.Normalize(0.5, 0.5), r"ops\[1\] Normalize.*mean: 0.5"),
    ],
)
def test_mistakes_are_named(op: T.Operator, names: str) -> None:
    with pytest.raises(stepahead.PlanError, match=names):
        _ = T.Compose([T.DecodeImage(), op]).digest


AUGMENTED = T.Compose(
    [
        T.DecodeImage(),
        T.RandomCrop(64, padding=8, padding_mode="reflect"),
        T.RandomVerticalFlip(),
        T.ColorJitter(0.4, 0.4, 0.4, 0.1),
        T.RandAugment(),
        T.RandomGrayscale(0.5),
        T.RandomErasing(value="random"),
        T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        T.RandomErasing(0.9, value=(9.0, -9.0, 0.25)),
    ]
)


@pytest.mark.parametrize("layout", ["channels_last", "contiguous"])
def test_augmented_batches_are_equal_with_any_workers(dataset: pathlib.Path, layout: str) -> None:
    def first(workers: int) -> torch.Tensor:
        with stepahead.DataLoader(
            dataset, global_batch=16, transform=AUGMENTED, seed=3, workers=workers, layout=layout, agents=None
        ) as loader:
            return next(iter(loader))["image"].clone()

    one, two = first(1), first(2)
    assert one.shape == (16, 3, 64, 64) and one.dtype == torch.float32
    assert torch.equal(one, two)
    erased = (one[:, 0] == 9.0) & (one[:, 1] == -9.0) & (one[:, 2] == 0.25)
    assert 8 <= int(erased.flatten(1).any(1).sum()) <= 16


def test_one_channel(dataset: pathlib.Path) -> None:
    plan = T.Compose([T.DecodeImage(), T.CenterCrop(40), T.Grayscale()])
    three = T.Compose([T.DecodeImage(), T.CenterCrop(40), T.Grayscale(3)])
    tensors = []
    for p in (plan, three):
        with stepahead.DataLoader(dataset, global_batch=8, transform=p, seed=3, agents=None) as loader:
            tensors.append(next(iter(loader))["image"].clone())
    grey, colour = tensors
    assert grey.shape == (8, 1, 40, 40) and colour.shape == (8, 3, 40, 40)
    assert all(torch.equal(grey[:, 0], colour[:, c]) for c in range(3))


def test_a_picture_that_is_too_small_stops_the_run(dataset: pathlib.Path) -> None:
    plan = T.Compose([T.DecodeImage(), T.RandomCrop(400)])
    with (
        stepahead.DataLoader(dataset, global_batch=8, transform=plan, agents=None) as loader,
        pytest.raises(stepahead.PlanError, match="pad_if_needed"),
    ):
        next(iter(loader))
