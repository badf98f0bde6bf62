"""Batches as Megatron's training loop takes them: micro batches without end, with its keys, dtypes and masks."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from stepahead._errors import StepaheadError


class MicroBatch(dict[str, Any]):
    """What one `next()` gives: tensors alone, since Megatron slices whatever it finds in the dict."""

    step: int
    """The iteration that it belongs to, from 0."""
    samples: list[int]
    """The ids of its samples, in order."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Megatron stores micro batches that are to be replayed in its checkpoints, and reads these without pickles of classes.
        return OrderedDict, (), None, None, iter(self.items())


class MicroBatches:
    """This rank's micro batches, one a `next()`, without end.

    Each step of the loader is one iteration of the training; its batch is handed over in micro batches.
    """

    def __init__(
        self,
        loader: Any,
        micro_batch: int,
        per_step: int,
        finish: Callable[[dict[str, Any]], dict[str, Any]],
        *,
        ends: bool = False,
    ) -> None:
        self.loader = loader
        self._micro_batch = micro_batch
        self._per_step = per_step  # micro batches of this rank in a step
        self._finish = finish
        self._ends = ends  # the order is used up after one epoch
        self._steps: Iterator[Any] | None = None
        self._batch: Any = None
        self._handed = per_step  # micro batches of the current step that were handed over

    def __iter__(self) -> MicroBatches:
        return self

    def __len__(self) -> int:
        """The micro batches of an epoch, equal on every rank: what full validation goes through."""
        return len(self.loader) * self._per_step

    def __next__(self) -> MicroBatch:
        if self._handed == self._per_step:
            self._batch = None  # its memory is free before the next is waited for
            self._batch = self._next_step()
            self._handed = 0
        rows = slice(self._handed * self._micro_batch, (self._handed + 1) * self._micro_batch)
        micro = MicroBatch(self._finish(take(self._batch, rows)))
        micro.step, micro.samples = self._batch.step, self._batch.samples[rows]
        self._handed += 1
        return micro

    def _next_step(self) -> Any:
        for _ in range(2):  # an epoch may just have ended
            if self._steps is None:
                self._steps = iter(self.loader)
            batch = next(self._steps, None)
            if batch is not None:
                return batch
            self._steps = None
            if self._ends:
                break
        raise StepaheadError(
            f"all {len(self.loader)} iterations of the samples asked for (train_samples, or train_iters * "
            "global_batch_size) are used up: Megatron's order has no samples beyond them"
        )

    def save_state(self) -> dict[str, Any]:
        """Where the training stands, for the checkpoint: a dict of str and int, equal on every rank.

        Raises:
            StepaheadError: called in the middle of an iteration, which no restart could continue.
        """
        if self._handed != self._per_step:
            raise StepaheadError(
                f"save_state: {self._handed} of the {self._per_step} micro batches of an iteration were taken: save "
                "between iterations"
            )
        return dict(self.loader.state_dict())

    def close(self) -> None:
        """End the loader."""
        self.loader.close()


def take(batch: dict[str, Any], rows: slice) -> dict[str, Any]:
    """Some samples of a batch; boundaries of packs come out in Megatron's padded form."""
    micro = {k: v[rows] for k, v in batch.items() if k != "cu_seqlens"}
    if "cu_seqlens" in batch:
        length = batch["tokens"].shape[1]
        micro["cu_seqlens"], micro["max_seqlen"] = padded_boundaries(batch["cu_seqlens"], rows, length)
    return micro


def padded_boundaries(flat: Any, rows: slice, length: int) -> tuple[Any, Any]:
    """Of boundaries in a batch seen as one row of tokens: those of each of its rows, int32 [rows, length + 1] padded
    with length, and the longest piece of each row, int32 [rows]."""
    import torch

    edges = torch.arange(rows.start, rows.stop + 1, dtype=torch.int32) * length
    boundaries = torch.full((len(edges) - 1, length + 1), length, dtype=torch.int32)
    longest = torch.zeros(len(edges) - 1, dtype=torch.int32)
    at = torch.searchsorted(flat, edges).tolist()
    for row, (begin, end) in enumerate(itertools.pairwise(at)):
        boundaries[row, : end - begin] = flat[begin:end] - edges[row]
        longest[row] = boundaries[row, : end - begin + 1].diff().max()
    return boundaries, longest
