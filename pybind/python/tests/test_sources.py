"""Several datasets in one loader, whole specifications, and steps that the caller gives."""

from __future__ import annotations

import fractions
import json
import pathlib
from typing import Any

import numpy as np
import pytest
import stepahead
from conftest import CLASSES, make_photos, paint, run
from stepahead import transforms as T

PLAN = T.Compose([T.DecodeImage(), T.CenterCrop(64)])


@pytest.fixture(scope="module")
def more(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A second dataset of the same classes, beside none of the first's files."""
    photos = tmp_path_factory.mktemp("more-photos")
    make_photos(photos)
    for i in range(5):
        paint(1000 + i).save(photos / CLASSES[0] / f"z{i}.jpg", quality=80)
    target = tmp_path_factory.mktemp("more-store") / "more"
    run("pack", photos, "-o", target)
    return target


def open_loader(dataset: Any, **changes: Any) -> stepahead.DataLoader:
    options: dict[str, Any] = {"global_batch": 8, "transform": PLAN, "workers": 1, "output": "numpy", "seed": 3}
    return stepahead.DataLoader(dataset, **{k: v for k, v in (options | changes).items() if v is not ...})


def pictures(dataset: pathlib.Path, ids: list[int]) -> list[np.ndarray]:
    """The pictures of samples of one dataset."""
    with open_loader(dataset, order="given", global_batch=len(ids), seed=...) as loader:
        loader.give([ids])
        return list(next(iter(loader))["image"].copy())


def test_mixture(dataset: pathlib.Path, more: pathlib.Path, tmp_path: pathlib.Path) -> None:
    record = tmp_path / "record.jsonl"
    sources = {"photos": stepahead.Source(dataset, weight=1), "more": stepahead.Source(more, weight=3)}
    with open_loader(sources, record=record) as loader:
        assert loader.classes == list(CLASSES)
        drawn = []
        for _ in range(5):
            batch = next(iter(loader))
            for name, folder in (("photos", dataset), ("more", more)):
                places = [i for i, source in enumerate(batch.sources) if source == name]
                for i, want in zip(places, pictures(folder, [batch.samples[i] for i in places]), strict=True):
                    assert np.array_equal(batch["image"][i], want)
            drawn += zip(batch.sources, batch.samples, strict=True)
    assert [source for source, _ in drawn].count("photos") == 10
    records = sorted(map(json.loads, record.read_text().splitlines()), key=lambda r: (r["step"], r["position"]))
    assert [r["sample"] for r in records] == [sample + 42 * (source == "more") for source, sample in drawn]


def test_mixture_resumes(dataset: pathlib.Path, more: pathlib.Path) -> None:
    sources = [stepahead.Source(dataset, "a", weight=1), stepahead.Source(more, "b", weight=1)]
    with open_loader(sources) as loader:
        next(iter(loader))
        state = loader.state_dict()
        want = next(iter(loader)).samples
    assert len(state["stepahead"]) <= 1024
    with open_loader(sources) as loader:
        loader.load_state_dict(state)
        assert next(iter(loader)).samples == want
    with open_loader([sources[0], stepahead.Source(dataset, "b", weight=1)]) as loader:
        with pytest.raises(stepahead.IdentityError) as caught:
            loader.load_state_dict(state)
        assert any(line.startswith('dataset of "b"') for line in caught.value.diff)


def test_spec_and_arguments_say_the_same(dataset: pathlib.Path, more: pathlib.Path) -> None:
    changes = [{"step": 2, "weights": {"photos": 0}}]
    spec = {
        "spec": 2,
        "seed": 3,
        "global_batch": 8,
        "shuffle": "block",
        "chunk": 4,
        "window": 2,
        "temperature": 2,
        "sources": [{"name": "photos", "weight": 1}, {"name": "more", "samples": 47, "weight": 4}],
        "changes": changes,
    }
    sources = {"photos": stepahead.Source(dataset, weight=1), "more": stepahead.Source(more, weight=4)}
    with (
        open_loader({"photos": dataset, "more": more}, spec=spec, global_batch=..., seed=...) as whole,
        open_loader(sources, shuffle="block", chunk=4, window=2, temperature=2, changes=changes) as single,
    ):
        for step in range(4):
            a, b = next(iter(whole)), next(iter(single))
            assert (a.sources, a.samples) == (b.sources, b.samples)
            assert step < 2 or set(a.sources) == {"more"}
        assert whole.state_dict() == single.state_dict()


def test_balanced_ranks(dataset: pathlib.Path) -> None:
    def ranks(**options: Any) -> list[list[int]]:
        drawn = []
        for rank in range(2):
            with open_loader(dataset, rank=rank, world_size=2, **options) as loader:
                drawn.append(next(iter(loader)).samples)
        return drawn

    plain, balanced = ranks(), ranks(balance="count")
    assert sorted(plain[0] + plain[1]) == sorted(balanced[0] + balanced[1])
    assert plain != balanced and len(balanced[0]) == 4
    with pytest.raises(stepahead.OptionError, match="balance"):
        open_loader(dataset, balance="even")


def test_given_steps(dataset: pathlib.Path) -> None:
    steps = [[3, 1, 4, 1, 5, 9, 2, 6], np.arange(8), list(range(20, 28))]
    with open_loader(dataset, order="given", seed=...) as loader:
        with pytest.raises(TypeError, match="no length"):
            len(loader)
        assert list(loader) == []
        loader.give(steps[:2])
        assert [batch.samples for batch in loader] == [list(map(int, s)) for s in steps[:2]]
        loader.give([steps[0]])
        state = loader.state_dict()
        loader.give([steps[2], steps[1]], number=1)
        assert [batch.samples for batch in loader] == [steps[2], list(range(8))]
        loader.load_state_dict(state)
        loader.give([steps[2]])
        batch = next(iter(loader))
        assert (batch.step, batch.samples) == (2, steps[2])
        given = json.loads(loader.state_dict()["stepahead"])["given"]
        assert given["number"] == 0 and len(given["digest"]) == 64


def test_given_steps_of_several(dataset: pathlib.Path, more: pathlib.Path) -> None:
    with open_loader({"a": dataset, "b": more}, order="given", global_batch=2, seed=...) as loader:
        loader.give([[("b", 46), (0, 1)]])
        batch = next(iter(loader))
        assert (batch.sources, batch.samples) == (["b", "a"], [46, 1])


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"steps": 5}, "list of steps"),
        ({"steps": [5]}, "list of ids"),
        ({"steps": [[1, 2]]}, "global batch is 8"),
        ({"steps": [[42] * 8]}, "the source has 42"),
        ({"steps": [["x"] * 8]}, "id='x'"),
        ({"steps": [[("x", 1)] * 8]}, "no source is called 'x'"),
        ({"steps": [[(0, 1, 2)] * 8]}, "pair"),
        ({"steps": [[1] * 8], "first": 3}, "next step to give is 0"),
    ],
)
def test_given_wrongly(dataset: pathlib.Path, arguments: dict[str, Any], names: str) -> None:
    with open_loader(dataset, order="given", seed=...) as loader, pytest.raises(stepahead.OptionError, match=names):
        loader.give(**arguments)


def test_sources_wrongly(dataset: pathlib.Path, more: pathlib.Path) -> None:
    for argument, names in (
        ([], "dataset"),
        ({}, "dataset"),
        ([dataset], "stepahead.Source"),
        ([stepahead.Source(dataset), stepahead.Source(more)], "has no name"),
        ({"a": stepahead.Source(dataset, name="b")}, "has the key"),
        ({1: dataset}, "must be a str"),
        ({"a": stepahead.Source(dataset, weight=1), "b": stepahead.Source(more, weight=-1)}, "must be 0, or 1e-18"),
    ):
        with pytest.raises(stepahead.OptionError, match=names):
            open_loader(argument)
    for weight in ("x", True, float("nan"), 10**400):
        with pytest.raises(stepahead.OptionError, match="weight"):
            stepahead.Source(dataset, weight=weight)  # type: ignore[arg-type]
    assert stepahead.Source(dataset, weight=fractions.Fraction(1, 4)).weight == 0.25  # type: ignore[arg-type]
    with pytest.raises(stepahead.OptionError, match="with spec= neither"):
        open_loader(dataset, spec={"spec": 1})
    with pytest.raises(stepahead.OptionError, match=r"megatron\.Order"):
        open_loader(dataset, order="megatron")
    with pytest.raises(stepahead.OptionError, match='order="given"'), open_loader(dataset) as loader:
        loader.give([[1] * 8])


def test_groups_by_length(dataset: pathlib.Path, more: pathlib.Path) -> None:
    def lengths(batch: Any) -> set[int]:
        return set(batch["label"].tolist())

    # By label, whose values stand for lengths: a step of eight mixes neighbouring ones only.
    with open_loader(dataset, group_by_length="label", group_steps=5) as loader, open_loader(dataset) as plain:
        grouped = [sample for batch in loader for sample in batch.samples]
        assert sorted(grouped) == sorted(sample for batch in plain for sample in batch.samples)
        mixed = sum(len(lengths(batch)) for batch in plain)
        assert sum(len(lengths(batch)) for batch in loader) < mixed
        next(iter(loader))
        state = loader.state_dict()
        want = next(iter(loader)).samples
    assert json.loads(state["stepahead"])["spec"]["group_by_length"] == {"column": "label", "steps": 5}
    resumed = [open_loader(dataset, group_by_length="label", group_steps=5, rank=r, world_size=2) for r in range(2)]
    parts: list[int] = []
    for loader in resumed:
        with loader:
            loader.load_state_dict(state)
            parts += next(iter(loader)).samples
    assert parts == want
    with open_loader({"a": dataset, "b": more}, group_by_length="image.length", shuffle="block") as loader:
        assert set(next(iter(loader)).sources) <= {"a", "b"}
    for wrong, match in (
        ({"group_by_length": "image"}, "columns of lengths here are image"),
        ({"group_by_length": "label", "group_steps": 0}, "group_steps"),
        ({"group_steps": 5}, "only group_by_length uses it"),
        ({"group_by_length": "label", "order": "given"}, "the steps are given"),
        ({"group_by_length": 5}, "must be a str"),
    ):
        with pytest.raises(stepahead.OptionError, match=match):
            open_loader(dataset, **wrong)


def test_what_a_spec_says_is_not_said_twice(dataset: pathlib.Path) -> None:
    spec = {"spec": 2, "seed": 3, "global_batch": 8, "sources": [{"name": ""}]}
    for beside in (
        {"seed": 4},
        {"seed": 0},
        {"shuffle": "none"},
        {"chunk": 4},
        {"changes": [{"step": 2, "global_batch": 4}]},
    ):
        with pytest.raises(stepahead.OptionError, match="give one or the other"):
            open_loader(dataset, spec=spec, global_batch=..., **({"seed": ...} | beside))


def test_weights_of_some(dataset: pathlib.Path, more: pathlib.Path) -> None:
    for weights, match in (((1, None), "1 of 2 have a weight"), ((0, 0), "all weights are 0"), ((1, -1), "weight: -1")):
        with pytest.raises(stepahead.OptionError, match=match):
            open_loader(
                [stepahead.Source(d, n, weight=w) for d, n, w in zip((dataset, more), "ab", weights, strict=True)]
            )


def test_an_upsample_of_nothing_is_refused() -> None:
    with pytest.raises(stepahead.OptionError, match="upsample=0: must be more than 0"):
        stepahead.Source("photos", name="a", upsample=0)
