"""Megatron drives stepahead as its DataLoader: `--dataloader-type external` and

    from stepahead import megatron
    pretrain(megatron.train_valid_test_datasets_provider, model_provider, ModelType.encoder_or_decoder, forward_step)

What `--data-path`, `--split` and their kin say comes in the very order, sample for sample, in which Megatron's own
loader (`--dataloader-type single`) gives it, so a job can change from one to the other between two iterations.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stepahead._distributed import job_and_run
from stepahead._errors import IdentityError, OptionError
from stepahead._loader import DataLoader
from stepahead._megatron_arguments import Part, dataset_of, megatron_parts, own_parts, refuse, training
from stepahead._megatron_batches import MicroBatch, MicroBatches
from stepahead._megatron_masks import masks_of
from stepahead._megatron_order import Order
from stepahead._megatron_state import load, replayed, state_file, step_of
from stepahead._tokens import Tokens

__all__ = ["MicroBatch", "MicroBatches", "Order", "provider", "train_valid_test_datasets_provider"]

_log = logging.getLogger("stepahead")


def provider(
    datasets: Mapping[str, Any] | None = None,
    *,
    tokens: Tokens | None = None,
    collate: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    args: Any = None,
    tokenizer: Any = None,
    take_over: bool = False,
    locate: Callable[[str], str] | None = None,
    loader: Callable[..., Any] = DataLoader,
    **options: Any,
) -> Callable[..., tuple[Any, Any, Any]]:
    """Make what Megatron's `pretrain` takes as the provider of data sets.

    Args:
        datasets: {"train": URL or list of sources, "valid": ..., "test": ...} for orders and data of stepahead's own,
            such as multimodal samples; parts may be left out. None: the tokens that `--data-path` and its kin name, in
            Megatron's order.
        tokens: how tokens of `datasets` become samples; None for media. Not for Megatron's order.
        collate: makes the dict of tensors that the training reads out of a micro batch of the loader's fields. Default:
            for tokens, Megatron's own masks; for media, the fields as they are. Under context parallelism Megatron cuts
            whatever tensor is in the dict along dimension 1.
        args: Megatron's arguments. Default: those of `megatron.training.get_args()`.
        tokenizer: for masks that depend on its `eod` and `pad`. Default: `megatron.training.get_tokenizer()`.
        take_over: the checkpoint that is resumed was not made with stepahead, so it holds no state of this loader:
            begin at `consumed_train_samples`.
        locate: the dataset of a Megatron prefix. Default: the prefix itself if it is a dataset, else
            PREFIX.stepahead, which `stepahead index PREFIX.idx -o PREFIX.stepahead` makes.
        loader: what opens the datasets; another one than `DataLoader` has its arguments and methods.
        options: arguments of `DataLoader`, such as agents, prefetch or record.

    The provider gives every process what it reads: iterators without end on the ranks that Megatron reads from, None on
    others. It must be called on all ranks (it says so by `is_distributed`), and raises on every mismatch of
    what is resumed.

    Raises:
        OptionError: a setting cannot work. DatasetError, StoreError: the data or the loader's state cannot be read.
        IdentityError: the state belongs to other data or another order, or disagrees with consumed_train_samples.

    Example:
        >>> from stepahead import megatron
        >>> megatron.provider(prefetch=4).is_distributed
        True
    """

    def train_valid_test_datasets_provider(
        train_val_test_num_samples: Sequence[int | None], vp_stage: int | None = None
    ) -> tuple[Any, Any, Any]:
        given = args if args is not None else training("get_args")
        job = _Job(given, options, loader)
        refuse(given, megatrons_order=datasets is None)
        job.check_length(tokens)
        packed = tokens is not None and tokens.packing == "best-fit"
        if packed and collate is None:
            job.check_packs()
        if not job.reads(vp_stage, packed=packed):
            return None, None, None
        if datasets is None:
            parts = megatron_parts(given, train_val_test_num_samples, locate or dataset_of)
            plan, finish = None, collate or masks_of(given, tokenizer)
        else:
            parts = own_parts(given, train_val_test_num_samples, datasets)
            plan = tokens
            finish = collate or (masks_of(given, tokenizer) if tokens is not None else dict)
        opened: dict[str, MicroBatches] = {}
        try:
            for part in parts:
                opened[part.name] = job.open(part, plan, finish, take_over)
        except BaseException:
            for iterator in opened.values():
                iterator.close()
            raise
        return opened.get("train"), opened.get("valid"), opened.get("test")

    train_valid_test_datasets_provider.is_distributed = True  # type: ignore[attr-defined]
    return train_valid_test_datasets_provider


def train_valid_test_datasets_provider(
    train_val_test_num_samples: Sequence[int | None], vp_stage: int | None = None
) -> tuple[Any, Any, Any]:
    """`provider()` with its defaults: what Megatron's arguments name, in Megatron's order.

    Args:
        train_val_test_num_samples: samples asked for in each part, by Megatron.
        vp_stage: the virtual pipeline stage that the iterators are for.
    """
    return provider()(train_val_test_num_samples, vp_stage)


train_valid_test_datasets_provider.is_distributed = True  # type: ignore[attr-defined]


class _Job:
    """One process of the training."""

    def __init__(self, args: Any, options: Mapping[str, Any], loader: Callable[..., Any]) -> None:
        from megatron.core import parallel_state

        self.args = args
        self.mpu = parallel_state
        self.rank: int = parallel_state.get_data_parallel_rank()
        self.world: int = parallel_state.get_data_parallel_world_size()
        self.options = dict(options)
        self.make = loader
        # On every rank, also those that read nothing: all must count the same starts.
        self.named = self.options.pop("job", None)
        run = self.options.pop("run", None)
        self.job, self.run = job_and_run(self.named, run, self.world, bool(options.get("agents")))

    def check_length(self, tokens: Tokens | None) -> None:
        """Refuse lengths that cannot work."""
        a = self.args
        context = self.mpu.get_context_parallel_world_size()
        if context > 1 and a.seq_length % (2 * context):
            raise OptionError(
                f"--seq-length {a.seq_length}: must be a multiple of {2 * context}, twice --context-parallel-size, into "
                "which sequences are cut"
            )
        if tokens is not None and tokens.sequence_length != a.seq_length:
            raise OptionError(f"tokens: sequence_length {tokens.sequence_length} is not --seq-length {a.seq_length}")

    def check_packs(self) -> None:
        """Refuse arguments with which Megatron's get_batch would let ranks wait for each other for ever, or let pieces of a
        pack look at each other."""
        a = self.args
        if a.micro_batch_size != 1:
            raise OptionError(
                f"--micro-batch-size {a.micro_batch_size}: must be 1 for packs: Megatron takes one at a time"
            )
        if getattr(a, "create_attention_mask_in_dataloader", True):
            raise OptionError(
                "packs come without a mask of attention, which other ranks would wait for: give "
                "--no-create-attention-mask-in-dataloader"
            )
        ranks = self.mpu.get_tensor_model_parallel_world_size() * self.mpu.get_pipeline_model_parallel_world_size()
        if ranks > 1 and not getattr(a, "sft", False):
            raise OptionError(
                "packs under tensor or pipeline parallelism: Megatron passes their boundaries on with --sft"
            )

    def reads(self, vp_stage: int | None, *, packed: bool) -> bool:
        """Whether Megatron asks this process for batches: the first tensor-parallel rank of the first and of the last
        pipeline stage; of every stage if pieces of packs are masked there, or further tokens predicted. All
        context-parallel ranks read the whole sequence, and cut it."""
        if self.mpu.get_tensor_model_parallel_rank() != 0:
            return False
        if packed or getattr(self.args, "mtp_num_layers", None):
            return True
        where = {"ignore_virtual": vp_stage is None, "vp_stage": vp_stage}
        return bool(self.mpu.is_pipeline_first_stage(**where) or self.mpu.is_pipeline_last_stage(**where))

    def open(
        self,
        part: Part,
        tokens: Tokens | None,
        finish: Callable[[dict[str, Any]], dict[str, Any]],
        take_over: bool,
    ) -> MicroBatches:
        per_step = self._micro_batches(part)
        options: dict[str, Any] = {
            "global_batch": part.global_batch,
            "rank": self.rank,
            "world_size": self.world,
            "job": self.job if part.name == "train" else f"{self.job}/{part.name}",  # agents prepare the steps of both
            "run": self.run,
            **self.options,
        }
        if part.name != "train":  # what is recorded is the training
            options |= {"record": None, "stats": None}
        if options.get("token") or os.environ.get("STEPAHEAD_TOKEN"):
            # The token names the job, and there is one: the training's.
            options["job"] = self.named
            if part.name != "train":
                options["agents"] = None
        if part.order is not None:
            tokens = Tokens(self.args.seq_length, order=part.order)
        else:
            options.setdefault("seed", self.args.seed)
        if tokens is not None:
            options["tokens"] = tokens
        loader = self.make(part.datasets, **options)
        try:
            state = self._saved_state(part, take_over) if part.name == "train" else None
            if state is not None or part.step > 0:
                loader.load_state_dict(loader.state_at(part.step) if state is None else state)
        except BaseException:
            loader.close()
            raise
        ends = part.name == "train" and part.order is not None
        return MicroBatches(loader, part.micro_batch, per_step, finish, ends=ends)

    def _micro_batches(self, part: Part) -> int:
        """Those of this rank in a step."""
        if part.global_batch % (part.micro_batch * self.world):
            raise OptionError(
                f"{part.name}: global batch {part.global_batch}: must be a multiple of micro batches of {part.micro_batch} "
                f"times the {self.world} data-parallel ranks"
            )
        return part.global_batch // (part.micro_batch * self.world)

    def _saved_state(self, part: Part, take_over: bool) -> dict[str, Any] | None:
        """The state of the checkpoint that is resumed, checked against what Megatron counted; None if none is to be used."""
        a = self.args
        folder = getattr(a, "dataloader_save", None)
        if not a.iteration or not a.load:
            return None
        if take_over or not folder:
            _log.warning(
                "stepahead begins at consumed_train_samples=%d, without a saved state", a.consumed_train_samples
            )
            return None
        path = state_file(folder, a.iteration)
        state = load(path)
        if step_of(state) != part.step and step_of(state) != part.step + replayed():
            raise IdentityError(
                f"{path} continues before iteration {step_of(state)} of {part.global_batch} samples, and Megatron counted "
                f"consumed_train_samples={a.consumed_train_samples}: the checkpoint's files do not belong together"
            )
        _log.info("stepahead resumes from %s, iteration %d", path, part.step)
        return state
