"""Tensors of safetensors files, one or many with an index."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from stepahead import _arguments
from stepahead._binding import Call
from stepahead._errors import CheckpointError, OptionError
from stepahead.checkpoint import _staged
from stepahead.checkpoint._opened import Opened

if TYPE_CHECKING:
    import torch

# torch's names of safetensors' types. F6_E2M3 and F6_E3M2 torch does not have.
_DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F4": "float4_e2m1fn_x2",
}

_TIED = "a weight that is tied to another is saved once: leave it out of names, and load the rest with strict=False"

# What is held at a time of tensors that go to another device or become another type.
_STAGED_BYTES = 128 << 20


def load_safetensors(
    path: str | os.PathLike[str],
    *,
    device: Any = "cpu",
    names: Iterable[str] | Mapping[str, torch.Tensor] | None = None,
    dtype: torch.dtype | None = None,
    catalogue: str | os.PathLike[str] | None = None,
) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors checkpoint, by name.

    Args:
        path: a file, or a folder with one file or with several and their index; or the URL of one.
        device: where the tensors shall be.
        names: of the tensors to load; default: all. Of a dict of names and tensors (a model's `state_dict()`, which may be on
            the meta device) the tensors say what shape and, unless `dtype` is given, which dtype is expected. A weight that is
            tied to another is not in the files: leave it out, and give `load_state_dict` the rest with `strict=False`.
        dtype: what floating-point tensors become; others stay as they are.
        catalogue: the URL of this site's store, whose catalogue says where temporary copies are; "off": none are read. Default: what
            STEPAHEAD_CATALOGUE says.

    All are read together, with few large reads; to the CPU straight into their own memory.

    Raises:
        CheckpointError: the checkpoint is not complete or breaks a rule of the format (docs/checkpoints.md); there is no tensor
            of a name; shape or dtype are not what is expected: the message has both.
        IdentityError: a file was replaced while it was read.

    Example:
        >>> load_safetensors("model.safetensors", names=["lm_head.weight"])  # doctest: +SKIP
    """
    import torch

    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise OptionError(f"dtype={dtype!r}: must be a floating-point dtype of torch")
    try:
        place = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise OptionError(f"device={device!r}: {error}") from None
    asked = _asked(names)
    opened = Opened(path, tensors=True, names=asked, catalogue=catalogue)
    try:
        if opened.layout not in ("safetensors", "huggingface", "dcp-safetensors"):
            raise CheckpointError(
                f"{opened.path}: a checkpoint of the layout {opened.layout}, not of safetensors: stepahead.checkpoint.Reader "
                "reads those of torch.distributed.checkpoint"
            )
        wanted = opened.tensors if asked is None else _wanted(opened, asked)
        tensors = [_Stored(opened, told, torch) for told in wanted]
        if isinstance(names, Mapping):
            for tensor in tensors:
                if not isinstance(names[tensor.name], torch.Tensor):
                    raise OptionError(f"names: {tensor.name}: {names[tensor.name]!r}: must be a tensor")
                tensor.compare(names[tensor.name], dtype)
        return _read(opened, tensors, place, dtype, torch)
    finally:
        opened.close()


class _Stored:
    """A tensor as the files have it."""

    def __init__(self, opened: Opened, told: dict[str, Any], torch: Any) -> None:
        self.name: str = told["name"]
        self.where = f"{opened.path}: tensor {self.name}"
        self.stored: str = told["dtype"]
        self.chunks: list[dict[str, Any]] = told["chunks"]
        self.told_shape: list[int] = told["shape"]
        self.stored_bytes: int = sum(chunk["len"] for chunk in self.chunks)
        dtype = getattr(torch, _DTYPES.get(self.stored, ""), None)
        if dtype is None:
            raise CheckpointError(
                f"{self.where} is of {self.stored}, which this torch does not have: leave it out of names"
            )
        self.dtype: torch.dtype = dtype
        self.shape = list(self.told_shape)
        if self.stored == "F4":  # torch counts two of them as one
            if not self.shape or self.shape[-1] % 2:
                raise CheckpointError(f"{self.where} is of F4 {self.shape}: torch has two of them in one element")
            self.shape[-1] //= 2

    def target(self, dtype: torch.dtype | None) -> torch.dtype:
        return dtype if dtype is not None and self.dtype.is_floating_point else self.dtype

    def compare(self, expected: torch.Tensor, dtype: torch.dtype | None) -> None:
        if list(expected.shape) != self.shape:
            raise CheckpointError(f"{self.where} has shape {self.shape}, and {list(expected.shape)} is expected")
        if expected.dtype != self.target(dtype):
            how = f"becomes {self.target(dtype)}" if dtype is not None else f"is of {self.dtype}"
            raise CheckpointError(f"{self.where} {how}, and {expected.dtype} is expected: give dtype= to convert")

    def boxes(self, memory: list[torch.Tensor]) -> Iterator[dict[str, Any]]:
        for chunk, part in zip(self.chunks, memory, strict=True):
            yield {
                "name": self.name,
                "dtype": self.stored,
                "file": chunk["file"],
                "off": chunk["off"],
                "len": chunk["len"],
                "item": False,
                "sizes": chunk["sizes"],
                "at": [0] * len(chunk["sizes"]),
                "shape": chunk["sizes"],
                "address": part.data_ptr() if part.nbytes else 0,
                "bytes": part.nbytes,
            }

    def join(self, whole: torch.Tensor, parts: list[torch.Tensor]) -> None:
        """Copy parts to their places, unless the one part is the whole."""
        for chunk, part in zip(self.chunks, parts, strict=True):
            if part is not whole:
                box = tuple(slice(at, at + n) for at, n in zip(chunk["offsets"], chunk["sizes"], strict=True))
                whole[box] = part


def _asked(names: Iterable[str] | None) -> list[str] | None:
    return None if names is None else list(dict.fromkeys(_arguments.texts("names", names)))


def _wanted(opened: Opened, names: list[str]) -> list[dict[str, Any]]:
    known = {tensor["name"]: tensor for tensor in opened.tensors}
    for name in names:
        if name not in known:
            there = Opened(opened.path, tensors=True, catalogue="off")
            there.close()
            near = difflib.get_close_matches(name, [tensor["name"] for tensor in there.tensors], 3)
            hint = f": it has {', '.join(near)}" if near else f": it has {len(there.tensors)} others; {_TIED}"
            raise CheckpointError(f"{opened.path}: no tensor {name}{hint}")
    return [known[name] for name in names]


def _read(
    opened: Opened, tensors: list[_Stored], device: torch.device, dtype: torch.dtype | None, torch: Any
) -> dict[str, torch.Tensor]:
    at_once = device.type == "cpu" and all(tensor.target(dtype) == tensor.dtype for tensor in tensors)
    out: dict[str, torch.Tensor] = {}

    def begin(group: list[_Stored]) -> tuple[list[_Memory], Call]:
        memory = [_memory(tensor, device.type == "cuda", torch) for tensor in group]
        boxes = [box for tensor, (_, parts) in zip(group, memory, strict=True) for box in tensor.boxes(parts)]
        return memory, opened.begin_boxes(boxes)

    def give(group: list[_Stored], memory: list[_Memory], _: list[int]) -> None:
        for tensor, (whole, parts) in zip(group, memory, strict=True):
            tensor.join(whole, parts)
            out[tensor.name] = whole.to(device=device, dtype=tensor.target(dtype))

    most = None if at_once else _STAGED_BYTES
    _staged.read(_staged.groups(tensors, lambda tensor: tensor.stored_bytes, most), begin, give)
    return out


# Memory for a whole tensor, and for each of its parts.
_Memory = tuple[Any, list[Any]]


def _memory(tensor: _Stored, pinned: bool, torch: Any) -> _Memory:
    """Memory for a whole tensor, and for each of its parts in the files."""
    whole = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=pinned)
    if len(tensor.chunks) == 1 and tensor.chunks[0]["sizes"] == tensor.told_shape:
        return whole, [whole]
    return whole, [torch.empty(chunk["sizes"], dtype=tensor.dtype) for chunk in tensor.chunks]
