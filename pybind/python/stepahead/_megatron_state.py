"""States of a loader in Megatron's checkpoints."""

from __future__ import annotations

import glob
import json
import os
from typing import Any

from stepahead._errors import DatasetError


def step_of(state: dict[str, Any]) -> int:
    """The next step of a state of a loader."""
    ((_, text),) = state.items()
    return int(json.loads(text)["step"])


def state_file(folder: str, iteration: int) -> str:
    """The newest file with the loader's state: every rank's is the same, so that of another number of ranks will do, and
    what another run with other parallelism left there does not count."""
    pattern = os.path.join(glob.escape(folder), f"iter_{iteration:07d}", "mp_rank_*", "train_dataloader_dprank*.pt")
    files = glob.glob(pattern)
    if not files:
        raise DatasetError(
            f"{pattern}: no such file: the checkpoint holds no state of the loader. If it was made with another loader in "
            "Megatron's order, give take_over=True to provider() for this one start"
        )
    return max(files, key=lambda path: (os.path.getmtime(path), path))


def load(path: str) -> dict[str, Any]:
    import torch

    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
        state = saved["dataloader_state_dict"]
        step_of(state)
    except Exception as error:
        raise DatasetError(f"{path}: not the state of a stepahead loader: {error}") from error
    return dict(state)


def replayed() -> int:
    """1 if Megatron holds the batches of an iteration that it is to run again, as after a result that it could not trust:
    its checkpoint was written in the middle of that iteration, behind which the loader stood already. Else 0."""
    from megatron.core.rerun_state_machine import get_rerun_state_machine

    held = get_rerun_state_machine().data_iterator_checkpoints or []
    return int(any(iterator["saved_microbatches"] for iterator in held))
