"""Writes hostile.json: metadata that must be refused, and metadata of other writers that must be read, made without torch.

    python hostile.py > hostile.json

Stub modules give the pickles the globals that torch and Megatron would. "refused" is what the refusal must name; null is metadata
that must be read.
"""

import base64
import collections
import enum
import json
import os
import pathlib
import pickle
import sys
import types


def module(name):
    parts = name.split(".")
    for i in range(1, len(parts) + 1):
        part = ".".join(parts[:i])
        if part not in sys.modules:
            sys.modules[part] = types.ModuleType(part)
    return sys.modules[name]


def cls(module_name, name, bases=(object,), **members):
    made = type(name, bases, {"__module__": module_name, "__qualname__": name, **members})
    setattr(module(module_name), name, made)
    return made


DCP = "torch.distributed.checkpoint."
OLD = "torch.distributed._shard.sharded_tensor.metadata"
MEGATRON = "megatron.core.dist_checkpointing.strategies.torch"
Size = cls("torch", "Size", (tuple,), __reduce__=lambda self: (Size, (tuple(self),)))


class Dtype:
    def __init__(self, name):
        self.name = name

    def __reduce__(self):
        return self.name


for dtype in ["float32", "bfloat16", "float8_e4m3fn", "uint4"]:
    d = Dtype(dtype)
    d.__module__ = "torch"
    setattr(module("torch"), dtype, d)
torch = module("torch")
_get_layout = lambda name: name  # noqa: E731
_get_layout.__module__, _get_layout.__qualname__ = "torch.serialization", "_get_layout"
module("torch.serialization")._get_layout = _get_layout


class Strided:
    def __reduce__(self):
        return (_get_layout, ("torch.strided",))


def plain(module_name, name):
    def init(self, **fields):
        self.__dict__.update(fields)

    return cls(module_name, name, __init__=init)


def memory_format(module_name, name):
    e = enum.Enum(
        name,
        {"TORCH_CONTIGUOUS_FORMAT": 0, "TORCH_CHANNELS_LAST": 1, "TORCH_PRESERVE_FORMAT": 2},
        module=module_name,
        qualname=name,
    )
    setattr(module(module_name), name, e)
    return e


Metadata = plain(DCP + "metadata", "Metadata")
MetadataIndex = plain(DCP + "metadata", "MetadataIndex")
StorageMeta = plain(DCP + "metadata", "StorageMeta")
TensorStorageMetadata = plain(DCP + "metadata", "TensorStorageMetadata")
BytesStorageMetadata = plain(DCP + "metadata", "BytesStorageMetadata")
ChunkStorageMetadata = plain(DCP + "metadata", "ChunkStorageMetadata")
StorageInfo = plain(DCP + "filesystem", "_StorageInfo")
HFStorageInfo = plain(DCP + "_hf_utils", "_HFStorageInfo")
SavePlan = plain(DCP + "planner", "SavePlan")
WriteItem = plain(DCP + "planner", "WriteItem")
TensorWriteData = plain(DCP + "planner", "TensorWriteData")
MCoreMetadata = plain(MEGATRON, "MCoreMetadata")
MCoreSavePlan = plain(MEGATRON, "MCoreSavePlan")
ClientPath = plain("multistorageclient.pathlib", "MultiStoragePath")
NewFormat = memory_format(DCP + "metadata", "_MEM_FORMAT_ENCODING")
OldFormat = memory_format(OLD, "MEM_FORMAT_ENCODING")


def state(self):
    return self.fields


def properties(module_name):
    return cls(
        module_name, "TensorProperties", __init__=lambda self, *f: self.__dict__.update(fields=f), __getstate__=state
    )


NewProperties = properties(DCP + "metadata")
OldProperties = properties(OLD)


def new_properties(dtype=None, strides=(3, 1)):
    return NewProperties(dtype or torch.float32, Strided(), False, NewFormat(0), False, strides)


def make(**changes):
    """Metadata of one tensor of 2 x 3 in two chunks, and one blob, with changes."""
    c = {
        "properties": new_properties(), "path": "__0_0.distcp", "size": Size((2, 3)), "cls": Metadata, "info": {}, "chunks": None, "index": {}, "more": {},
        "blob": BytesStorageMetadata(), "storage_meta": StorageMeta(checkpoint_id=pathlib.PurePosixPath("/a/b"), save_id="id", load_id=None, modules=[]),
    } | changes  # fmt: skip
    chunks = c["chunks"] or [ChunkStorageMetadata(offsets=Size((i, 0)), sizes=Size((1, 3))) for i in range(2)]
    storage = {}
    for i, chunk in enumerate(chunks):
        index = MetadataIndex(**({"fqn": "w", "offset": chunk.offsets, "index": i} | c["index"]))
        storage[index] = StorageInfo(**({"relative_path": c["path"], "offset": 1000 * i, "length": 900} | c["info"]))
    storage[MetadataIndex(fqn="step", index=None)] = StorageInfo(relative_path="__0_0.distcp", offset=5000, length=10)
    fields = {
        "state_dict_metadata": {"w": TensorStorageMetadata(properties=c["properties"], size=c["size"], chunks=chunks), "step": c["blob"]},
        "planner_data": {"w": ("w",), "step": ("step", 0)}, "storage_data": storage, "storage_meta": c["storage_meta"], "version": "1.0.0",
    }  # fmt: skip
    return c["cls"](**(fields | c["more"]))


class Calls:
    def __init__(self, *reduced):
        self.reduced = reduced

    def __reduce__(self):
        return self.reduced


def readable():
    yield "plain", make()
    yield "five properties", make(properties=NewProperties(torch.bfloat16, Strided(), False, NewFormat(1), False))
    yield "old properties", make(properties=OldProperties(torch.float32, Strided(), True, OldFormat(2), False))
    yield "no strides", make(properties=new_properties(strides=None))
    yield "no storage meta", make(storage_meta=None)
    path = ClientPath(_path="msc://lake/a", _internal_path=pathlib.PurePosixPath("a"))
    yield "path of the multi-storage client", make(storage_meta=StorageMeta(checkpoint_id=path, save_id="id"))
    yield "megatron", make(cls=MCoreMetadata, more={"mcore_data": {"w": {"nd_reformulated_orig_global_shape": (2, 3)}}})
    plan = MCoreSavePlan(
        items=[
            WriteItem(
                index=MetadataIndex(fqn="w", offset=Size((0, 0)), index=0),
                tensor_data=TensorWriteData(chunk=None, properties=new_properties(), size=Size((2, 3))),
            )
        ],
        mcore_data=None,
    )
    yield "plans", make(more={"all_local_plans": [plan, SavePlan(items=[])], "planner_data": None, "version": None})
    yield (
        "planner data",
        make(more={"planner_data": collections.OrderedDict(a={1, 2}, b=frozenset("x"), c=[None, 1.5, "x"])}),
    )
    yield "no transforms", make(info={"transform_descriptors": []})
    yield "folders", make(path="a/b/__0_0.distcp")
    hf = make()
    for i, (index, _) in enumerate(list(hf.storage_data.items())[:2]):
        hf.storage_data[index] = HFStorageInfo(
            relative_path=f"shard-{i}.safetensors", shape=Size((1, 3)), dtype=torch.float32
        )
    yield "hugging face", hf


def refused():
    yield "transforms", make(info={"transform_descriptors": ["zstd.1"]}), "zstd.1"
    for path in ["../x", "/x", "a/../../x", "a//b", "", ".", "..", "a\\b", "a/./b", "a\0b"]:
        yield f"path {path!r}", make(path=path), "no path inside the checkpoint"
    yield "path of another kind", make(path=pathlib.PurePosixPath("x")), "relative_path"
    yield "negative offset", make(info={"offset": -1}), "lies at -1"
    yield "negative length", make(info={"length": -1}), "lies at"
    yield "far offset", make(info={"offset": 2**63 - 1, "length": 1}), "lies at"
    yield "offset of 2^63", make(info={"offset": 2**63}), "9 bytes"
    yield "later field of the storage", make(info={"encryption": "x"}), "encryption"
    yield "later field of the index", make(index={"replica": 1}), "replica"
    yield "four properties", make(properties=NewProperties(1, 2, 3, 4)), "4 fields"
    yield "seven properties", make(properties=NewProperties(1, 2, 3, 4, 5, 6, 7)), "7 fields"
    yield (
        "dtype that is a text",
        make(properties=NewProperties("float32", Strided(), False, NewFormat(0), False)),
        "field 0",
    )
    yield "no properties", make(properties=None), "properties"
    yield "chunk outside", make(size=Size((1, 3))), "does not fit"
    yield "chunk of other dimensions", make(size=Size((2, 3, 1))), "dimensions"
    yield "negative size", make(size=Calls(Size, ((-1, 3),))), "integers from 0"
    yield "chunk twice", make(chunks=[ChunkStorageMetadata(offsets=Size((0, 0)), sizes=Size((1, 3)))] * 2), "twice"
    yield "no storage", make(more={"storage_data": None}), "storage_data is missing"
    yield "storage of nothing", make(more={"storage_data": {}}), "does not say where"
    yield "storage of others", make(index={"fqn": "v"}), "does not say where"
    yield "no tensors", make(more={"state_dict_metadata": {}}), "belong to no tensor"
    yield "no state", make(more={"state_dict_metadata": None}), "state_dict_metadata"
    yield "blob of another kind", make(blob=None), "neither"
    yield "version of another kind", make(more={"version": 2}), "version"
    yield "save id of another kind", make(storage_meta=StorageMeta(save_id=7)), "save_id"
    yield "no metadata", {"a": 1}, "no Metadata"
    yield "index alone", MetadataIndex(fqn="w"), "no Metadata"
    for name, call in {
        "system": Calls(os.system, ("true",)), "eval": Calls(eval, ("1",)), "getattr": Calls(getattr, ((), "x")),
        "Popen": Calls(__import__("subprocess").Popen, (["true"],)), "partial": Calls(__import__("functools").partial, (print,)),
    }.items():  # fmt: skip
        yield f"{name} in planner data", make(more={"planner_data": {"w": call}}), name
        yield f"{name} as metadata", call, name
        yield f"{name} as a length", make(info={"length": call}), name
    yield "a function of torch", make(more={"planner_data": Calls(cls("torch", "load"), ())}), "load"


def main():
    cases = []
    for name, value in readable():
        for protocol in (2, 4, 5):
            cases.append(
                {"name": f"{name}, protocol {protocol}", "metadata": pickle.dumps(value, protocol), "refused": None}
            )
    for name, value, names in refused():
        cases.append({"name": name, "metadata": pickle.dumps(value, 4), "refused": names})
    for c in cases:
        c["metadata"] = base64.b64encode(c["metadata"]).decode()
    json.dump(cases, sys.stdout, indent=0)
    print()


main()
