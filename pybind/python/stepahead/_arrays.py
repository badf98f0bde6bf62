"""Views of memory that the native module mapped, as torch tensors or numpy arrays, without a copy; and copies of bytes."""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import itertools
from typing import Any

from stepahead import _binding
from stepahead._errors import OptionError


class Lease:
    """Keeps a batch's memory: given back when the last view of it is gone."""

    __slots__ = ("batch", "handle")

    def __init__(self, handle: int, batch: int) -> None:
        self.handle = handle
        self.batch = batch

    def __del__(self) -> None:
        # May run in any thread and at exit, and in a forked child, where the memory is not ours to give.
        if _binding is not None and _binding.alive():
            _binding.native().Release(self.handle, self.batch)


@functools.lru_cache(maxsize=256)
def _buffer_type(size: int) -> type[ctypes.Array[ctypes.c_uint8]]:
    # A subclass, so that instances can carry the lease.
    return type(f"Memory{size}", (ctypes.c_uint8 * size,), {})


def _memory(address: int, size: int, lease: Lease) -> ctypes.Array[ctypes.c_uint8]:
    memory = _buffer_type(size).from_address(address)
    memory.lease = lease  # type: ignore[attr-defined]
    return memory


def stored(field: dict[str, Any]) -> list[bytes]:
    """The parts of a field of bytes, each copied once."""
    places = itertools.pairwise(field["offsets"])
    return [ctypes.string_at(field["address"] + start, end - start) for start, end in places]


class TorchViews:
    """Makes torch tensors."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.dtypes = {
            name: getattr(torch, name)
            for name in ("uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "bool")
        }

    def view(self, field: dict[str, Any], lease: Lease) -> Any:
        """A tensor over the field's memory, with its dtype, shape and strides (in elements)."""
        memory = _memory(field["address"], field["bytes"], lease)
        flat = self.torch.frombuffer(memory, dtype=self.dtypes[field["dtype"]])
        return flat.as_strided(field["shape"], field["strides"])


class NumpyViews:
    """Makes numpy arrays."""

    def __init__(self) -> None:
        import numpy

        self.numpy = numpy

    def dtype(self, name: str) -> Any:
        if name == "bfloat16":
            try:
                ml_dtypes = importlib.import_module("ml_dtypes")
            except ImportError:
                raise OptionError(
                    "bfloat16 batches need torch, or the package ml_dtypes for numpy: install one, or cast to float32"
                ) from None
            return self.numpy.dtype(ml_dtypes.bfloat16)
        return self.numpy.dtype(name)

    def view(self, field: dict[str, Any], lease: Lease) -> Any:
        """An array over the field's memory, with its dtype, shape and strides."""
        dtype = self.dtype(field["dtype"])
        memory = _memory(field["address"], field["bytes"], lease)
        strides = [s * dtype.itemsize for s in field["strides"]]
        return self.numpy.ndarray(field["shape"], dtype, buffer=memoryview(memory), strides=strides)


def views(output: str | None) -> TorchViews | NumpyViews:
    """What makes the tensors: torch where it is installed, else numpy, unless `output` names one."""
    if output not in (None, "torch", "numpy"):
        raise OptionError(f'output={output!r}: must be "torch", "numpy" or None')
    torch_is_here = importlib.util.find_spec("torch") is not None
    if output == "torch" and not torch_is_here:
        raise OptionError('output="torch": torch is not installed here: install it, or use output="numpy"')
    if output == "numpy" or not torch_is_here:
        return NumpyViews()
    return TorchViews()
