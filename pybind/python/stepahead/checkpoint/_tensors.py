"""Parts of tensors, from a checkpoint's files into a model."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.planner import LoadPlanner, ReadItem

from stepahead import _stores
from stepahead._binding import Call
from stepahead._errors import CheckpointError
from stepahead.checkpoint import _staged
from stepahead.checkpoint._opened import Opened

# What is held at a time of tensors that cannot be read to where they belong: one such part is read while another is copied.
_STAGED_BYTES = 64 << 20


@dataclasses.dataclass
class Part:
    """A part of a stored tensor that an item of a plan asks for, and what the native module is told of it."""

    item: ReadItem
    dtype: torch.dtype
    box: dict[str, Any]

    @property
    def bytes(self) -> int:
        return int(self.dtype.itemsize * torch.Size(self.box["shape"]).numel())

    def into(self, memory: torch.Tensor) -> dict[str, Any]:
        """The box, to be read into a tensor of its dtype and shape without gaps."""
        return {**self.box, "address": memory.data_ptr() if self.bytes else 0, "bytes": self.bytes}


def load(opened: Opened, parts: Sequence[Part], planner: LoadPlanner, shared: bool) -> None:
    """Read parts and give them to the planner, whose methods are called in this thread and, of one item, one after the other."""
    if _resolves_early(planner):
        parts = _load_in_place(opened, parts, planner, shared)
    pinned = torch.cuda.is_available()

    def begin(group: list[Part]) -> tuple[list[torch.Tensor], Call]:
        staged = [torch.empty(part.box["shape"], dtype=part.dtype, pin_memory=pinned) for part in group]
        boxes = [part.into(memory) for part, memory in zip(group, staged, strict=True)]
        return staged, opened.begin_boxes(boxes, shared)

    def give(group: list[Part], staged: list[torch.Tensor], by_torch: list[int]) -> None:
        for place in by_torch:
            staged[place] = _by_torch(opened, group[place])
        for part, memory in zip(group, staged, strict=True):
            target = planner.resolve_tensor(part.item).detach()
            _check_shape(opened, part, target)
            target.copy_(memory)
            planner.commit_tensor(part.item, target)

    in_order = sorted(parts, key=lambda part: (part.box["file"], part.box["off"]))
    _staged.read(_staged.groups(in_order, lambda part: part.bytes, _STAGED_BYTES), begin, give)


def _resolves_early(planner: LoadPlanner) -> bool:
    """Whether a tensor may be asked for long before it is committed: others count on the one following the other."""
    kind = type(planner)
    return (
        isinstance(planner, DefaultLoadPlanner)
        and kind.resolve_tensor is DefaultLoadPlanner.resolve_tensor
        and kind.commit_tensor is DefaultLoadPlanner.commit_tensor
    )


def _load_in_place(opened: Opened, parts: Sequence[Part], planner: LoadPlanner, shared: bool) -> list[Part]:
    """Read the parts that can be read straight to where they belong, and return the others."""
    direct: list[tuple[Part, torch.Tensor]] = []
    others: list[Part] = []
    for part in parts:
        target = planner.resolve_tensor(part.item).detach()
        _check_shape(opened, part, target)
        (direct.append((part, target)) if _takes_bytes(target, part.dtype) else others.append(part))
    direct.sort(key=lambda pair: pair[1].data_ptr())
    apart: list[tuple[Part, torch.Tensor]] = []
    end = 0
    for part, target in direct:
        if target.data_ptr() < end and part.bytes:  # two names of the same memory
            others.append(part)
            continue
        apart.append((part, target))
        end = max(end, target.data_ptr() + part.bytes)
    by_torch = opened.begin_boxes([part.into(target) for part, target in apart], shared).wait()
    for place in by_torch:
        part, target = apart[place]
        target.copy_(_by_torch(opened, part))
    for part, target in apart:
        torch.autograd.graph.increment_version(target)
        planner.commit_tensor(part.item, target)
    return others


def _takes_bytes(target: torch.Tensor, dtype: torch.dtype) -> bool:
    return (
        type(target) in (torch.Tensor, torch.nn.Parameter)
        and target.device.type == "cpu"
        and target.layout == torch.strided
        and target.dtype == dtype
        and target.is_contiguous()
        and not (target.is_conj() or target.is_neg() or target.is_inference())
    )


def _check_shape(opened: Opened, part: Part, target: torch.Tensor) -> None:
    if list(target.size()) != part.box["shape"]:
        raise CheckpointError(
            f"{opened.path}: tensor {part.box['name']}: the plan wants {part.box['shape']} of it, "
            f"and the model has {list(target.size())} for that"
        )


def _by_torch(opened: Opened, part: Part) -> torch.Tensor:
    """A part of a tensor that only torch can build: sparse, quantised and the like."""
    box = part.box
    data = bytearray(box["len"])
    opened.read([[box["file"], box["off"], len(data), _stores.address(data)]])
    tensor = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    if not isinstance(tensor, torch.Tensor):
        raise CheckpointError(f"{opened.path}: {box['name']} at byte {box['off']} is no tensor but {type(tensor)}")
    if tensor.dtype != part.dtype or list(tensor.shape) != box["sizes"]:
        raise CheckpointError(
            f"{opened.path}: {box['name']} at byte {box['off']}: the file holds {tensor.dtype} {list(tensor.shape)}, the metadata says "
            f"{part.dtype} {box['sizes']}: the file is of another save"
        )
    for dimension, (at, length) in enumerate(zip(box["at"], box["shape"], strict=True)):
        tensor = tensor.narrow(dimension, at, length)
    return tensor
