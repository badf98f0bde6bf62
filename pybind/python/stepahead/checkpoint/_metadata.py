"""torch's `.metadata`, unpickled with the classes that it is made of and nothing else."""

from __future__ import annotations

import importlib
import io
import pathlib
import pickle
from typing import Any

import torch

from stepahead._errors import CheckpointError

_DCP = "torch.distributed.checkpoint"
_MEGATRON = "megatron.core.dist_checkpointing.strategies.torch"
_CLIENT = "multistorageclient.pathlib"
_PATHS = {"Path", "PosixPath", "PurePath", "PurePosixPath"}
_BUILTINS = {"set", "frozenset", "list", "dict", "tuple"}

# The same as in checkpoint/dcp/classes.go, which has read the file before.
_ALLOWED: dict[str, set[str]] = {
    f"{_DCP}.metadata": {
        "Metadata",
        "StorageMeta",
        "TensorStorageMetadata",
        "BytesStorageMetadata",
        "MetadataIndex",
        "ChunkStorageMetadata",
        "TensorProperties",
        "_MEM_FORMAT_ENCODING",
    },
    "torch.distributed._shard.sharded_tensor.metadata": {"TensorProperties", "MEM_FORMAT_ENCODING"},
    f"{_DCP}.planner": {"SavePlan", "WriteItem", "TensorWriteData", "BytesIOWriteData", "WriteItemType"},
    f"{_DCP}.filesystem": {"_StorageInfo"},
    f"{_DCP}._hf_utils": {"_HFStorageInfo"},
    _MEGATRON: {"MCoreMetadata", "MCoreSavePlan"},
    _CLIENT: {"MultiStoragePath"},
    "torch.serialization": {"_get_layout"},
    "collections": {"OrderedDict"},
    "builtins": _BUILTINS,
    "__builtin__": _BUILTINS,
}


class _Placeholder:
    """Stands for a class of Megatron or of the Multi-Storage Client, which need not be installed, and whose code is not run."""


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes | bytearray, name: str) -> None:
        super().__init__(io.BytesIO(data))
        self._name = name

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and (name == "Size" or isinstance(getattr(torch, name, None), torch.dtype)):
            return getattr(torch, name)
        if module in ("pathlib", "pathlib._local") and name in _PATHS:
            return getattr(pathlib, name)
        if name not in _ALLOWED.get(module, ()):
            raise CheckpointError(
                f"{self._name}: its pickle asks for {module}.{name}, which no metadata needs: it is refused, and nothing was run"
            )
        if module in (_MEGATRON, _CLIENT):
            return _Placeholder
        return getattr(importlib.import_module("builtins" if module == "__builtin__" else module), name)

    def persistent_load(self, pid: Any) -> Any:
        raise CheckpointError(f"{self._name}: its pickle has a persistent id, which no metadata has")


def loads(data: bytes | bytearray, name: str) -> Any:
    """The torch.distributed.checkpoint Metadata in a `.metadata` file of that name."""
    try:
        metadata = _Unpickler(data, name).load()
    except (CheckpointError, KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:
        raise CheckpointError(f"{name}: it is not whole, or not what torch writes: {error!r}") from error
    if not hasattr(metadata, "state_dict_metadata") or getattr(metadata, "storage_data", None) is None:
        raise CheckpointError(f"{name}: its pickle holds no Metadata with storage_data")
    return metadata
