"""What test_checkpoint.py runs on four ranks: saves by 1, 2 and 4 of them, loaded by 1, 2 and 4, in every sharding."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from stepahead import checkpoint
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

# Sizes that no number of ranks divides, many small tensors, and one that is longer than what is read whole.
SHAPES = {
    "embedding": (2100, 1031),
    "wide": (5, 3001),
    "odd": (7, 3, 5),
    "bias": (13,),
    **{f"layers.{i}.norm": (17 + i,) for i in range(40)},
}
DTYPES = {"wide": torch.bfloat16, "odd": torch.int64, "bias": torch.uint8}
SHARDINGS = {"rows": Shard(0), "columns": Shard(1), "replicated": Replicate()}
WORLDS = (1, 2, 4)

Tensor = torch.Tensor


def whole(name: str) -> Tensor:
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    values = torch.randn(SHAPES[name], generator=generator) * 50
    return (
        values.abs().to(torch.uint8) if DTYPES.get(name) == torch.uint8 else values.to(DTYPES.get(name, values.dtype))
    )


def placed(tensor: Tensor, mesh: DeviceMesh, sharding: str) -> DTensor:
    placement = SHARDINGS[sharding]
    if isinstance(placement, Shard) and placement.dim >= tensor.dim():
        placement = Shard(0)
    return distribute_tensor(tensor, mesh, [placement], src_data_rank=None)


def state(mesh: DeviceMesh, sharding: str, make: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    model = {name: placed(make(whole(name)), mesh, sharding) for name in SHAPES}
    plain = make(torch.arange(10.0))
    return {"model": model, "plain": plain, "step": make(torch.tensor(77)), "sampler": {"state": "here"}}


def bits(tensor: Tensor) -> bytes:
    return tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.dim() else tensor.numpy().tobytes()


def check(loaded: dict[str, Any], wanted: dict[str, Any], where: str) -> None:
    for name, tensor in wanted["model"].items():
        got = loaded["model"][name].to_local()
        assert got.dtype == tensor.dtype and bits(got) == bits(tensor.to_local()), f"{where}: {name}"
    for name in ("plain", "step"):
        assert bits(loaded[name]) == bits(wanted[name]), f"{where}: {name}"
    assert loaded["sampler"] == wanted["sampler"], where


def theirs(kind: str, path: str) -> Any:
    """torch's own reader or writer."""
    if "://" in path:
        return getattr(dcp, f"Fsspec{kind}")(path.replace("hdfs://", "stepahead://"))
    return getattr(dcp, f"FileSystem{kind}")(path)


def matrix(root: str, meshes: dict[int, DeviceMesh]) -> int:
    """Saves with one side and loads with the other."""
    loads = 0
    for saved_by in WORLDS:
        for sharding in SHARDINGS:
            for ours in (True, False):
                path = f"{root}/{'ours' if ours else 'torch'}-{saved_by}-{sharding}"
                if dist.get_rank() < saved_by:
                    mesh = meshes[saved_by]
                    writer = checkpoint.Writer(path) if ours else theirs("Writer", path)
                    dcp.save(state(mesh, sharding, torch.clone), storage_writer=writer, process_group=mesh.get_group())
                dist.barrier()
                for world, to in ((world, to) for world in WORLDS for to in SHARDINGS):
                    if dist.get_rank() < world:
                        empty = state(meshes[world], to, torch.zeros_like)
                        empty["sampler"] = {"state": ""}
                        reader = theirs("Reader", path) if ours else checkpoint.Reader(path)
                        dcp.load(empty, storage_reader=reader, process_group=meshes[world].get_group())
                        check(empty, state(meshes[world], to, torch.clone), f"{path} by {world} as {to}")
                    loads += 1
                dist.barrier()
    return loads


def model(device: str) -> torch.nn.Module:
    with torch.device(device):
        net = torch.nn.Sequential(*(torch.nn.Linear(33, 33, bias=layer != 1) for layer in range(4)))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in net:
        fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    return net


def meta_model(root: str) -> None:
    """A model of FSDP2 whose memory is made by the load."""
    torch.manual_seed(dist.get_rank())
    trained = model("cpu")
    dcp.save(trained.state_dict(), storage_writer=theirs("Writer", f"{root}/fsdp"))
    fresh = model("meta")
    loaded = fresh.state_dict()
    dcp.load(loaded, storage_reader=checkpoint.Reader(f"{root}/fsdp"))
    fresh.load_state_dict(loaded, assign=True)
    for (name, want), got in zip(trained.state_dict().items(), fresh.state_dict().values(), strict=True):
        assert got.device.type == "cpu" and bits(got.to_local().detach()) == bits(want.to_local().detach()), name
    part = {"1.weight": fresh.state_dict()["1.weight"].detach().clone().zero_()}
    dcp.load(part, storage_reader=checkpoint.Reader(f"{root}/fsdp"))
    assert bits(part["1.weight"].to_local()) == bits(trained.state_dict()["1.weight"].to_local().detach())


def everything(root: str) -> int:
    """What each rank does: how many loads were compared."""
    loads = matrix(root, {world: DeviceMesh("cpu", list(range(world))) for world in WORLDS})
    meta_model(root)
    return loads
