"""The photographs in the form that each loader reads fastest, kept in build/loader/. Run with the environment of the
loader that a form is for: `python -m benchmarks.loader.shards NAME`.
"""

from __future__ import annotations

import io
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from PIL import Image

from benchmarks import photos

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARDS = ROOT / "build" / "loader"
TIMES = 4  # each file so often: enough batches for a run, from few files to keep

T = TypeVar("T")


def repeated(items: Sequence[T]) -> list[T]:
    return list(items) * TIMES


def folder(name: str) -> pathlib.Path:
    return SHARDS / name


def make(name: str) -> None:
    """Make a form if it is not there; only a whole one has its name."""
    if folder(name).exists():
        return
    print(f"loader: making {folder(name)}", file=sys.stderr, flush=True)
    SHARDS.mkdir(parents=True, exist_ok=True)
    made = pathlib.Path(tempfile.mkdtemp(dir=SHARDS))
    try:
        MAKERS[name](made)
        made.rename(folder(name))
    finally:
        shutil.rmtree(made, ignore_errors=True)


def label(path: pathlib.Path) -> int:
    return int(path.parent.name.removeprefix("c"))


def row(path: pathlib.Path) -> dict[str, Any]:
    return {"image": path.read_bytes(), "label": label(path)}


def rows() -> Iterator[dict[str, Any]]:
    return map(row, repeated(photos.files("inet")))


def stepahead(into: pathlib.Path) -> None:
    """As it is packed by default, once: its epochs follow each other without a pause."""
    pack = [ROOT / "bin" / "stepahead", "pack", photos.folder("inet"), "-o", into]
    subprocess.run(list(map(str, pack)), check=True, stdout=subprocess.DEVNULL)


def webdataset(into: pathlib.Path) -> None:
    import webdataset as wds

    with wds.ShardWriter(f"{into}/%03d.tar", maxcount=100, verbose=0) as out:
        for i, one in enumerate(rows()):
            out.write({"__key__": f"{i:06}", "jpg": one["image"], "cls": one["label"]})


def mosaic(into: pathlib.Path) -> None:
    from streaming import MDSWriter

    with MDSWriter(out=str(into / "mds"), columns={"image": "bytes", "label": "int"}, size_limit=1 << 26) as out:
        for one in rows():
            out.write(one)
    for path in (into / "mds").iterdir():
        path.rename(into / path.name)


def litdata(into: pathlib.Path) -> None:
    import litdata as lit

    files = repeated(photos.files("inet"))
    lit.optimize(fn=row, inputs=files, output_dir=str(into / "chunks"), chunk_bytes="64MB", num_workers=1)
    for path in (into / "chunks").iterdir():
        path.rename(into / path.name)


def ffcv(into: pathlib.Path) -> None:
    """The files as they are: ffcv would decode them and encode them anew."""
    import numpy
    from ffcv import fields, writer
    from ffcv.fields import rgb_image

    class Pictures:
        def __init__(self) -> None:
            self.files = repeated(photos.files("inet"))

        def __len__(self) -> int:
            return len(self.files)

        def __getitem__(self, i: int) -> tuple[Any, int]:
            data = self.files[i].read_bytes()
            rgb_image.encode_jpeg = lambda picture, quality: numpy.frombuffer(data, numpy.uint8)
            return numpy.asarray(Image.open(io.BytesIO(data)).convert("RGB")), label(self.files[i])

    columns = {"image": fields.RGBImageField(write_mode="jpg"), "label": fields.IntField()}
    out = writer.DatasetWriter(str(into / "inet.beton"), columns, num_workers=1, page_size=1 << 23)
    out.from_indexed_dataset(Pictures(), shuffle_indices=False)


MAKERS: dict[str, Callable[[pathlib.Path], None]] = {
    "stepahead": stepahead, "webdataset": webdataset, "mosaic": mosaic, "litdata": litdata, "ffcv": ffcv,
}  # fmt: skip

if __name__ == "__main__":
    make(sys.argv[1])
