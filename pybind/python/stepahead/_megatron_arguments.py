"""What Megatron's arguments say of the data: which parts there are, of which datasets, in which order."""

from __future__ import annotations

import dataclasses
import importlib
import json
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stepahead._errors import OptionError
from stepahead._megatron_order import PARTS, Order

_log = logging.getLogger("stepahead")


# What is refused if it is set, and why.
_SET = {
    "rampup_batch_size": "stepahead's steps have one global batch",
    "hybrid_context_parallel": "ranks would need sequences of their own",
    "multiple_validation_sets": "there is one iterator for validation",
}
_SET_IN_MEGATRONS_ORDER = {
    "fim_data": "fill in the middle is not reproduced",
    "sft": "the samples of SFTDataset are not reproduced",
    "mock_data": "mock data needs no loader",
}
# What is refused if it is not.
_UNSET_IN_MEGATRONS_ORDER = {
    "drop_last_partial_validation_sequence": "Megatron-core counts these samples in float32 in one place and in float64 in "
    "another",
    "add_extra_token_to_sequence": "the last label of a sample is not reproduced without it",
}


def refuse(args: Any, *, megatrons_order: bool) -> None:
    """Refuse arguments that cannot be kept to, before anything is opened."""
    if args.dataloader_type != "external":
        why = "Megatron would wrap the loader again"
        if args.dataloader_type == "cyclic":
            why += "; the order of cyclic comes from torch.randperm, which torch does not promise to keep"
        raise OptionError(f"--dataloader-type {args.dataloader_type}: must be external: {why}")
    refused = _SET | (_SET_IN_MEGATRONS_ORDER if megatrons_order else {})
    reasons = {name: why for name, why in refused.items() if getattr(args, name, None)}
    if megatrons_order:
        reasons |= {name: why for name, why in _UNSET_IN_MEGATRONS_ORDER.items() if not getattr(args, name, True)}
    if reasons:
        raise OptionError(
            "; ".join(f"{name}={getattr(args, name)}: not supported: {why}" for name, why in reasons.items())
        )


@dataclasses.dataclass(frozen=True)
class Part:
    """One of train, valid and test, as it is opened."""

    name: str
    datasets: Any  # as DataLoader takes them
    order: Order | None  # Megatron's; None: stepahead's own
    step: int  # the first iteration
    global_batch: int
    micro_batch: int


def training(name: str) -> Any:
    """What Megatron-LM's own training script knows under a name such as get_args."""
    try:
        script = importlib.import_module("megatron.training")
    except ImportError as error:
        raise OptionError(
            f"megatron.training cannot be imported ({error}): run inside Megatron-LM, or give args= and tokenizer= to provider()"
        ) from None
    return getattr(script, name)()


def _step(samples: int, global_batch: int, name: str) -> int:
    if samples % global_batch:
        raise OptionError(
            f"{name}={samples}: not a multiple of the global batch {global_batch}: it was another one before, and "
            "stepahead's steps have one"
        )
    return samples // global_batch


def _wanted(args: Any, samples: Sequence[int | None]) -> list[tuple[int | None, Part]]:
    """The parts that are used at all, still without data, each with the samples asked for."""
    batch, eval_batch = args.global_batch_size, getattr(args, "eval_global_batch_size", None) or args.global_batch_size
    first = {
        "train": _step(args.consumed_train_samples, batch, "consumed_train_samples"),
        "valid": _step(getattr(args, "consumed_valid_samples", 0), eval_batch, "consumed_valid_samples"),
        "test": 0,
    }
    if getattr(args, "full_validation", False) or getattr(args, "skip_train", False):
        first["valid"] = 0
    micro, eval_micro = args.micro_batch_size, getattr(args, "eval_micro_batch_size", None) or args.micro_batch_size
    sizes = {"train": (batch, micro), "valid": (eval_batch, eval_micro), "test": (eval_batch, eval_micro)}
    return [
        (n, Part(name, None, None, first[name], *sizes[name]))
        for name, n in zip(PARTS, samples, strict=True)
        if n is None or n > 0
    ]


def megatron_parts(args: Any, samples: Sequence[int | None], locate: Callable[[str], str]) -> list[Part]:
    """The parts that Megatron's arguments name."""
    if getattr(args, "data_cache_path", None):
        _log.info("--data-cache-path is not used: stepahead keeps no index files")
    shared, each = _blends(args)
    parts = []
    for n, part in _wanted(args, samples):
        blend = shared if shared is not None else each[part.name]
        if blend is None or (shared is not None and _share(args.split, part.name) == 0):
            continue
        prefixes, weights = blend
        order = Order(
            samples=n,
            seed=args.seed,
            part=part.name,
            split=args.split if shared is not None else None,
            weights=weights,
            surplus=getattr(args, "mid_level_dataset_surplus", 0.005),
            micro_batch=part.micro_batch,
        )
        # A blend may name a data set twice: its place is its name.
        datasets = {str(i): locate(p) for i, p in enumerate(prefixes)} if len(prefixes) > 1 else locate(prefixes[0])
        parts.append(dataclasses.replace(part, datasets=datasets, order=order))
    return parts


def _share(split: str, part: str) -> float:
    numbers = [float(n) for n in re.findall(r"[.0-9]+", split)]  # as Megatron reads it
    return dict(zip(PARTS, numbers, strict=False)).get(part, 0.0)


_Blend = tuple[list[str], "list[float] | None"]


def _blends(args: Any) -> tuple[_Blend | None, dict[str, _Blend | None]]:
    """The blend of all parts, or one for each, from --data-path, --data-args-path, --train-data-path and so on."""
    from megatron.core.datasets.utils import get_blend_from_list

    words = args.data_path
    if getattr(args, "data_args_path", None):
        if words:
            raise OptionError("--data-path and --data-args-path: give one of them")
        with open(args.data_args_path, encoding="utf-8") as file:
            words = file.read().split()
    if words:
        if not args.split:
            raise OptionError("--split: needed with --data-path and --data-args-path")
        return get_blend_from_list(words), {}
    each = {p: getattr(args, f"{p}_data_path", None) for p in PARTS}
    if getattr(args, "per_split_data_args_path", None):
        with open(args.per_split_data_args_path, encoding="utf-8") as file:
            each |= {p: w.split() if isinstance(w, str) else w for p, w in json.load(file).items()}
    if not any(each.values()):
        raise OptionError("no data: give --data-path, or --train-data-path and its kin, or datasets= to provider()")
    return None, {p: get_blend_from_list(each[p]) for p in PARTS}


def own_parts(args: Any, samples: Sequence[int | None], datasets: Mapping[str, Any]) -> list[Part]:
    if unknown := set(datasets) - set(PARTS):
        raise OptionError(f"datasets: {', '.join(sorted(unknown))}: the parts are {', '.join(PARTS)}")
    return [
        dataclasses.replace(part, datasets=datasets[part.name])
        for _, part in _wanted(args, samples)
        if datasets.get(part.name) is not None
    ]


def dataset_of(prefix: str) -> str:
    """The dataset that a Megatron prefix stands for: itself, or the one that was indexed beside it."""
    if os.path.exists(os.path.join(prefix, "dataset.json")):
        return prefix
    return f"{prefix}.stepahead"
