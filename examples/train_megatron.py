"""Train a small GPT with stepahead as the data loader of a Megatron job. Runs on CPUs.

    python examples/train_megatron.py --data-path /data/corpus_text_document --train-iters 50 --save CHECKPOINTS
    python examples/train_megatron.py --pictures /data/photos --train-iters 50 --save CHECKPOINTS
    torchrun --nproc-per-node 2 examples/train_megatron.py ...

Text: the data path is Megatron's, a prefix of `.bin` and `.idx`, or weights and prefixes; index each once with
`stepahead index PREFIX.idx -o PREFIX.stepahead`. Pictures: what `stepahead pack FOLDER -o DATASET` makes of class folders; the
model reads a picture and writes its class. Started again with the same arguments, it goes on from its last checkpoint.

megatron-core gives the parallel state and the iterator that Megatron's training loop wraps loaders in. The model is plain
torch, and the loop stands for Megatron-LM's, which needs GPUs: with it, only `pretrain(provider, ...)` is left to write.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pathlib
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state as mpu
from megatron.core.rerun_state_machine import RerunDataIterator
from stepahead import megatron
from stepahead import transforms as T
from torch import nn

HEADS = 4
SIDE, PATCH = 32, 8  # of a picture and its patches, in pixels


class Bytes:
    """What the provider asks a tokenizer: the token that ends a document, and the one that fills up."""

    eod, pad = 0, -1


class GPT(nn.Module):
    """Two layers: small enough for a CPU, large enough to learn. It may look at a picture before it reads."""

    def __init__(self, vocabulary: int, length: int, width: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.patches = nn.Conv2d(3, width, PATCH, stride=PATCH)
        layer = nn.TransformerEncoderLayer(width, HEADS, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        x = self.words(batch["tokens"]) + self.positions(batch["position_ids"])
        seen = 0
        if "images" in batch:
            patches = self.patches(batch["images"] / 255).flatten(2).transpose(1, 2)
            seen = patches.shape[1]
            x = torch.cat([patches, x], dim=1)
        if "attention_mask" in batch:
            mask = batch["attention_mask"].repeat_interleave(HEADS, dim=0).flatten(0, 1)  # one for each head
        else:
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        logits = self.head(self.body(x, mask=mask)[:, seen:])
        losses = nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), reduction="none")
        return (losses * batch["loss_mask"].flatten()).sum() / batch["loss_mask"].sum().clamp(min=1)


def captions(length: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What makes batches of pictures: each comes with its class, written out in bytes, as the text to learn."""

    def collate(batch: dict[str, Any]) -> dict[str, Any]:
        text = torch.zeros(len(batch["label"]), length + 1, dtype=torch.int64)
        for row, label in zip(text, batch["label"].tolist(), strict=True):
            words = list(f" class {label}".encode())[: length + 1]
            row[: len(words)] = torch.tensor(words)
        labels = text[:, 1:].contiguous()
        return {
            "images": batch["image"],
            "tokens": text[:, :-1].contiguous(),
            "labels": labels,
            "loss_mask": (labels != 0).float(),
            "position_ids": torch.arange(length).expand_as(labels).contiguous(),
        }

    return collate


def provider(args: argparse.Namespace) -> Callable[..., tuple[Any, Any, Any]]:
    """What Megatron's `pretrain` would be given."""
    if args.pictures is None:
        return megatron.provider(args=args, tokenizer=Bytes())
    plan = T.Compose([T.DecodeImage(), T.RandomResizedCrop(SIDE)])
    return megatron.provider({"train": args.pictures}, args=args, transform=plan, collate=captions(args.seq_length))


def state_path(args: argparse.Namespace, iteration: int, name: str) -> pathlib.Path:
    return pathlib.Path(args.save) / f"iter_{iteration:07d}" / "mp_rank_00" / name


def save(
    args: argparse.Namespace, iteration: int, model: nn.Module, optimizer: Any, iterator: RerunDataIterator
) -> None:
    """A checkpoint as Megatron lays it out: the tracker file last."""
    path = state_path(args, iteration, "model_optim_rng.pt")
    path.parent.mkdir(parents=True, exist_ok=True)
    loader = {"dataloader_state_dict": iterator.iterable.save_state()}
    torch.save(loader, path.with_name(f"train_dataloader_dprank{mpu.get_data_parallel_rank():03d}.pt"))
    if dist.get_rank() == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    dist.barrier()
    if dist.get_rank() == 0:
        tracker = pathlib.Path(args.save) / "latest_checkpointed_iteration.txt"
        tracker.with_suffix(".new").write_text(str(iteration))
        tracker.with_suffix(".new").rename(tracker)


def load(args: argparse.Namespace, model: nn.Module, optimizer: Any) -> None:
    """Continue from the last whole checkpoint, if there is one. The loader's part of it is the provider's."""
    tracker = pathlib.Path(args.save) / "latest_checkpointed_iteration.txt"
    if not tracker.exists():
        return
    args.iteration, args.load = int(tracker.read_text()), args.save
    args.consumed_train_samples = args.iteration * args.global_batch_size
    saved = torch.load(state_path(args, args.iteration, "model_optim_rng.pt"), weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])


def train_step(model: nn.Module, optimizer: Any, iterator: RerunDataIterator, micro_batches: int) -> tuple[float, str]:
    """One iteration. Returns its loss and the SHA-256 of all tensors that this rank took."""
    taken, total = hashlib.sha256(), 0.0
    for _ in range(micro_batches):
        batch = next(iterator)
        for tensor in batch.values():
            taken.update(tensor.contiguous().numpy().tobytes())
        loss = model(batch) / micro_batches
        loss.backward()
        total += loss.item()
    iterator.advance()
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
    optimizer.step()
    optimizer.zero_grad()
    return total, taken.hexdigest()


def main() -> None:
    args = arguments()
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "localhost"), ("MASTER_PORT", "0")):
        os.environ.setdefault(name, value)  # torchrun's, or one process
    dist.init_process_group("gloo")
    mpu.initialize_model_parallel()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    model = GPT(args.vocab_size, args.seq_length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    load(args, model, optimizer)
    training, _, _ = provider(args)([args.train_iters * args.global_batch_size, 0, 0])
    iterator = RerunDataIterator(training)
    micro_batches = args.global_batch_size // (args.micro_batch_size * mpu.get_data_parallel_world_size())
    for iteration in range(args.iteration, args.train_iters):
        loss, taken = train_step(model, optimizer, iterator, micro_batches)
        print(f"iteration {iteration + 1} rank {dist.get_rank()} loss {loss:.4f} batch {taken}", flush=True)
        if (iteration + 1) % args.save_interval == 0:
            save(args, iteration + 1, model, optimizer, iterator)
    training.close()
    dist.destroy_process_group()


def arguments() -> argparse.Namespace:
    """Megatron's own arguments, as far as they matter here, and what it counts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data-path", nargs="+", help="a prefix, or weights and prefixes")
    source.add_argument("--pictures", help="a dataset of pictures in classes")
    parser.add_argument("--split", default="969,30,1")
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--seq-length", type=int, default=64)
    parser.add_argument("--vocab-size", type=int, default=256)
    parser.add_argument("--micro-batch-size", type=int, default=2)
    parser.add_argument("--global-batch-size", type=int, default=8)
    parser.add_argument("--train-iters", type=int, default=50)
    parser.add_argument("--save", required=True, help="folder of the checkpoints")
    parser.add_argument("--save-interval", type=int, default=10)
    args = parser.parse_args()
    args.dataloader_type, args.dataloader_save = "external", args.save
    args.iteration = args.consumed_train_samples = 0
    args.load = None
    args.reset_position_ids = args.reset_attention_mask = args.eod_mask_loss = False
    return args


if __name__ == "__main__":
    main()
