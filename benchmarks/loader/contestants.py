"""The loaders that are compared. Each yields batches of BATCH pictures of 224 x 224, uint8, of JPEG files by
RandomResizedCrop with an antialiased bilinear filter where it has one, shuffled, with two workers.

Every loader gets the same 800 JPEG files of `benchmarks.photos`, four times over, in the form that it reads fastest
(shards.py), and is left before the last of them, so that none is measured while it runs dry.
"""

from __future__ import annotations

import pathlib
import random
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import photos
from benchmarks.loader import shards

BATCH = 64
WORKERS = 2
SIDE = 224
SEED = 1

Batches = Iterator[Any]


def stepahead() -> Batches:
    """This loader, as a user calls it."""
    import stepahead
    from stepahead import transforms as T

    plan = T.Compose([T.DecodeImage(), T.RandomResizedCrop(SIDE)])
    with stepahead.DataLoader(
        shards.folder("stepahead"), batch_size=BATCH, transform=plan, seed=SEED, workers=WORKERS
    ) as loader:
        while True:
            for batch in loader:
                yield batch["image"]


class Decode:
    """JPEG bytes to a tensor, by torchvision's tensor path or by Pillow's, for the loaders that take a function."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.ready: Any = None

    def __call__(self, data: bytes) -> Any:
        import torch

        if self.ready is None:  # in the worker's process
            torch.set_num_threads(1)
            self.ready = self.prepare()
        return self.ready(data)

    def prepare(self) -> Callable[[bytes], Any]:
        import torch
        from torchvision.io import ImageReadMode, decode_jpeg
        from torchvision.transforms import v2

        crop = v2.RandomResizedCrop(SIDE, antialias=True)
        if self.path == "torchvision":
            return lambda data: crop(
                decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), ImageReadMode.RGB)
            )
        import io

        from PIL import Image

        to_tensor = v2.PILToTensor()
        return lambda data: to_tensor(crop(Image.open(io.BytesIO(data)).convert("RGB")))


class Files:
    """A map-style dataset of files."""

    def __init__(self, decode: Decode) -> None:
        self.paths = shards.repeated(photos.files("inet"))
        self.decode = decode

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        return self.decode(self.paths[i].read_bytes()), 0


def torch(path: str) -> Batches:
    from torch.utils.data import DataLoader

    for image, _ in DataLoader(Files(Decode(path)), BATCH, shuffle=True, num_workers=WORKERS, drop_last=True):  # type: ignore[arg-type]
        yield image


def webdataset(path: str) -> Batches:
    import webdataset as wds

    decode = Decode(path)
    tars = [str(p) for p in sorted(shards.folder("webdataset").glob("*.tar"))]
    data = wds.WebDataset(tars, shardshuffle=100, seed=SEED, nodesplitter=wds.split_by_node).shuffle(500)
    data = data.to_tuple("jpg", "cls").map_tuple(decode, int).batched(BATCH, partial=False)
    for image, _ in wds.WebLoader(data, batch_size=None, num_workers=WORKERS):
        yield image


def mosaic(path: str) -> Batches:
    from streaming import StreamingDataset
    from streaming.base.util import clean_stale_shared_memory
    from torch.utils.data import DataLoader

    class Dataset(StreamingDataset):
        decode = Decode(path)

        def __getitem__(self, i: Any) -> Any:
            row = super().__getitem__(i)
            return self.decode(row["image"]), row["label"]

    clean_stale_shared_memory()
    data = Dataset(local=str(shards.folder("mosaic")), batch_size=BATCH, shuffle=True)
    for image, _ in DataLoader(data, BATCH, num_workers=WORKERS, drop_last=True):
        yield image


def litdata(path: str) -> Batches:
    import litdata as lit

    class Dataset(lit.StreamingDataset):
        decode = Decode(path)

        def __getitem__(self, i: Any) -> Any:
            row = super().__getitem__(i)
            return self.decode(row["image"]), row["label"]

    data = Dataset(str(shards.folder("litdata")), shuffle=True, drop_last=True)
    for image, _ in lit.StreamingDataLoader(data, batch_size=BATCH, num_workers=WORKERS, drop_last=True):
        yield image


def dali() -> Batches:
    """With its decoder that decodes only the crop."""
    import numpy
    from nvidia.dali import fn, pipeline_def, types

    files = [str(p) for p in shards.repeated(photos.files("inet"))]

    @pipeline_def(batch_size=BATCH, num_threads=WORKERS, device_id=None, seed=SEED, prefetch_queue_depth=2)  # type: ignore[untyped-decorator]
    def pipeline() -> Any:
        data, _ = fn.readers.file(files=files, random_shuffle=True, initial_fill=500)
        image = fn.decoders.image_random_crop(
            data, device="cpu", output_type=types.RGB, random_aspect_ratio=[3 / 4, 4 / 3], random_area=[0.08, 1.0]
        )
        return fn.resize(image, size=(SIDE, SIDE), interp_type=types.INTERP_LINEAR, antialias=True)

    built = pipeline()
    built.build()
    while True:
        yield numpy.asarray(built.run()[0].as_tensor())


def ffcv() -> Batches:
    """JPEG in its own format. It has no antialiased bilinear filter and shrinks by area."""
    import cv2
    from ffcv.fields.decoders import IntDecoder
    from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption

    cv2.setNumThreads(1)
    loader = Loader(
        str(shards.folder("ffcv") / "inet.beton"), batch_size=BATCH, num_workers=WORKERS, order=OrderOption.RANDOM,
        os_cache=True, seed=SEED, drop_last=True, batches_ahead=2,
        pipelines={"image": [RandomResizedCropRGBImageDecoder((SIDE, SIDE))], "label": [IntDecoder()]},
    )  # fmt: skip
    for image, _ in loader:
        yield image


def spdl() -> Batches:
    """FFmpeg's decoder and swscale's bilinear filter, in threads."""
    import math

    import spdl.io
    from spdl.pipeline import PipelineBuilder

    rng = random.Random(SEED)
    files = shards.repeated(photos.files("inet"))
    rng.shuffle(files)

    def decode(path: pathlib.Path) -> Any:
        packets = spdl.io.demux_image(str(path))
        width, height = packets.codec.width, packets.codec.height
        for _ in range(10):
            area = width * height * rng.uniform(0.08, 1)
            ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                break
        else:
            w = h = min(width, height)
        x, y = rng.randint(0, width - w), rng.randint(0, height - h)
        crop = f"crop={w}:{h}:{x}:{y}:exact=1,scale={SIDE}:{SIDE}:flags=bilinear,format=pix_fmts=rgb24"
        return spdl.io.decode_packets(packets, filter_desc=crop)

    builder = PipelineBuilder().add_source(iter(files)).pipe(decode, concurrency=WORKERS)
    builder = builder.aggregate(BATCH, drop_last=True).pipe(lambda f: spdl.io.to_numpy(spdl.io.convert_frames(f)))
    built = builder.add_sink(3).build(num_threads=WORKERS)
    with built.auto_stop():
        yield from built


class Contestant:
    """A loader: how it is called, and what a process must import before it can be."""

    def __init__(self, title: str, batches: Callable[[], Batches], imports: str, shards: str = "") -> None:
        self.title, self.batches, self.imports, self.shards = title, batches, imports, shards


TORCHVISION = "torchvision.io torchvision.transforms.v2"

ALL = {
    "stepahead": Contestant("stepahead", stepahead, "stepahead", "stepahead"),
    "torch": Contestant("torch DataLoader + torchvision", lambda: torch("torchvision"), f"torch.utils.data {TORCHVISION}"),
    "dali": Contestant("DALI", dali, "nvidia.dali numpy"),
    "ffcv": Contestant("ffcv", ffcv, "ffcv.loader cv2", "ffcv"),
    "litdata": Contestant("LitData + torchvision", lambda: litdata("torchvision"), f"litdata {TORCHVISION}", "litdata"),
    "mosaic": Contestant("Mosaic streaming + torchvision", lambda: mosaic("torchvision"), f"streaming {TORCHVISION}", "mosaic"),
    "webdataset": Contestant("webdataset + torchvision", lambda: webdataset("torchvision"), f"webdataset {TORCHVISION}", "webdataset"),
    "spdl": Contestant("SPDL", spdl, "spdl.io spdl.pipeline"),
    "torch-pillow": Contestant("torch DataLoader + Pillow", lambda: torch("pillow"), f"torch.utils.data PIL.Image {TORCHVISION}"),
}  # fmt: skip

# What `make bench-loader` runs; the others by name.
USUAL = ["stepahead", "torch", "dali", "ffcv", "litdata", "mosaic", "webdataset", "spdl"]
