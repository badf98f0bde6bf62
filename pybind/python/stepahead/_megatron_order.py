"""What Megatron's order of token data depends on."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from stepahead import _arguments
from stepahead._errors import OptionError

PARTS = ("train", "valid", "test")


@dataclasses.dataclass(frozen=True)
class Order:
    """Megatron-core's order of token data: `Tokens(4096, order=megatron.Order(samples=...))`.

    The datasets are those of one blend, in its order. All of this must be what the job was started with: another value
    is another order.

    Args:
        samples: those asked for in this part over the whole job (train_samples, or train_iters * global_batch_size),
            not those left; None: one epoch.
        seed: --seed.
        part: "train", "valid" or "test".
        split: --split, such as "969,30,1". None: the datasets are this part's alone (--train-data-path and so on).
        weights: one for each dataset, or None as Megatron's blend without weights.
        surplus: --mid-level-dataset-surplus.
        micro_batch: --micro-batch-size, to deal the global batch to ranks as Megatron's sampler does: a micro batch to
            each in turn. It has no part in the order. None: each rank gets one run of the batch.
    """

    samples: int | None
    seed: int = 1234
    part: str = "train"
    split: str | None = None
    weights: Sequence[float] | None = None
    surplus: float = 0.005
    micro_batch: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("samples", 0), ("seed", 0), ("micro_batch", 1)):
            object.__setattr__(self, name, _arguments.whole(name, getattr(self, name), least))
        object.__setattr__(self, "surplus", _arguments.number("surplus", self.surplus))
        object.__setattr__(self, "split", _arguments.text("split", self.split))
        if self.weights is not None:
            object.__setattr__(self, "weights", _arguments.numbers("weights", self.weights))
        if self.part not in PARTS:
            raise OptionError(f"part={self.part!r}: must be one of {', '.join(PARTS)}")

    def options(self) -> dict[str, Any]:
        """As an option of the native module."""
        given = {k: v for k, v in dataclasses.asdict(self).items() if v is not None}
        return {**given, "samples": -1 if self.samples is None else self.samples}
