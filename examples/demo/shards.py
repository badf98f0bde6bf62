"""Write a folder of class folders as shards of a WebDataset: a picture and its class a sample."""

from __future__ import annotations

import io
import pathlib
import tarfile

SHARD_BYTES = 8 << 20


def write(photos: pathlib.Path, folder: pathlib.Path) -> tuple[int, list[str]]:
    """Fill `folder` with 00000.tar and so on, in the order in which `stepahead pack` numbers samples; returns how many
    shards there are, and the names of the classes."""
    folder.mkdir(parents=True)
    classes = sorted((p.name for p in photos.iterdir() if p.is_dir()), key=str.encode)
    files = sorted((p for p in photos.rglob("*") if p.is_file()), key=lambda p: str(p.relative_to(photos)).encode())
    shards = _cut(files)
    for number, shard in enumerate(shards):
        with tarfile.open(folder / f"{number:05d}.tar", "w") as tar:
            for path in shard:
                name = path.relative_to(photos)
                key = str(name.with_suffix("")).replace(".", "_")  # a dot would end it
                _add(tar, key + name.suffix, path.read_bytes())
                _add(tar, key + ".cls", str(classes.index(name.parts[0])).encode())
    return len(shards), classes


def _cut(files: list[pathlib.Path]) -> list[list[pathlib.Path]]:
    """Runs of files of SHARD_BYTES or a little more."""
    shards: list[list[pathlib.Path]] = []
    size = SHARD_BYTES
    for path in files:
        if size >= SHARD_BYTES:
            shards.append([])
            size = 0
        shards[-1].append(path)
        size += path.stat().st_size
    return shards


def _add(shard: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    shard.addfile(info, io.BytesIO(data))
