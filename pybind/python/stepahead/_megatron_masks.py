"""The masks and positions that Megatron's GPTDataset gives beside tokens."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

from stepahead._errors import OptionError
from stepahead._megatron_arguments import training

_log = logging.getLogger("stepahead")


@dataclasses.dataclass(frozen=True)
class Masks:
    """What Megatron's GPTDataset makes of a sample's tokens beside them. Options are named as its arguments are."""

    eod: int | None = None
    pad: int = -1
    reset_position_ids: bool = False
    reset_attention_mask: bool = False
    eod_mask_loss: bool = False
    create_attention_mask: bool = True

    def __post_init__(self) -> None:
        if self.eod is None and (self.reset_position_ids or self.reset_attention_mask or self.eod_mask_loss):
            raise OptionError(
                "reset_position_ids, reset_attention_mask and eod_mask_loss need the tokenizer's eod: give tokenizer="
            )

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The batch with the mask of attention (bool [B, 1, L, L], True where a token must not look), if it is wanted,
        and with masks and positions reset at the ends of documents. Packs say by `cu_seqlens` where pieces begin: their
        positions stay, and they get no mask of attention."""
        import torch

        out = dict(batch)
        tokens, labels = batch["tokens"], batch["labels"]
        packed = "cu_seqlens" in batch
        ended = None  # for each token, the documents that ended before it
        if self.eod is not None:
            eod = tokens == self.eod
            ended = eod.cumsum(1) - eod.long()
            if self.eod_mask_loss:
                out["loss_mask"] = out["loss_mask"].masked_fill(eod, 0.0)
            if self.reset_position_ids and not packed:
                at = torch.arange(tokens.shape[1]).expand_as(tokens)
                starts = torch.where(eod.roll(1, 1), at, 0)
                starts[:, 0] = 0
                out["position_ids"] = at - starts.cummax(1).values
        padded = labels == self.pad
        if padded.any():
            out["loss_mask"] = out["loss_mask"].masked_fill(padded, 0.0)
            out["labels"] = labels.masked_fill(padded, 0)
        if (unknown := tokens == self.pad).any():
            out["tokens"] = tokens.masked_fill(unknown, 0)
        if self.create_attention_mask and not packed:
            length = tokens.shape[1]
            later = torch.ones((length, length), dtype=torch.bool).triu(1)
            mask = later.expand(len(tokens), 1, length, length)
            if self.reset_attention_mask and ended is not None:
                mask = mask | (ended[:, None, :, None] != ended[:, None, None, :])
            out["attention_mask"] = mask.contiguous()
        return out


def masks_of(args: Any, tokenizer: Any) -> Masks:
    """The masks that Megatron's arguments ask for. No tokenizer: that of Megatron-LM's training script, if it runs in one."""
    if tokenizer is None:
        try:
            tokenizer = training("get_tokenizer")
        except OptionError:
            _log.warning("no tokenizer: token ids that stand for padding are not masked")
    return Masks(
        eod=_told(tokenizer, "eod"),
        pad=_pad(tokenizer, ambiguous=getattr(args, "allow_ambiguous_pad_tokens", False)),
        reset_position_ids=args.reset_position_ids,
        reset_attention_mask=args.reset_attention_mask,
        eod_mask_loss=args.eod_mask_loss,
        create_attention_mask=getattr(args, "create_attention_mask_in_dataloader", True),
    )


def _pad(tokenizer: Any, *, ambiguous: bool) -> int:
    """The id that Megatron-core takes for padding: none (-1) where the tokenizer gives it another meaning too, unless
    that is allowed."""
    try:
        pad = tokenizer.pad
    except Exception:  # tokenizers raise what they like where they have none
        return -1
    special = [v for k, v in (_told(tokenizer, "special_tokens_dict") or {}).items() if k != "pad_token"]
    if not special:
        special = [_told(tokenizer, "eos"), _told(tokenizer, "eod")]
    return -1 if pad is None or (pad in special and not ambiguous) else int(pad)


def _told(tokenizer: Any, name: str) -> Any:
    try:
        return getattr(tokenizer, name, None)
    except NotImplementedError:  # Megatron's tokenizers say so where they have none
        return None
