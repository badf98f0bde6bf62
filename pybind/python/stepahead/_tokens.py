"""Batches of tokens instead of a dataset's raw fields."""

from __future__ import annotations

import dataclasses
from typing import Any

from stepahead import _arguments
from stepahead._errors import OptionError
from stepahead._megatron_order import Order

_PACKINGS = ("windows", "chunk", "best-fit")


@dataclasses.dataclass(frozen=True)
class Tokens:
    """How a dataset of token sequences becomes samples of equal length: `DataLoader(url, tokens=Tokens(4096))`.

    Every batch then holds, for B samples on this rank and L = sequence_length:

    - `tokens` int64 [B, L]: the inputs;
    - `labels` int64 [B, L]: the token after each input;
    - `loss_mask` float32 [B, L]: 1 where a label counts, 0 where an input has none;
    - `position_ids` int64 [B, L]: 0, 1, ... from the start of the sample, or of the piece of a pack;

    and with `packing="best-fit"` also

    - `cu_seqlens` int32 [K + 1]: where pieces start in the batch seen as B * L tokens, as attention over sequences of
      varying length takes it; the last is B * L. What follows the last piece of a pack is a stretch of its own,
      token 0 with mask 0;
    - `document_ids` int64 [B, L], if `fields=` names it: the number of the piece in its pack, -1 behind the last.

    "windows" and "chunk" have also, if `fields=` names it, `text` int64 [B, L + 1]: inputs and last label in one piece of
    memory, for code that cuts `text[:, :-1]` and `text[:, 1:]` itself.

    `fields=` of the loader leaves fields out, which saves the time to fill them.

    Args:
        sequence_length: L, in tokens; 1 to 2**24.
        packing: how samples are cut. Default: "windows"; not beside `order`, which has a packing of its own.
            "windows": the sequences one after another as they lie, in windows of L + 1 tokens of which neighbours share
            one. `shuffle` shuffles windows.
            "chunk": the same, of sequences in an order of their own in every epoch; chunks come in the order of that
            stream.
            "best-fit": whole sequences packed by best fit decreasing; those longer than L are cut every L tokens. No
            label crosses from one sequence to another, every token is an input once an epoch, and `shuffle` shuffles
            packs and exchanges sequences of equal length between them.
        order: `stepahead.megatron.Order(...)` for the samples of Megatron-core's data sets, in its order, instead of a packing.
            The datasets are then the sources of its blend, and the loader's seed and shuffle are left out.
        vocab_size: the number of token ids, if given: an id from there on stops the run with BadSampleError, as negative
            ids always do.

    Raises:
        OptionError: an argument cannot work. When the loader opens: the dataset has no tokens, or fewer than one
            sample takes.

    Example:
        >>> from stepahead import Tokens
        >>> Tokens(4096, packing="best-fit", vocab_size=50304)
        Tokens(sequence_length=4096, packing='best-fit', vocab_size=50304, order=None)
    """

    sequence_length: int
    packing: str | None = None
    vocab_size: int | None = None
    order: Order | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "sequence_length", _arguments.whole("sequence_length", self.sequence_length, 1))
        object.__setattr__(self, "vocab_size", _arguments.whole("vocab_size", self.vocab_size, 1))
        if self.order is not None and not isinstance(self.order, Order):
            raise OptionError(f"order={self.order!r}: must be stepahead.megatron.Order(...)")
        if self.order is not None and self.packing is not None:
            raise OptionError(f"packing={self.packing!r}: order= has a packing of its own: leave one of them out")
        if self.order is None and self.packing is None:
            object.__setattr__(self, "packing", _PACKINGS[0])
        if self.packing is not None and self.packing not in _PACKINGS:
            raise OptionError(f"packing={self.packing!r}: must be one of {', '.join(_PACKINGS)}")


def options(tokens: Any) -> dict[str, Any]:
    """The tokens argument as an option of the native module."""
    if tokens is None:
        return {}
    if not isinstance(tokens, Tokens):
        raise OptionError(f"tokens={tokens!r}: must be stepahead.Tokens(sequence_length, ...)")
    given = {k: getattr(tokens, k) for k in ("sequence_length", "packing", "vocab_size")}
    given["order"] = tokens.order and tokens.order.options()
    return {"tokens": {k: v for k, v in given.items() if v is not None}}
