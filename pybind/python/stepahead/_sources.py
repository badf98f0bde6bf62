"""Where samples come from: one dataset or several, and what their order depends on."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stepahead import _arguments
from stepahead._errors import OptionError


@dataclasses.dataclass(frozen=True)
class Source:
    """One dataset of several that a loader draws from.

    Args:
        dataset: the dataset's folder or URL, as of `DataLoader`.
        name: keys the source's order and all that is random in its samples; names differ. It may be left out in
            a dict of sources, whose keys are the names.
        weight: the source's part of the mixture, in any unit: shares are weights divided by their sum. All sources have
            one, or none has: then each has its number of samples, times `upsample`, for a weight. 0 takes no part until
            `changes` gives it another.
        upsample: how often an epoch of the mixture passes over the source, where no source has a weight. Default 1.
        max_epochs: how often the source may be passed over; then its share goes to the others. Default: without limit.

    Raises:
        OptionError: an argument cannot work.

    Example:
        >>> from stepahead import Source
        >>> Source("hdfs://ns/data/faces", name="faces", weight=0.25).weight
        0.25
    """

    dataset: str | os.PathLike[str]
    name: str | None = None
    weight: float | None = None
    upsample: float | None = None
    max_epochs: int | None = None

    def __post_init__(self) -> None:
        address(self.dataset)
        _arguments.text("name", self.name)
        object.__setattr__(self, "weight", _arguments.number("weight", self.weight))
        object.__setattr__(self, "upsample", _arguments.positive("upsample", self.upsample))
        object.__setattr__(self, "max_epochs", _arguments.whole("max_epochs", self.max_epochs, 1, 2**64 - 1))

    def _options(self) -> dict[str, Any]:
        fields = {
            "url": address(self.dataset),
            "name": self.name,
            "weight": self.weight,
            "upsample": self.upsample,
            "max_epochs": self.max_epochs,
        }
        return {k: v for k, v in fields.items() if v is not None}


Datasets = str | os.PathLike[str] | Source | Sequence[Source] | Mapping[str, Source | str | os.PathLike[str]]


def options(dataset: Datasets) -> dict[str, Any]:
    """The dataset argument as options of the native module."""
    if isinstance(dataset, Mapping | list | tuple) and not dataset:
        raise OptionError(f"dataset={dataset!r}: no source is given")
    if isinstance(dataset, Source):
        return {"sources": [dataset._options()]}
    if isinstance(dataset, Mapping):
        return {"sources": [_named(name, source)._options() for name, source in dataset.items()]}
    if isinstance(dataset, list | tuple):
        return {"sources": [_listed(source, len(dataset))._options() for source in dataset]}
    return {"url": address(dataset)}


def _named(name: Any, source: Any) -> Source:
    if not isinstance(name, str):
        raise OptionError(f"dataset: the key {name!r} of the sources: must be a str, the source's name")
    if not isinstance(source, Source):
        return Source(source, name=name)
    if source.name not in (None, name):
        raise OptionError(
            f"dataset: the source {source.name!r} has the key {name!r}: leave its name out, or make them equal"
        )
    return dataclasses.replace(source, name=name)


def _listed(source: Any, count: int) -> Source:
    if not isinstance(source, Source):
        raise OptionError(
            f"dataset: {source!r} in the list of sources: use stepahead.Source(dataset, name=...), or a dict of names"
        )
    if source.name is None and count > 1:
        raise OptionError(f"dataset: the source {source.dataset!r} has no name: with several, each needs one")
    return source


def address(dataset: Any) -> str:
    """Agents open the dataset too, from a folder of their own: a relative path becomes absolute."""
    name = _arguments.path("dataset", dataset)
    if not name or "\0" in name:
        raise OptionError(f"dataset={dataset!r}: must be a folder, a URL, or sources")
    return name if "://" in name or name.startswith("hdfs:") else os.path.abspath(name)


def spec(value: Any) -> Any:
    """A specification as JSON can hold it: a dict, or the text of one."""
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise OptionError(f"spec: not JSON: {error}") from None
    if not isinstance(value, Mapping):
        raise OptionError(f"spec={value!r}: must be a dict, or its JSON as str")
    return dict(value)


def changes(value: Any) -> list[dict[str, Any]] | None:
    """What differs from a step on."""
    if value is None:
        return None
    if isinstance(value, Mapping | str) or not isinstance(value, Iterable):
        raise OptionError(f"changes={value!r}: must be a list of dicts")
    items = list(value)
    for item in items:
        if not isinstance(item, Mapping) or not set(item) <= {"step", "tokens", "global_batch", "weights"}:
            raise OptionError(f"changes: {item!r}: must be a dict with step or tokens, and global_batch or weights")
    return [dict(item) for item in items]


def steps(value: Any, names: Sequence[str], epoch: int | None) -> list[dict[str, Any]]:
    """Lists of ids, one a step, as options of the native module."""
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise OptionError("give: must be a list of steps, each a list of ids")
    return [_step(number, ids, names, epoch) for number, ids in enumerate(value)]


def _step(number: int, ids: Any, names: Sequence[str], epoch: int | None) -> dict[str, Any]:
    if isinstance(ids, str | Mapping) or not isinstance(ids, Iterable):
        raise OptionError(f"give: step {number} of the list: {ids!r}: must be a list of ids")
    sources: list[int] = []
    samples: list[int] = []
    pairs = 0
    for item in ids:
        source: Any = 0
        sample: Any = item
        if isinstance(item, tuple | list):
            if len(item) != 2:
                raise OptionError(
                    f"give: step {number} of the list: {item!r}: must be an id, or a pair of a source and an id"
                )
            source, sample = item
            pairs += 1
        sources.append(_source(source, names))
        samples.append(_arguments.whole("id", sample, 0) or 0)
    if 0 < pairs < len(samples) or (len(names) > 1 and pairs < len(samples)):
        raise OptionError(
            f"give: step {number} of the list: with several sources every id is a pair of a source and an id"
        )
    step: dict[str, Any] = {"samples": samples}
    if pairs:
        step["sources"] = sources
    if epoch is not None:
        step["epoch"] = epoch
    return step


def _source(source: Any, names: Sequence[str]) -> int:
    if isinstance(source, str):
        if source not in names:
            raise OptionError(f"give: no source is called {source!r}: there are {list(names)}")
        return list(names).index(source)
    return _arguments.whole("source", source, 0) or 0
