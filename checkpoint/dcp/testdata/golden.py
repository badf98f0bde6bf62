"""Writes golden.json and the checkpoints it speaks of: what torch's distributed checkpoint wrote, and what torch says of it.

    python golden.py FOLDER

Each save is a folder of gz files, so that they stay small: .metadata and .distcp as torch wrote them on 1 or 2 processes (gloo). For
every tensor golden.json has dtype, shape and the SHA-256 of the whole tensor as torch itself loads it, and where each chunk lies by
torch's own unpickled metadata.
"""

import base64
import gzip
import hashlib
import io
import json
import os
import pickle
import shutil
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh
from torch.utils.serialization import config as serialization

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64, torch.float16,
    torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128, torch.float8_e5m2, torch.float8_e4m3fn,
    torch.float8_e8m0fnu, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float4_e2m1fn_x2,
]  # fmt: skip


class Subclass(torch.Tensor):
    """A tensor that torch.save writes with its type."""


def values(dtype, shape, seed):
    count = 1
    for d in shape:
        count *= d
    size = torch.empty(0, dtype=dtype).element_size()
    g = torch.Generator().manual_seed(seed)
    data = torch.randint(0, 2 if dtype == torch.bool else 256, (count * size,), dtype=torch.uint8, generator=g)
    return data.view(dtype).reshape(shape)


def plain():
    state = {f"dtype.{str(d).split('.')[1]}": values(d, (3, 5), i) for i, d in enumerate(DTYPES)}
    base = values(torch.float32, (6, 8), 90)
    return state | {
        "scalar": values(torch.float32, (), 91),
        "empty": values(torch.float32, (0, 3), 92),
        "view": base[1:3],
        "transposed": base.t(),
        "channels_last": values(torch.float32, (2, 3, 4, 5), 93).to(memory_format=torch.channels_last),
        "parameter": torch.nn.Parameter(values(torch.float32, (4,), 94)),
        "buffer": torch.nn.Buffer(values(torch.float32, (4,), 95)),
        "nested": {"list": [values(torch.int64, (2,), 96), {"x": 1.5}], "step": 7, "text": "ü", "none": None},
        "odd name \n \u2028 \\ /": values(torch.uint8, (1,), 97),
    }


def sharded(mesh):
    full = {
        n: values(d, s, i)
        for i, (n, d, s) in enumerate(
            [
                ("even", torch.bfloat16, (8, 6)),
                ("uneven", torch.float32, (5, 3)),
                ("one", torch.int64, (1, 4)),
                ("columns", torch.float16, (3, 4)),
            ]
        )
    }
    state = {n: distribute_tensor(t, mesh, [Shard(1 if n == "columns" else 0)]) for n, t in full.items()}
    state["replicated"] = distribute_tensor(values(torch.float32, (2, 2), 9), mesh, [Replicate()])
    state["step"] = 3
    return state


def whole(t):
    t = t.detach().contiguous()
    data = t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""
    return hashlib.sha256(data).hexdigest()


def describe(folder, state):
    with open(os.path.join(folder, ".metadata"), "rb") as f:
        metadata = pickle.load(f)
    flat = {}

    def walk(prefix, v):
        if isinstance(v, dict):
            for k, x in v.items():
                walk((*prefix, str(k)), x)
        elif isinstance(v, list):
            for k, x in enumerate(v):
                walk((*prefix, str(k)), x)
        else:
            flat[".".join(prefix)] = v

    walk((), state)
    tensors, blobs = {}, {}
    places = {(i.fqn, i.offset): s for i, s in metadata.storage_data.items()}
    for name, m in metadata.state_dict_metadata.items():
        if not isinstance(m, TensorStorageMetadata):
            s = places[name, None]
            blobs[name] = [s.relative_path, s.offset, s.length]
            continue
        chunks = []
        for c in m.chunks:
            s = places[name, c.offsets]
            chunks.append([list(c.offsets), list(c.sizes), s.relative_path, s.offset, s.length])
        t = flat[name]
        tensors[name] = {
            "dtype": str(m.properties.dtype).split(".")[1], "shape": list(m.size), "strides": list(m.properties.strides or []), "chunks": chunks, "sha256": whole(t),
        }  # fmt: skip
    return {"save_id": metadata.storage_meta.save_id, "version": metadata.version, "tensors": tensors, "blobs": blobs}


def run(rank, world, folder, out):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29555"}
    dist.init_process_group("gloo", rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (world,))
    state = sharded(mesh)
    dcp.save(state, storage_writer=FileSystemWriter(folder))
    loaded = {
        n: distribute_tensor(torch.zeros(v.shape, dtype=v.dtype), mesh, v.placements)
        for n, v in state.items()
        if isinstance(v, DTensor)
    }
    dcp.load(loaded, storage_reader=FileSystemReader(folder))
    full = {n: v.full_tensor() for n, v in loaded.items()}
    if rank == 0:
        with open(out, "w") as f:
            json.dump(describe(folder, full | {"step": 3}), f)
    dist.destroy_process_group()


def save_plain(folder, threads=1):
    state = plain()
    dcp.save(state, storage_writer=FileSystemWriter(folder, thread_count=threads), no_dist=True)
    return describe(folder, state)


def items():
    """Single items of torch.save: name, bytes, and what must come out."""

    def item(t, sums=True):
        f = io.BytesIO()
        with serialization.patch("save.compute_crc32", sums):
            torch.save(t, f)
        return f.getvalue()

    t = values(torch.float32, (3, 4), 1)
    yield "plain", item(t), whole(t), None
    yield "without sums", item(t, sums=False), whole(t), None
    yield "parameter", item(torch.nn.Parameter(t)), whole(t), None
    tagged = t.clone()
    tagged.note = "an attribute"
    yield "attributes", item(tagged), whole(t), None
    yield "view of a larger storage", item(t.view(12)[2:7]), whole(t.view(12)[2:7]), None
    yield "empty", item(t[:0]), whole(t[:0]), None
    yield "scalar", item(t[0, 0].clone()), whole(t[0, 0]), None
    yield "sixteen dimensions", item(t.reshape([1] * 14 + [3, 4])), whole(t), None
    yield "strided", item(t.t()), None, None
    yield "sparse", item(t.to_sparse()), None, "_rebuild_sparse_tensor"
    yield "csr", item(t.to_sparse_csr()), None, "_rebuild_sparse_tensor"
    yield "quantised", item(torch.quantize_per_tensor(t.nan_to_num(), 0.1, 0, torch.qint8)), None, "QInt8Storage"
    yield "nested", item(torch.nested.nested_tensor([t, t[:1]])), None, "_rebuild_nested_tensor"
    yield "meta", item(t.to("meta")), None, "_rebuild_meta_tensor_no_storage"
    yield "subclass", item(t.as_subclass(Subclass)), None, "Subclass"
    yield "dict", item({"a": t}), None, "no tensor"
    yield "text", item("text"), None, "no tensor"
    f = io.BytesIO()
    torch.save(t, f, _use_new_zipfile_serialization=False)
    yield "not a zip file", f.getvalue(), None, "no entry of a zip file"


def main():
    out = sys.argv[1]
    result = {"torch": torch.__version__.split("+")[0], "saves": {}, "items": []}
    for name, make in {"plain": save_plain, "threads": lambda f: save_plain(f, 3), "ranks": None}.items():
        with tempfile.TemporaryDirectory() as scratch:
            folder = os.path.join(scratch, "save")
            if make:
                result["saves"][name] = make(folder)
            else:
                mp.spawn(run, (2, folder, os.path.join(scratch, "json")), nprocs=2)
                with open(os.path.join(scratch, "json")) as f:
                    result["saves"][name] = json.load(f)
            kept = os.path.join(out, name)
            shutil.rmtree(kept, ignore_errors=True)
            os.makedirs(kept)
            for file in sorted(os.listdir(folder)):
                with (
                    open(os.path.join(folder, file), "rb") as f,
                    open(os.path.join(kept, file.lstrip(".") + ".gz"), "wb") as g,
                ):
                    g.write(gzip.compress(f.read(), mtime=0))
    for name, data, digest, refused in items():
        result["items"].append(
            {"name": name, "item": base64.b64encode(data).decode(), "sha256": digest, "refused": refused}
        )
    with open(os.path.join(out, "golden.json"), "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
