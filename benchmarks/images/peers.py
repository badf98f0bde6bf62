"""One peer in a process of its own: python -m benchmarks.images.peers PEER LIST

LIST has an "x y w h path" a line. It prints an empty line when the files are in memory, then answers each line "JOB FROM TO [PATH]" on
standard input with the CPU milliseconds that those files took, or "error: " and why not; with a PATH the pictures, height x width x RGB bytes, are
appended to that file. Jobs are those of the functions below. All cut the box from the picture and scale it to 224 x 224, but for `decode`.
"""

from __future__ import annotations

import io
import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

SIZE = 224
Box = tuple[int, int, int, int]
One = Callable[[bytes, Box], Any]  # returns a picture as numpy can take it


def torchvision() -> dict[str, One]:
    import torch
    from torchvision.io import ImageReadMode, decode_image, decode_jpeg
    from torchvision.transforms.v2 import InterpolationMode
    from torchvision.transforms.v2 import functional as F

    torch.set_num_threads(1)

    def tensor(data: bytes) -> Any:
        return torch.frombuffer(data, dtype=torch.uint8)

    def crop(data: bytes, box: Box) -> Any:
        x, y, w, h = box
        picture = decode_jpeg(tensor(data), mode=ImageReadMode.RGB)
        bilinear = InterpolationMode.BILINEAR
        return F.resized_crop(picture, y, x, h, w, [SIZE, SIZE], interpolation=bilinear, antialias=True)

    return {"crop": crop, "decode": lambda data, box: decode_image(tensor(data), mode=ImageReadMode.RGB)}


def pillow() -> dict[str, One]:
    from PIL import Image

    bilinear = Image.Resampling.BILINEAR

    def decode(data: bytes, box: Box) -> Any:
        return Image.open(io.BytesIO(data)).convert("RGB")

    def crop(data: bytes, box: Box) -> Any:
        x, y, w, h = box
        return decode(data, box).crop((x, y, x + w, y + h)).resize((SIZE, SIZE), bilinear)

    def draft(data: bytes, box: Box) -> Any:
        x, y, w, h = box
        picture = Image.open(io.BytesIO(data))
        width, height = picture.size
        picture.draft("RGB", (width * SIZE // w, height * SIZE // h))
        sx, sy = picture.width / width, picture.height / height
        part = (x * sx, y * sy, (x + w) * sx, (y + h) * sy)
        return picture.convert("RGB").resize((SIZE, SIZE), bilinear, box=part)

    return {"crop": crop, "decode": decode, "scaled": draft}


def opencv() -> dict[str, One]:
    import cv2

    cv2.setNumThreads(1)

    def decode(data: bytes, box: Box) -> Any:
        return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)

    def crop(data: bytes, box: Box) -> Any:
        x, y, w, h = box
        return cv2.resize(decode(data, box)[y : y + h, x : x + w], (SIZE, SIZE), interpolation=cv2.INTER_LINEAR)

    return {"crop": crop, "decode": decode}


def simplejpeg() -> dict[str, One]:
    import simplejpeg as sj
    from PIL import Image

    bilinear = Image.Resampling.BILINEAR

    def decode(data: bytes, box: Box) -> Any:
        return sj.decode_jpeg(data, "RGB")

    def crop(data: bytes, box: Box) -> Any:
        x, y, w, h = box
        return Image.fromarray(decode(data, box)).resize((SIZE, SIZE), bilinear, box=(x, y, x + w, y + h))

    def scaled(data: bytes, box: Box) -> Any:
        """Decoded at the smallest scale at which the box is still large enough."""
        x, y, w, h = box
        height, width, _, _ = sj.decode_jpeg_header(data)
        least = {"min_height": -(-height * SIZE // h), "min_width": -(-width * SIZE // w)}
        picture = sj.decode_jpeg(data, "RGB", **least, min_factor=1)
        sx, sy = picture.shape[1] / width, picture.shape[0] / height
        part = (x * sx, y * sy, (x + w) * sx, (y + h) * sy)
        return Image.fromarray(picture).resize((SIZE, SIZE), bilinear, box=part)

    return {"crop": crop, "decode": decode, "scaled": scaled}


EACH: dict[str, Callable[[], dict[str, One]]] = {
    "torchvision": torchvision,
    "pillow": pillow,
    "opencv": opencv,
    "simplejpeg": simplejpeg,
}


class OneByOne:
    """A peer that is called for each picture."""

    def __init__(self, name: str, files: list[bytes], boxes: list[Box]) -> None:
        self.jobs, self.files, self.boxes = EACH[name](), files, boxes

    def run(self, job: str, start: int, end: int) -> Iterator[Any]:
        one = self.jobs[job]
        for data, box in zip(self.files[start:end], self.boxes[start:end], strict=True):
            yield one(data, box)


class Dali:
    """DALI's pipelines work on batches. Chunks begin and end on multiples of `BATCH`."""

    BATCH = 16

    def __init__(self, name: str, files: list[bytes], boxes: list[Box]) -> None:
        from nvidia.dali import fn, pipeline_def, types

        self.files = [np.frombuffer(data, np.uint8) for data in files]
        self.anchors = [np.array([y, x], np.float32) for x, y, _, _ in boxes]
        self.shapes = [np.array([h, w], np.float32) for _, _, w, h in boxes]
        self.at = 0

        @pipeline_def(batch_size=self.BATCH, num_threads=1, device_id=None, prefetch_queue_depth=1)
        def pipeline() -> Any:
            jpeg, anchor, shape = fn.external_source(source=self.batch, num_outputs=3, batch=True)
            rule = {"axes": (0, 1), "normalized_anchor": False, "normalized_shape": False}
            region = fn.decoders.image_slice(jpeg, anchor, shape, device="cpu", output_type=types.RGB, **rule)
            return fn.resize(region, size=(SIZE, SIZE), interp_type=types.INTERP_LINEAR, antialias=True)

        self.pipeline = pipeline()
        self.pipeline.build()

    def batch(self) -> tuple[list[Any], list[Any], list[Any]]:
        start, end = self.at, self.at + self.BATCH
        return self.files[start:end], self.anchors[start:end], self.shapes[start:end]

    def run(self, job: str, start: int, end: int) -> Iterator[Any]:
        assert job == "crop" and (end - start) % self.BATCH == 0
        for at in range(start, end, self.BATCH):
            self.at = at
            (pictures,) = self.pipeline.run()
            for i in range(self.BATCH):
                yield pictures.at(i)


def array(picture: Any) -> np.ndarray[Any, Any]:
    """Height x width x RGB, as bytes lie in a file."""
    pixels = np.asarray(picture)
    return pixels.transpose(1, 2, 0) if pixels.shape[0] == 3 else pixels


def main() -> None:
    name, listed = sys.argv[1:]
    rows = [line.split(" ", 4) for line in pathlib.Path(listed).read_text().splitlines()]
    boxes: list[Box] = [(int(x), int(y), int(w), int(h)) for x, y, w, h, _ in rows]
    files = [pathlib.Path(row[4]).read_bytes() for row in rows]
    peer: OneByOne | Dali = Dali(name, files, boxes) if name == "dali" else OneByOne(name, files, boxes)
    print(flush=True)
    for line in sys.stdin:
        job, start, end, *path = line.split()
        try:
            print(spent(peer, job, int(start), int(end), path), flush=True)
        except Exception as error:  # whatever a library raises is the answer
            print(f"error: {error!r}", flush=True)


def spent(peer: OneByOne | Dali, job: str, start: int, end: int, path: list[str]) -> float:
    """CPU milliseconds for some files; with a path their pictures are appended to it, which counts too."""
    began = time.process_time()
    if path:
        with open(path[0], "ab") as out:
            for picture in peer.run(job, start, end):
                out.write(np.ascontiguousarray(array(picture)).tobytes())
    else:
        for _ in peer.run(job, start, end):
            pass
    return 1e3 * (time.process_time() - began)


if __name__ == "__main__":
    main()
