"""Kill a job of FSDP2 and resume it: weights, optimizer and the loader's state come out of one checkpoint, and the run ends with the
same bytes as the one that was not killed. Runs on CPUs.

    python examples/resume_fsdp.py DATASET CHECKPOINTS
    python examples/resume_fsdp.py hdfs://nameservice/data/photos hdfs://nameservice/runs/demo --ranks 4

DATASET is a packed folder (`stepahead pack PHOTOS -o DATASET`) or its URL, CHECKPOINTS a folder that does not exist yet. The script starts three
jobs with torchrun: one that nobody disturbs, one that is killed in the middle, and one that goes on from the newest checkpoint that is
whole, on another number of ranks if `--resume-ranks` says so. What a job of your own needs is in `save`, `resume` and `train`.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import stepahead
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from stepahead import checkpoint
from stepahead import transforms as T
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

CROP = 64


def make_model(classes: int) -> nn.Module:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = nn.Sequential(
        nn.AvgPool2d(4), nn.Flatten(), nn.Linear(3 * (CROP // 4) ** 2, 32), nn.ReLU(), nn.Linear(32, classes)
    )
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def state_of(model: nn.Module, optimizer: torch.optim.Optimizer, loader: stepahead.DataLoader) -> dict[str, Any]:
    weights, moments = get_state_dict(model, optimizer)
    # The loader's state is equal on every rank, so it needs no rank in its key.
    return {"model": weights, "optimizer": moments, "loader": loader.state_dict()}


def save(root: str, step: int, *parts: Any) -> None:
    # Whole or not there at all: whoever is killed in here leaves the checkpoint before this one as the newest.
    dcp.save(state_of(*parts), storage_writer=checkpoint.Writer(f"{root}/step-{step:06}", overwrite=True))


def resume(root: str, model: nn.Module, optimizer: torch.optim.Optimizer, loader: stepahead.DataLoader) -> int:
    """Load the newest complete checkpoint, if there is one, and return the number of steps that it has."""
    found = [None]
    if dist.get_rank() == 0:  # one rank looks: a save may be completed in between
        with contextlib.suppress(stepahead.CheckpointError, FileNotFoundError):
            found = [checkpoint.latest(root)]
    dist.broadcast_object_list(found)
    if found[0] is None:
        return 0
    state = state_of(model, optimizer, loader)
    dcp.load(state, storage_reader=checkpoint.Reader(found[0]))
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    loader.load_state_dict(state["loader"])
    return int(found[0].rpartition("-")[2])


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a nested state with their names, in an order that does not depend on anything."""
    if isinstance(value, dict):
        for key in sorted(value, key=str):
            yield from leaves(value[key], f"{name}/{key}")
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            yield from leaves(item, f"{name}/{place}")
    else:
        yield name, value


def digest(state: dict[str, Any]) -> str:
    """The SHA-256 of all weights, moments and the loader's state, whatever the number of ranks."""
    total = hashlib.sha256()
    for name, value in leaves(state):
        if isinstance(value, DTensor):
            value = value.full_tensor()
        data = (
            value.detach().contiguous().numpy().tobytes() if isinstance(value, torch.Tensor) else repr(value).encode()
        )
        total.update(name.encode() + data)
    return total.hexdigest()


def train(args: argparse.Namespace) -> None:
    dist.init_process_group("gloo")
    processes = [0] * dist.get_world_size()
    dist.all_gather_object(processes, os.getpid())
    say(f"processes {' '.join(map(str, processes))}")
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    plan = T.Compose([T.DecodeImage(), T.RandomResizedCrop(CROP), T.RandomHorizontalFlip()])
    loader = stepahead.DataLoader(
        args.dataset, global_batch=args.global_batch, transform=plan, seed=args.seed, workers=1
    )
    model = make_model(len(loader.classes))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = resume(args.checkpoints, model, optimizer, loader)
    say(f"begins with step {step}")
    while step < args.steps:
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch["image"].float() / 255), batch["label"])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            say(f"step {step}")
            if step % args.save_every == 0:
                save(args.checkpoints, step, model, optimizer, loader)
            if step == args.steps:
                break
    say(f"digest {digest(state_of(model, optimizer, loader))}")
    loader.close()
    dist.destroy_process_group()


def say(text: str) -> None:
    if dist.get_rank() == 0:
        print(text, flush=True)


def job(args: argparse.Namespace, ranks: int, checkpoints: str, kill_at: int = 0) -> str:
    """Run a job, until its rank 0 says that it has taken a step if it is to be killed there, and return the digest of what it ends with."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", __file__]
    command += [args.dataset, checkpoints, "--steps", str(args.steps), "--save-every", str(args.save_every)]
    command += ["--global-batch", str(args.global_batch), "--seed", str(args.seed), "--train"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    told: dict[str, str] = {}
    for line in process.stdout:
        print(f"  {line}", end="", flush=True)
        word, _, rest = line.strip().partition(" ")
        told[word] = rest
        if kill_at and line == f"step {kill_at}\n":
            for number in (process.pid, *map(int, told["processes"].split())):
                os.kill(number, signal.SIGKILL)
    if process.wait() != 0 and not kill_at:
        sys.exit(f"the job has failed with status {process.returncode}")
    return told.get("digest", "")


def main() -> int:
    args = arguments()
    if args.train:
        train(args)
        return 0
    if "://" not in args.checkpoints:
        args.checkpoints = str(pathlib.Path(args.checkpoints).resolve())
    print("a job that nobody disturbs")
    undisturbed = job(args, args.ranks, f"{args.checkpoints}/undisturbed")
    print(f"the same, killed at step {args.kill_at}")
    job(args, args.ranks, f"{args.checkpoints}/killed", args.kill_at)
    print(f"newest complete checkpoint: {checkpoint.latest(f'{args.checkpoints}/killed')}")
    resumed = job(args, args.resume_ranks or args.ranks, f"{args.checkpoints}/killed")
    same = resumed == undisturbed != ""
    print("the same bytes" if same else f"different bytes: {undisturbed} and {resumed}")
    return 0 if same else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("dataset", help="the packed dataset: a folder or a URL")
    parser.add_argument("checkpoints", help="where the checkpoints shall be: a folder or a URL")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument(
        "--resume-ranks",
        type=int,
        help="ranks of the job that goes on; with another number sums are rounded in another order, and the bytes differ",
    )
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--save-every", type=int, default=3)
    parser.add_argument("--kill-at", type=int, default=8, help="the step at which the second job is killed")
    parser.add_argument("--global-batch", type=int, default=8)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
