"""docs/loader.md, "From torch's DataLoader": each row of its table and its example, run as a reader would."""

from __future__ import annotations

import pathlib
import re
import shutil

import pytest
import stepahead
import torch
from PIL import Image
from stepahead import transforms as T

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "loader.md"
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CAST = T.ToDtype(torch.float32, scale=True)

# For each row about operators: plans without their DecodeImage. Plans of one list have one digest.
ROWS: dict[str, list[list[list[T.Operator]]]] = {
    "`ToTensor()` and `Normalize": [[[T.Normalize(MEAN, STD)], [T.Normalize(MEAN, STD, scale="divide")]]],
    "`v2.ToDtype(torch.float32": [
        [[CAST, T.Normalize(MEAN, STD)], [T.ToDtype("float32", True), T.Normalize(MEAN, STD, scale="none")]],
        [[T.Normalize(MEAN, STD, scale="multiply")]],
    ],
    "`ConvertImageDtype": [[[T.ToDtype(d, scale=True)]] for d in (torch.float32, torch.float16, torch.bfloat16)],
    "`Resize`, `CenterCrop`": [
        [
            [
                T.Resize(256),
                T.CenterCrop(224),
                T.RandomResizedCrop(224),
                T.RandomCrop(200),
                T.Pad(4),
                T.RandomHorizontalFlip(),
                T.RandomVerticalFlip(),
                T.RandomGrayscale(),
                T.ColorJitter(0.4, 0.4, 0.4, 0.1),
                T.GaussianBlur(5),
                T.RandAugment(),
                T.RandomErasing(),
                T.Grayscale(),
            ]
        ]
    ],
    "`InterpolationMode.BICUBIC`": [
        [[T.Resize(9, interpolation="bicubic")], [T.Resize(9, interpolation=Image.Resampling.BICUBIC)]],
        [[T.RandomResizedCrop(9, interpolation="lanczos")], [T.RandomResizedCrop(9, interpolation=Image.LANCZOS)]],
    ],
    "`RandomApply": [
        [
            [T.RandomApply([T.ColorJitter(0.4), T.GaussianBlur(9)])],
            [T.RandomApply((T.ColorJitter(0.4), T.GaussianBlur(9)), p=0.5)],
        ],
        [[T.RandomApply([T.GaussianBlur(9)], 0.8)]],
    ],
    "`ToTensor()` alone": [[[T.Normalize([0], [1])]]],
    "`PILToTensor`": [[[]]],
    "`RandomErasing` behind": [
        [[CAST, T.Normalize(MEAN, STD), T.RandomErasing(value=(0.5, -1, 2))]],
        [[T.RandomErasing(value="random"), CAST, T.Normalize(MEAN, STD)]],
    ],
}
DECODING = {
    "`ImageOps.exif_transpose`": T.DecodeImage(orientation="apply"),
    "`ImageFile.LOAD_TRUNCATED_IMAGES": T.DecodeImage(truncated="fill"),
}
NOT_THERE = ("`AutoAugment`", "`RandomChoice`", "`MixUp`", "`Lambda`")
NO_OPERATORS = (
    "torch, torchvision",
    "`ImageFolder",
    "`for x, y",
    "`dataset.classes`",
    "undecoded samples",
    "`num_workers`",
    "`shuffle=True`",
)
NO_OPERATORS += ("`DistributedSampler`", "`len(loader)`")


def left_cells() -> list[str]:
    table = PAGE.read_text().split("## From torch's DataLoader")[1].split("\n## ")[0]
    return [row[2:].split(" | ")[0] for row in table.splitlines() if row.startswith("| ")]


def test_every_row_is_tried() -> None:
    known = [*ROWS, *DECODING, *NOT_THERE, *NO_OPERATORS]
    for cell in left_cells():
        assert [k for k in known if cell.startswith(k)], f"the row {cell!r} is not tried here"
    for start in known:
        assert [c for c in left_cells() if c.startswith(start)], f"no row begins with {start}"


@pytest.mark.parametrize("row", ROWS)
def test_rows_of_operators(row: str) -> None:
    digests = [{T.Compose([T.DecodeImage(), *ops]).digest for ops in same} for same in ROWS[row]]
    assert all(len(group) == 1 for group in digests)
    assert len(set.union(*digests)) == len(digests)


@pytest.mark.parametrize("row", DECODING)
def test_rows_of_decoding(row: str) -> None:
    assert T.Compose([DECODING[row]]).digest != T.Compose([T.DecodeImage()]).digest


@pytest.mark.parametrize(
    "row", [*NOT_THERE, "`PILToTensor`", "`ToTensor()` alone", "`ConvertImageDtype", "`InterpolationMode"]
)
def test_names_that_are_not_here_say_what_replaces_them(row: str) -> None:
    cell = next(c for c in left_cells() if c.startswith(row))
    names = [name.rpartition(".")[2] for name in re.findall(r"`([A-Za-z.]+)", cell)]
    for name in names:
        if name in {"BICUBIC", "Normalize"}:
            continue
        with pytest.raises(AttributeError, match=f"stepahead.transforms has no {name}: "):
            getattr(T, name)


def test_other_names_are_not_here() -> None:
    with pytest.raises(AttributeError, match=r"stepahead.transforms has no Resise$") as error:
        T.Resise  # type: ignore[attr-defined]  # noqa: B018
    assert error.value.name == "Resise"
    assert not hasattr(T, "__wrapped__")


def test_a_scale_that_cannot_be() -> None:
    with pytest.raises(
        stepahead.PlanError, match=r'scale: "divide", but the values are float32.*use "none", or leave it out'
    ):
        _ = T.Compose([T.DecodeImage(), CAST, T.Normalize(MEAN, STD, scale="divide")]).digest


def small_model(num_classes: int) -> torch.nn.Module:
    """In the place of a ResNet, which takes a CPU minutes."""
    return torch.nn.Sequential(
        torch.nn.AvgPool2d(16), torch.nn.BatchNorm2d(3), torch.nn.Flatten(), torch.nn.Linear(3 * 14 * 14, num_classes)
    )


def test_the_example(
    dataset: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    models = pytest.importorskip("torchvision").models
    monkeypatch.setattr(models, "resnet18", small_model)
    code = re.search(r"script, ported:\n\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert code
    for name in ("train", "val"):
        shutil.copytree(dataset, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    exec(compile(code[1], str(PAGE), "exec"), {})
    assert re.fullmatch(r"epoch 0: \d+ of 32 right\nepoch 1: \d+ of 32 right\n", capsys.readouterr().out)
