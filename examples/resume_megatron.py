"""Resume a Megatron job from a distributed checkpoint on any store, through the Multi-Storage Client. Runs on CPUs.

    python examples/resume_megatron.py hdfs://nameservice/runs/demo --steps 4
    python examples/resume_megatron.py hdfs://nameservice/runs/demo --steps 8      # goes on with step 4

megatron-core saves and loads the checkpoint; the client reaches the store by the provider `stepahead.msc.Bundle`, which a configuration names. In
Megatron-LM the same is `--save msc://lake --load msc://lake` with that configuration in MSC_CONFIG. The model is one layer of plain torch, and
the loop stands for Megatron-LM's, which needs GPUs.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import tempfile
from typing import Any

import stepahead
import torch
import torch.distributed as dist
from stepahead import checkpoint

CONFIGURATION = """
profiles:
  lake:
    provider_bundle:
      type: stepahead.msc.Bundle
      options:
        base_path: {root}
"""


def sharded(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> dict[str, Any]:
    """What Megatron saves: tensors that say where they belong, and values that all ranks have."""
    from megatron.core.dist_checkpointing import ShardedTensor

    moments = {
        f"{name}.{place}": value
        for place, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }
    tensors = {**model.state_dict(), **moments}
    return {
        "tensors": {name: ShardedTensor.from_rank_offsets(name, tensor) for name, tensor in tensors.items()},
        "iteration": step,
    }


def resume(root: str, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    from megatron.core import dist_checkpointing

    try:
        # Not the tracker file, which may name what is not there: the newest one that is whole.
        newest = checkpoint.latest(root)
    except (stepahead.CheckpointError, FileNotFoundError):
        return 0
    name = newest.rstrip("/").rpartition("/")[2]
    loaded = dist_checkpointing.load(sharded(model, optimizer, 0), f"msc://lake/{name}")
    model.load_state_dict({key: loaded["tensors"][key] for key in model.state_dict()})
    state = optimizer.state_dict()
    for place, values in state["state"].items():
        for key in values:
            values[key] = loaded["tensors"][f"{key}.{place}"]
    optimizer.load_state_dict(state)
    return int(loaded["iteration"])


def train_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> float:
    inputs = torch.randn(8, 16, generator=torch.Generator().manual_seed(step))
    loss = (model(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def train(args: argparse.Namespace) -> None:
    import multistorageclient as msc
    from megatron.core import dist_checkpointing, parallel_state

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel(1, 1)
    torch.manual_seed(7)
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for parameter in model.parameters():  # moments exist before the first step, so that they can be loaded
        parameter.grad = torch.zeros_like(parameter)
    optimizer.param_groups[0]["lr"] = 0.0
    optimizer.step()
    optimizer.param_groups[0]["lr"] = 1e-2
    first = resume(args.checkpoints, model, optimizer)
    print(f"begins with step {first}")
    for step in range(first, args.steps):
        loss = train_step(model, optimizer, step)
        print(f"step {step}: loss {loss:.6f}")
        if (step + 1) % args.save_every == 0:
            where = f"msc://lake/iter_{step + 1:07}"
            msc.os.makedirs(where, exist_ok=True)
            dist_checkpointing.save(sharded(model, optimizer, step + 1), where)
    print("weights", [round(value, 6) for value in model.weight.flatten().tolist()])
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("checkpoints", help="where the checkpoints are, or shall be: a folder or a URL")
    parser.add_argument("--steps", type=int, default=4, help="stop after this step of the whole run")
    parser.add_argument("--save-every", type=int, default=2)
    args = parser.parse_args()
    if "://" not in args.checkpoints:
        args.checkpoints = str(pathlib.Path(args.checkpoints).resolve())
    with tempfile.TemporaryDirectory() as folder:
        configuration = pathlib.Path(folder) / "msc.yaml"
        configuration.write_text(CONFIGURATION.format(root=args.checkpoints))
        os.environ["MSC_CONFIG"] = str(configuration)
        if not torch.cuda.is_available():  # Megatron asks for one as it saves
            torch.cuda.synchronize = lambda *_, **__: None
            torch.cuda.current_device = lambda: torch.device("cpu")
        train(args)


if __name__ == "__main__":
    main()
