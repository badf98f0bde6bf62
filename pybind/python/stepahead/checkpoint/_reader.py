"""torch's distributed checkpoint, read from any store."""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, StorageMeta, TensorStorageMetadata
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem
from torch.futures import Future

from stepahead import _stores
from stepahead._errors import CheckpointError, IdentityError
from stepahead.checkpoint import _metadata, _tensors
from stepahead.checkpoint._opened import Opened

_METADATA = ".metadata"
# Shared by more sets of ranks than this is read by each rank alone: every set is read by itself.
_MOST_SETS = 64


@dataclasses.dataclass(frozen=True)
class _Plan:
    """What ranks tell each other beside their plans: the version that was opened, and which items they read together."""

    identity: str
    together: tuple[tuple[int, ...], ...] = ()


class Reader(FileSystemReader):
    """A StorageReader for `torch.distributed.checkpoint.load`, in the place of FileSystemReader.

    Args:
        path: the checkpoint's folder, or its URL: `hdfs://nameservice/runs/7b/step-1000`, `dir:///...`. HDFS is configured
            by the environment, as for Hadoop's own programs.
        catalogue: the URL of this site's store, whose catalogue says where temporary copies are; "off": none are read. Default: what
            STEPAHEAD_CATALOGUE says.

    It reads what torch's FileSystemWriter and FsspecWriter, Megatron's `torch_dist` and `stepahead.checkpoint.Writer` save, for any
    number of ranks and any sharding. All that a rank wants is read together, with few large reads, where it can be straight into
    the model's memory; of tensors that lie in another sharding only the part that is wanted. Ranks of one host read from HDFS once what
    several of them want.

    The version of every file is that of the moment when the metadata was read, on all ranks the same; else loading is an IdentityError.
    A checkpoint that is not complete is a CheckpointError that says why. The metadata's pickle runs nothing. Values that are not
    tensors are pickles that torch's planner loads: load checkpoints only from where you would run programs from.

    Inside `dcp.load` torch puts these errors, with their texts, into its own CheckpointException.
    """

    def __init__(self, path: str | os.PathLike[str], *, catalogue: str | os.PathLike[str] | None = None) -> None:
        super().__init__(".")  # whose path is a local one
        self.path = os.fspath(path)
        self._catalogue = catalogue
        self._opened: Opened | None = None
        self._failure: Exception | None = None
        self._metadata: Metadata | None = None

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Take another checkpoint, or the same one in the version that is there now."""
        path = self.path
        super().reset(None)
        self.path = path if checkpoint_id is None else os.fspath(checkpoint_id)
        self.close()

    def close(self) -> None:
        """Close the store. What follows opens it again."""
        opened, self._opened, self._failure, self._metadata = self._opened, None, None, None
        if opened is not None:
            opened.close()

    def sources(self) -> dict[str, Any]:
        """How many bytes came from temporary copies, and why others did not, since the checkpoint was opened (docs/checkpoints.md)."""
        told: dict[str, Any] = self._open().store.call("sources")
        return told

    def _open(self) -> Opened:
        if self._failure is not None:
            raise self._failure
        if self._opened is None:
            try:
                opened = Opened(self.path, shared=_ranks_here() > 1, catalogue=self._catalogue)
                if opened.layout not in ("dcp", "torch_dist"):
                    raise CheckpointError(
                        f"{self.path}: a checkpoint of the layout {opened.layout}: Reader reads torch's distributed "
                        "checkpoints; load_safetensors and local read others"
                    )
                self._opened = opened
            except Exception as error:
                self._failure = error
                raise
        return self._opened

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the checkpoint holds. torch asks for the metadata of one rank, with `rank`, if this fails."""
        opened = self._open()
        rank = kwargs.get("rank")
        name = _METADATA
        if rank is not None:
            if _METADATA in opened.numbers:
                raise CheckpointError(f"{self.path}: it was saved with metadata for all ranks, which must be read")
            name = f"__{rank}{_METADATA}"
        if name not in opened.numbers:
            raise CheckpointError(f"{self.path}: it has no {name}")
        metadata: Metadata = _metadata.loads(opened.read_file(name), f"{self.path}/{name}")
        storage_meta = getattr(metadata, "storage_meta", None) or StorageMeta()
        storage_meta.load_id = self.load_id
        metadata.storage_meta = storage_meta
        return metadata

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        super().set_up_storage_reader(metadata, is_coordinator, *args, **kwargs)
        self._metadata = metadata

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return dataclasses.replace(plan, storage_data=_Plan(self._open().identity))

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Compare the versions that ranks have opened, and find what several of them read."""
        told = [plan.storage_data for plan in plans]
        if not all(isinstance(one, _Plan) for one in told):
            return plans
        for rank, one in enumerate(told):
            if one.identity != told[0].identity:
                raise IdentityError(
                    f"{self.path}: it was overwritten while ranks opened it: rank {rank} has another version than rank 0"
                    f"\nrank 0: {told[0].identity}\nrank {rank}: {one.identity}"
                )
        together = _together([plan.items for plan in plans])
        return [
            dataclasses.replace(plan, storage_data=_Plan(one.identity, sets))
            for plan, one, sets in zip(plans, told, together, strict=True)
        ]

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        opened = self._open()
        sets = plan.storage_data.together if isinstance(plan.storage_data, _Plan) and opened.remote else ()
        rest = set(range(len(plan.items))).difference(*sets)
        for together in sets:
            self._read_items(opened, [plan.items[i] for i in together], planner, shared=True)
        self._read_items(opened, [plan.items[i] for i in sorted(rest)], planner, shared=False)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _read_items(self, opened: Opened, items: Sequence[ReadItem], planner: LoadPlanner, shared: bool) -> None:
        blobs = [item for item in items if item.type == LoadItemType.BYTE_IO]
        self._read_blobs(opened, blobs, planner, shared)
        parts = [self._part(opened, item) for item in items if item.type != LoadItemType.BYTE_IO]
        _tensors.load(opened, parts, planner, shared)

    def _read_blobs(self, opened: Opened, items: Sequence[ReadItem], planner: LoadPlanner, shared: bool) -> None:
        wants, buffers = [], []
        for item in items:
            place = self.storage_data[item.storage_index]
            self._refuse_transforms(place, item)
            buffer = bytearray(place.length)
            number = opened.number(place.relative_path, item.storage_index.fqn)
            wants.append([number, place.offset, len(buffer), _stores.address(buffer)])
            buffers.append(buffer)
        opened.read(wants, shared)
        for item, buffer in zip(items, buffers, strict=True):
            planner.load_bytes(item, io.BytesIO(buffer))

    def _part(self, opened: Opened, item: ReadItem) -> _tensors.Part:
        index = item.storage_index
        place = self.storage_data[index]
        self._refuse_transforms(place, item)
        assert self._metadata is not None
        stored = self._metadata.state_dict_metadata[index.fqn]
        if not isinstance(stored, TensorStorageMetadata):
            raise CheckpointError(f"{self.path}: {index.fqn} is no tensor there, and the plan wants one")
        box = {
            "name": index.fqn,
            "dtype": str(stored.properties.dtype).removeprefix("torch."),
            "file": opened.number(place.relative_path, index.fqn),
            "off": place.offset,
            "len": place.length,
            "item": True,
            "sizes": list(_chunk(stored.chunks, index).sizes),
            "at": list(item.storage_offsets),
            "shape": list(item.lengths),
        }
        return _tensors.Part(item, stored.properties.dtype, box)

    def _refuse_transforms(self, place: Any, item: ReadItem) -> None:
        if descriptors := getattr(place, "transform_descriptors", None):
            raise CheckpointError(
                f"{self.path}: {item.storage_index.fqn} in {place.relative_path} was written through {descriptors}: "
                "load it with FileSystemReader and the extension that wrote it"
            )

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return True


def _chunk(chunks: Sequence[Any], index: MetadataIndex) -> Any:
    """The chunk of a tensor that an index names."""
    if index.offset is None and len(chunks) == 1:
        return chunks[0]
    if index.index is not None and index.index < len(chunks) and chunks[index.index].offsets == index.offset:
        return chunks[index.index]
    for chunk in chunks:
        if chunk.offsets == index.offset:
            return chunk
    raise CheckpointError(f"tensor {index.fqn}: the metadata has no chunk at {index.offset}")


def _together(plans: Sequence[Sequence[ReadItem]]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """For each rank the sets of items, by their places in its plan, that it reads together with the same other ranks."""
    readers: dict[Any, list[int]] = {}
    if len(plans) > 1:
        for rank, items in enumerate(plans):
            for item in items:
                readers.setdefault(_key(item), []).append(rank)
    common = {key: tuple(ranks) for key, ranks in readers.items() if len(set(ranks)) > 1}
    sets = set(common.values())
    for items in plans:
        mine: dict[tuple[int, ...], dict[Any, int]] = {}
        for place, item in enumerate(items):
            if len(sets) <= _MOST_SETS and (ranks := common.get(_key(item))):
                mine.setdefault(ranks, {}).setdefault(_key(item), place)
        # In an order that is the same on all of them.
        yield tuple(tuple(places[key] for key in sorted(places, key=repr)) for _, places in sorted(mine.items()))


def _key(item: ReadItem) -> tuple[Any, ...]:
    index = item.storage_index
    return index.fqn, index.offset, item.storage_offsets, item.lengths


def _ranks_here() -> int:
    """How many ranks this host has, as far as is known."""
    if local := os.environ.get("LOCAL_WORLD_SIZE"):
        return int(local)
    distributed = torch.distributed
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1
