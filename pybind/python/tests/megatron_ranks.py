"""The processes of a training, as Megatron-LM runs them: `megatron_ranks.py FOLDER PHOTOS`.

Every batch is held against what megatron-core's own data sets give for the samples that its sampler would take.
"""

from __future__ import annotations

import copy
import faulthandler
import multiprocessing
import pathlib
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from megatron.core import parallel_state as mpu
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.utils import get_blend_from_list
from megatron.core.rerun_state_machine import (
    RerunDataIterator,
    RerunMode,
    get_rerun_state_machine,
    initialize_rerun_state_machine,
)
from megatron.core.utils import get_batch_on_this_cp_rank
from megatron_job import GLOBAL, LENGTH, MICRO, REQUEST, arguments, save
from stepahead import DatasetError, IdentityError, OptionError, Tokens, megatron
from stepahead import transforms as T

WORLD = 4
# Tensor, pipeline and context parallelism of the processes; the rest is data parallelism.
LAYOUTS = [(1, 1, 1), (2, 2, 1), (1, 4, 1), (1, 1, 2), (1, 2, 2), (2, 1, 1)]
TEXT = {
    "tokens": (torch.int64, (MICRO, LENGTH)),
    "labels": (torch.int64, (MICRO, LENGTH)),
    "loss_mask": (torch.float32, (MICRO, LENGTH)),
    "position_ids": (torch.int64, (MICRO, LENGTH)),
    "attention_mask": (torch.bool, (MICRO, 1, LENGTH, LENGTH)),
}

Iterators = list["RerunDataIterator | None"]


class Tokenizer:
    eod, pad, vocab_size = 2, 3, 100
    unique_identifiers: ClassVar = {"class": "Tokenizer"}


class Peer:
    """Megatron's data sets of the same arguments."""

    def __init__(self, args: Any, cache: pathlib.Path) -> None:
        config = GPTDatasetConfig(
            random_seed=args.seed,
            sequence_length=args.seq_length,
            blend=get_blend_from_list(args.data_path),
            split=args.split,
            tokenizer=Tokenizer(),
            reset_position_ids=args.reset_position_ids,
            reset_attention_mask=args.reset_attention_mask,
            eod_mask_loss=args.eod_mask_loss,
            path_to_cache=str(cache),
        )
        self.parts = BlendedMegatronDatasetBuilder(GPTDataset, REQUEST, lambda: True, config).build()

    def micro_batch(self, part: int, iteration: int, k: int) -> dict[str, torch.Tensor]:
        """What --dataloader-type single gives this rank as micro batch k of an iteration."""
        world, rank = mpu.get_data_parallel_world_size(), mpu.get_data_parallel_rank()
        first = iteration * GLOBAL + (k * world + rank) * MICRO
        rows = [self.parts[part][i] for i in range(first, first + MICRO)]
        return {name: torch.stack([r[name] for r in rows]) for name in TEXT}


def layout(tensor: int, pipeline: int, context: int) -> None:
    mpu.destroy_model_parallel()
    mpu.initialize_model_parallel(tensor, pipeline, context_parallel_size=context, create_gloo_process_groups=False)


def micro_batches() -> int:
    return GLOBAL // (MICRO * mpu.get_data_parallel_world_size())


def at_an_end() -> bool:
    return bool(mpu.is_pipeline_first_stage() or mpu.is_pipeline_last_stage())


def reads() -> bool:
    return mpu.get_tensor_model_parallel_rank() == 0 and at_an_end()


def gathered(mine: Any) -> list[Any]:
    """What each process has."""
    every: list[Any] = [None] * WORLD
    dist.all_gather_object(every, mine)
    return every


def iterate(iterator: RerunDataIterator, part: int, iteration: int, peer: Peer) -> list[dict[str, torch.Tensor]]:
    """One iteration, each micro batch compared."""
    taken = []
    for k in range(micro_batches()):
        batch = next(iterator)
        want = peer.micro_batch(part, iteration, k)
        assert batch.keys() == TEXT.keys() and batch.step == iteration, (batch.keys(), batch.step)
        for name, (dtype, shape) in TEXT.items():
            got = batch[name]
            assert got.dtype == dtype and got.shape == shape and got.is_contiguous(), (name, got.dtype, got.shape)
            assert torch.equal(got, want[name]), (name, part, iteration, k, got, want[name])
        taken.append(batch)
    return taken


def to_the_others(batch: dict[str, torch.Tensor] | None) -> dict[str, torch.Tensor] | None:
    """The broadcast over tensor parallelism: receivers allocate by the contract alone."""
    if not at_an_end():
        return None
    received = {}
    for name, (dtype, shape) in TEXT.items():
        tensor = batch[name] if batch is not None else torch.empty(shape, dtype=dtype)
        dist.broadcast(tensor, mpu.get_tensor_model_parallel_src_rank(), group=mpu.get_tensor_model_parallel_group())
        received[name] = tensor
    return received


def check_context(batch: dict[str, torch.Tensor]) -> None:
    """Context-parallel ranks hold the same sequences, and their parts make up the whole."""
    size = mpu.get_context_parallel_world_size()
    if size == 1:
        return
    mine = get_batch_on_this_cp_rank(dict(batch))
    for name in ("tokens", "labels", "loss_mask", "position_ids"):
        parts = [torch.empty_like(mine[name]) for _ in range(size)]
        dist.all_gather(parts, mine[name].contiguous(), group=mpu.get_context_parallel_group())
        chunks: list[Any] = [None] * (2 * size)
        for rank, part in enumerate(parts):
            chunks[rank], chunks[2 * size - 1 - rank] = part.chunk(2, dim=1)
        assert torch.equal(torch.cat(chunks, dim=1), batch[name]), name


def open_all(args: Any, **options: Any) -> Iterators:
    provide = megatron.provider(args=args, tokenizer=Tokenizer(), prefetch=2, **options)
    assert provide.is_distributed  # type: ignore[attr-defined]
    return [None if it is None else RerunDataIterator(it) for it in provide(REQUEST)]


def close(iterators: Iterators) -> None:
    for iterator in iterators:
        if iterator is not None:
            iterator.iterable.close()


def train(args: Any, peer: Peer, iteration: int, folder: pathlib.Path, **options: Any) -> None:
    """One iteration and its replay, validation and test behind it, and a checkpoint at the end."""
    training, validation, test = iterators = open_all(args, **options)
    assert all((it is not None) == reads() for it in iterators), iterators
    batch = None
    if training is not None:
        taken = iterate(training, 0, iteration, peer)
        training.rewind()
        again = [next(training) for _ in taken]
        assert all(torch.equal(a["tokens"], b["tokens"]) for a, b in zip(taken, again, strict=True))
        training.advance()
        batch = taken[0]
    received = to_the_others(batch)
    if received is not None:
        check_context(received)
    if validation is not None and test is not None:
        for i in range(REQUEST[1] // GLOBAL):
            iterate(validation, 1, i, peer)
        first = next(validation)  # it begins again
        assert torch.equal(first["tokens"], peer.micro_batch(1, 0, 0)["tokens"])
        iterate(test, 2, 0, peer)
    save(training, folder, iteration + 1)
    close(iterators)
    dist.barrier()


def refuses(error: type[Exception], text: str, make: Callable[[], Iterators]) -> None:
    """The start fails on every rank that reads."""
    try:
        iterators = make()
    except error as raised:
        assert text in str(raised), raised
        return
    close(iterators)
    assert not reads(), f"{error.__name__} was not raised"


def text_training(folder: pathlib.Path) -> None:
    args = arguments(
        data_path=["0.7", str(folder / "a"), "0.3", str(folder / "b")],
        split="70,20,10",
        reset_position_ids=True,
        reset_attention_mask=True,
        eod_mask_loss=True,
        dataloader_save=str(folder / "loader"),
    )
    peer = Peer(args, folder / "cache")
    for at, shape in enumerate(LAYOUTS):  # each continues what another layout saved
        layout(*shape)
        args.iteration, args.consumed_train_samples = at, at * GLOBAL
        args.load = str(folder) if at else None
        train(args, peer, at, folder / "loader")
    at = len(LAYOUTS)

    def changed(**changes: Any) -> Callable[[], Iterators]:
        other = copy.copy(args)
        vars(other).update(iteration=at, consumed_train_samples=at * GLOBAL, load=str(folder))
        vars(other).update(changes)
        return lambda: open_all(other)

    refuses(IdentityError, "seed", changed(seed=1235))
    refuses(IdentityError, "weights", changed(data_path=["0.6", str(folder / "a"), "0.4", str(folder / "b")]))
    refuses(IdentityError, "dataset", changed(data_path=["0.7", str(folder / "b"), "0.3", str(folder / "a")]))
    refuses(IdentityError, "consumed_train_samples", changed(consumed_train_samples=(at + 1) * GLOBAL))
    refuses(DatasetError, "take_over", changed(iteration=at + 7))
    # The test part has no sequence: megatron-core builds it for ever.
    refuses(OptionError, "no token", changed(split="969,30,1", iteration=0, consumed_train_samples=0, load=None))
    runs_again(changed(), changed(dataloader_save=str(folder / "again")), peer, folder / "again", at)
    # Another loader made the checkpoint: this one begins where that one stopped.
    args.iteration, args.consumed_train_samples = at + 1, (at + 1) * GLOBAL
    train(args, peer, at + 1, folder / "taken", take_over=True)


def runs_again(
    start: Callable[[], Iterators], resume: Callable[[], Iterators], peer: Peer, folder: pathlib.Path, at: int
) -> None:
    """Megatron distrusts a result: it stores the batches of the iteration, stops inside it, and runs it again elsewhere."""
    training, *others = start()
    close(others)
    stored = folder.with_name(f"rerun{dist.get_rank()}")
    if training is not None:
        iterate(training, 0, at, peer)
        torch.save(training.state_dict(), stored)
    save(training, folder, at)
    close([training])
    dist.barrier()
    refuses(IdentityError, "consumed_train_samples", resume)
    if training is not None:
        held = torch.load(stored, weights_only=True)
        get_rerun_state_machine().data_iterator_checkpoints = [held]
    training, *others = resume()
    close(others)
    get_rerun_state_machine().data_iterator_checkpoints = None
    if training is not None:
        training.load_state_dict(held)
        training.rewind()
        again = [next(training)["tokens"] for _ in range(micro_batches())]
        assert all(torch.equal(t, peer.micro_batch(0, at, k)["tokens"]) for k, t in enumerate(again))
        training.advance()
        iterate(training, 0, at + 1, peer)
    close([training])
    dist.barrier()


def packs_training(folder: pathlib.Path) -> None:
    """Packs, whose boundaries every pipeline stage needs."""
    layout(1, 4, 1)
    args = arguments(micro_batch_size=1, sft=True, create_attention_mask_in_dataloader=False)
    packs = Tokens(LENGTH, packing="best-fit")
    training, *rest = open_all(args, datasets={"train": str(folder / "a.stepahead")}, tokens=packs)
    assert training is not None and rest == [None, None]
    batch = next(training)
    kinds = {name: (t.dtype, tuple(t.shape)) for name, t in batch.items()}
    want = {name: (dtype, (1, LENGTH)) for name, (dtype, _) in TEXT.items() if name != "attention_mask"}
    assert kinds == {**want, "cu_seqlens": (torch.int32, (1, LENGTH + 1)), "max_seqlen": (torch.int32, (1,))}
    starts = batch["cu_seqlens"][0].unique()
    assert torch.equal(starts[:-1].long(), (batch["position_ids"][0] == 0).nonzero()[:, 0])
    assert starts[-1] == LENGTH and batch["max_seqlen"].item() == starts.diff().max()
    assert all(torch.equal(batch["tokens"], tokens) for tokens in gathered(batch["tokens"].clone()))
    close([training])


def multimodal_training(folder: pathlib.Path, photos: str) -> None:
    """Photographs, whose ranks of one data-parallel rank get the same, and no other rank does."""
    plan = T.Compose([T.DecodeImage(), T.RandomResizedCrop(16)])
    args = arguments(dataloader_save=str(folder / "photos-loader"))
    seen: list[Any] = []
    for at, shape in ((0, (1, 2, 1)), (1, (1, 1, 2))):
        layout(*shape)
        args.iteration, args.consumed_train_samples, args.load = at, at * GLOBAL, "here" if at else None
        training, *rest = open_all(args, datasets={"train": photos}, transform=plan, workers=1)
        assert training is not None and rest == [None, None]
        batches = [next(training) for _ in range(micro_batches())]
        save(training, folder / "photos-loader", at + 1)
        mine = [(mpu.get_data_parallel_rank(), b.samples, b["image"].contiguous(), b["label"]) for b in batches]
        by_rank: dict[int, list[Any]] = {}
        for rank, samples, images, labels in (m for process in gathered(mine) for m in process):
            assert images.shape == (MICRO, 3, 16, 16) and images.dtype == torch.uint8 and labels.dtype == torch.int64
            by_rank.setdefault(rank, []).append((samples, images))
        for copies in by_rank.values():
            half = len(copies) // 2  # two processes each
            for (samples, images), (others, same) in zip(copies[:half], copies[half:], strict=True):
                assert samples == others and torch.equal(images, same)
        seen += [s for copies in by_rank.values() for samples, _ in copies[: len(copies) // 2] for s in samples]
        close([training])
    assert len(set(seen)) == len(seen) == 2 * GLOBAL, seen


def rendezvous(rank: int, ports: Any) -> dist.Store:
    if rank > 0:
        return dist.TCPStore("127.0.0.1", ports.get(), WORLD, wait_for_workers=False)
    store = dist.TCPStore("127.0.0.1", 0, WORLD, is_master=True, wait_for_workers=False)
    for _ in range(1, WORLD):
        ports.put(store.port)
    return store


def one_rank(rank: int, ports: Any, folder: pathlib.Path, photos: str) -> None:
    faulthandler.dump_traceback_later(500, exit=True)  # a hang says where
    dist.init_process_group("gloo", store=rendezvous(rank, ports), rank=rank, world_size=WORLD)
    initialize_rerun_state_machine(mode=RerunMode.VALIDATE_RESULTS)
    text_training(folder)
    packs_training(folder)
    multimodal_training(folder, photos)
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    torch.set_num_threads(1)
    # Importing Megatron takes seconds: it is done once, before processes part.
    ports = multiprocessing.get_context("fork").SimpleQueue()
    given = (ports, pathlib.Path(sys.argv[1]), sys.argv[2])
    torch.multiprocessing.start_processes(one_rank, given, WORLD, start_method="fork")


if __name__ == "__main__":
    main()
