"""Checkpoints in any store, read with few large reads and in one version.

>>> import torch.distributed.checkpoint as dcp
>>> from stepahead import checkpoint
>>> dcp.load(state, storage_reader=checkpoint.Reader("hdfs://ns/runs/7b/step-1000"))  # doctest: +SKIP
>>> dcp.save(state, storage_writer=checkpoint.Writer("hdfs://ns/runs/7b/step-2000"))  # doctest: +SKIP
>>> weights = checkpoint.load_safetensors("hdfs://ns/models/7b", device="cuda")  # doctest: +SKIP
>>> with checkpoint.local("hdfs://ns/models/7b") as folder:  # doctest: +SKIP
...     model = AutoModelForCausalLM.from_pretrained(folder)

torch is imported when `Reader` or `Writer` is first used. docs/checkpoints.md says what a checkpoint is, and when it is whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepahead.checkpoint._latest import latest
from stepahead.checkpoint._local import local
from stepahead.checkpoint._safetensors import load_safetensors

if TYPE_CHECKING:
    from stepahead.checkpoint._reader import Reader
    from stepahead.checkpoint._writer import Writer

__all__ = ["Reader", "Writer", "latest", "load_safetensors", "local"]


def __getattr__(name: str) -> Any:
    if name == "Reader":
        from stepahead.checkpoint._reader import Reader

        return Reader
    if name == "Writer":
        from stepahead.checkpoint._writer import Writer

        return Writer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
