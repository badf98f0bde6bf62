"""What a loader yields."""

from __future__ import annotations

import functools
import json
from typing import Any


class Batch(dict[str, Any]):
    """One step of this rank: field name -> tensor of the whole batch (text fields: list of str; fields without a plan: list of bytes).

    Images are uint8 [N, 3, H, W] over channels-last memory unless the plan casts them; scalars are [N]
    int64, float64 or bool; bytes are those that are stored. The memory belongs to the tensors: it is given back when the last of
    them, and every view of them, is gone. What a batch of tokens holds: `Tokens`.
    """

    step: int
    """Counted through all epochs from 0."""
    epoch: int
    _names: list[str]  # of the sources
    _details: str  # JSON, parsed when it is asked for: a batch is handed over in microseconds

    @functools.cached_property
    def _parsed(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self._details)
        return parsed

    @property
    def samples(self) -> list[int]:
        """The ids of the samples in their sources, in order; a bad sample's place holds its substitute."""
        samples: list[int] = self._parsed["samples"]
        return samples

    @property
    def sources(self) -> list[str]:
        """The names of the sources of the samples, in order; of a single dataset the empty name."""
        drawn: list[int] = self._parsed.get("sources") or [0] * len(self.samples)
        return [self._names[i] for i in drawn]

    @property
    def stats(self) -> dict[str, Any]:
        """What this step cost: stall_seconds and what it is made of, prepared, raw, local, by_reason, by_node."""
        stats: dict[str, Any] = self._parsed["stats"]
        return stats
