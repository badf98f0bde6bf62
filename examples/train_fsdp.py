"""Train a small image classifier with FSDP2, fed by stepahead. Runs on CPUs or GPUs.

    torchrun --nproc-per-node 2 examples/train_fsdp.py DATASET --steps 100 --agents auto

DATASET is a packed folder (`stepahead pack PHOTOS -o DATASET`) whose class folders are the labels.
What is particular to stepahead is the loader in `make_loader` and its state in the checkpoint.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import time

import stepahead
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from stepahead import transforms as T
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

CROP = 224


def make_loader(args: argparse.Namespace) -> stepahead.DataLoader:
    plan = T.Compose([T.DecodeImage(), T.RandomResizedCrop(CROP), T.RandomHorizontalFlip()])
    return stepahead.DataLoader(
        args.dataset,
        global_batch=args.global_batch,  # fixes the order: keep it when the number of ranks changes
        transform=plan,
        seed=args.seed,
        agents=args.agents,
        job=args.job,
        workers=args.workers,
        record=per_rank(args.record),
        stats=per_rank(args.stats),
    )  # rank and world size are torch.distributed's


class Classifier(nn.Module):
    """Strided convolutions on pooled pixels: small enough for a CPU, large enough to learn."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.AvgPool2d(4), nn.Conv2d(3, 16, 4, stride=4), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(16, 32, 3, stride=2), nn.ReLU())
        self.head = nn.Linear(32, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.body(self.stem(images.float() / 255 - 0.45))
        return self.head(x.mean(dim=(2, 3)))


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch: dict[str, torch.Tensor], device: torch.device
) -> float:
    images = batch["image"].to(device, non_blocking=True)
    labels = batch["label"].to(device, non_blocking=True)
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


class Clock:
    """Makes every step last the same, as on an accelerator that the host waits for, and keeps the books."""

    def __init__(self, step_seconds: float, path: str | None) -> None:
        self.step_seconds = step_seconds
        self.path = path
        self.started = time.monotonic()
        self.got_batch_at = self.training_cpu = 0.0

    def got_batch(self) -> float:
        """Returns the seconds waited for it. What this thread does from here to the step's end is training, not loading."""
        self.got_batch_at = time.thread_time()
        return time.monotonic() - self.started

    def end_step(self, **facts: float) -> None:
        self.training_cpu += time.thread_time() - self.got_batch_at
        other_cpu = time.process_time() - self.training_cpu
        time.sleep(max(0.0, self.started + self.step_seconds - time.monotonic()))
        now = time.monotonic()
        if self.path:
            facts |= {"seconds": now - self.started, "other_cpu": other_cpu}
            with open(self.path, "a") as log:
                print(json.dumps(facts), file=log)
        self.started = now


def per_rank(path: str | None) -> str | None:
    return f"{path}.rank{dist.get_rank()}" if path else None


def save(folder: str, model: nn.Module, optimizer: torch.optim.Optimizer, loader: stepahead.DataLoader) -> None:
    weights, moments = get_state_dict(model, optimizer)
    # The loader's state is equal on every rank, so it needs no rank in its key.
    dcp.save({"model": weights, "optimizer": moments, "loader": loader.state_dict()}, checkpoint_id=folder)


def load(folder: str, model: nn.Module, optimizer: torch.optim.Optimizer, loader: stepahead.DataLoader) -> None:
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "loader": loader.state_dict()}
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    loader.load_state_dict(state["loader"])


def batches(loader: stepahead.DataLoader, memory_only: bool):
    """Endless batches: epoch after epoch, or a few kept in memory over and over to measure the rest."""
    if memory_only:
        kept = [batch for batch, _ in zip(loader, range(2), strict=False)]
        loader.close()
        while True:
            yield from kept
    while True:
        yield from loader


def report(stats: dict) -> None:
    made = stats["prepared"] + stats["raw"] + stats["local"]
    print(
        f"rank 0 waited {stats['stall_seconds']:.2f} s for data in {stats['steps']} steps; agents prepared "
        f"{stats['prepared']} of its {made} images; not prepared, by reason: {stats.get('by_reason', {}) or '-'}"
    )


def main() -> None:
    args = arguments()
    device_type = "cuda" if torch.cuda.is_available() else "cpu"
    dist.init_process_group("nccl" if device_type == "cuda" else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device(device_type, rank % max(torch.cuda.device_count(), 1))
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    loader = make_loader(args)
    model = Classifier(len(loader.classes)).to(device)
    mesh = init_device_mesh(device_type, (world,))
    fully_shard(model.body, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    first = 0
    if args.resume:
        load(args.resume, model, optimizer, loader)
        first = args.resume_step
    clock = Clock(args.step_seconds, per_rank(args.times))
    for step, batch in enumerate(batches(loader, args.from_memory), start=first):
        waited = clock.got_batch()
        loss = train_step(model, optimizer, batch, device)
        stats = {} if args.from_memory else {"worker_cpu": loader.worker_cpu_seconds()}
        clock.end_step(step=step, loss=loss, load_seconds=waited, **stats)
        if rank == 0 and step % 20 == 0:
            print(f"step {step}: loss {loss:.3f}, waited {1e3 * waited:.0f} ms for data", flush=True)
        del batch
        if step + 1 == args.steps:
            break
    if args.save:
        save(args.save, model, optimizer, loader)
    if rank == 0 and not args.from_memory:
        report(loader.stats())
    if args.totals and not args.from_memory:
        totals = loader.stats() | {"recent": [], "substitutions": []}
        pathlib.Path(f"{args.totals}.rank{rank}").write_text(json.dumps(totals) + "\n")
    loader.close()
    dist.destroy_process_group()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("dataset", help="the packed dataset: a folder or a URL")
    parser.add_argument("--global-batch", type=int, default=64, help="samples a step over all ranks (default 64)")
    parser.add_argument("--steps", type=int, default=100, help="stop after this step of the whole run (default 100)")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--agents", help='"auto" for those that the store\'s registry lists (default: none)')
    parser.add_argument("--job", help="the job's id (default: the scheduler's)")
    parser.add_argument("--workers", type=int, help="local worker processes of each rank")
    parser.add_argument("--step-seconds", type=float, default=0.0, help="sleep until a step has lasted this long")
    parser.add_argument("--record", help="write proof records to this path, one file a rank")
    parser.add_argument("--stats", help="write what each step cost to this path, one file a rank")
    parser.add_argument("--totals", help="write what the whole run cost to this path, one file a rank")
    parser.add_argument("--times", help="write step times to this path, one file a rank")
    parser.add_argument("--from-memory", action="store_true", help="repeat two batches: what training costs alone")
    parser.add_argument("--save", type=pathlib.Path, help="write a checkpoint here at the end")
    parser.add_argument("--resume", type=pathlib.Path, help="continue from this checkpoint")
    parser.add_argument("--resume-step", type=int, default=0, help="the step of that checkpoint, for the log")
    return parser.parse_args()


if __name__ == "__main__":
    main()
