"""What the tests of the provider for Megatron share: Megatron's arguments, and its protocol of saving."""

from __future__ import annotations

import os
import pathlib
import types
from typing import Any

import torch
from megatron.core import parallel_state as mpu

LENGTH = 12
MICRO, GLOBAL = 2, 8
REQUEST = [64, 24, 8]  # samples of training, validation and test


def arguments(**changes: Any) -> types.SimpleNamespace:
    """Megatron's arguments, as far as the provider reads them."""
    given = {
        "dataloader_type": "external",
        "dataloader_save": None,
        "micro_batch_size": MICRO,
        "global_batch_size": GLOBAL,
        "seq_length": LENGTH,
        "seed": 1234,
        "data_path": ["0.7", "a", "0.3", "b"],
        "data_args_path": None,
        "per_split_data_args_path": None,
        "train_data_path": None,
        "valid_data_path": None,
        "test_data_path": None,
        "split": "969,30,1",
        "mid_level_dataset_surplus": 0.005,
        "consumed_train_samples": 0,
        "consumed_valid_samples": 0,
        "iteration": 0,
        "load": None,
        "reset_position_ids": False,
        "reset_attention_mask": False,
        "eod_mask_loss": False,
        "create_attention_mask_in_dataloader": True,
        "rampup_batch_size": None,
        "mtp_num_layers": None,
        "full_validation": False,
    }
    return types.SimpleNamespace(**{**given, **changes})


def save(iterator: Any, folder: pathlib.Path, iteration: int) -> None:
    """What Megatron's checkpointing does with the iterator of the training (maybe_save_dataloader_state)."""
    if iterator is None or mpu.get_tensor_model_parallel_rank() != 0 or not mpu.is_pipeline_first_stage():
        return
    stage = "_000" if mpu.get_pipeline_model_parallel_world_size() > 1 else ""
    name = f"train_dataloader_dprank{mpu.get_data_parallel_rank():03d}.pt"
    path = folder / f"iter_{iteration:07d}" / f"mp_rank_00{stage}" / name
    state = iterator.iterable.save_state()
    os.makedirs(path.parent, exist_ok=True)
    torch.save({"dataloader_state_dict": state}, path)
