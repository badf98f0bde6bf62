"""Decode + RandomResizedCrop to 224 x 224, this package against torchvision, side by side.

    go test -c -o image.test . && python testdata/peers.py ./image.test FOLDER_OF_JPEG [ROUNDS]

Both do the same boxes, one thread, CPU time of the process (user + system), files in memory. The peers
take turns within a round; a ratio is the median of the ratios of the rounds. torchvision gives CHW.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

RATIO = "x-region-only"


def ours(binary: str, folder: str, boxes: str) -> dict[str, float]:
    env = {**os.environ, "STEPAHEAD_BENCH_JPEG": folder, "STEPAHEAD_BENCH_BOXES": boxes}
    cmd = [
        binary,
        "-test.run=^$",
        "-test.bench=^Benchmark(RandomResizedCrop|RegionOnly|Decode|AgainstRegion)$",
        "-test.benchtime=1x",
    ]
    out = subprocess.run(cmd, env=env, capture_output=True, text=True, check=True).stdout
    row = {m[1]: float(m[2]) for m in re.finditer(r"^Benchmark(\w+)\S*\s.*?([\d.]+) cpu-ms/image", out, re.M)}
    del row["AgainstRegion"]  # both kinds of work in turn: only their ratio says something
    ratio = re.search(r"([\d.]+) x-region-only", out)
    assert ratio, out
    return {**row, RATIO: float(ratio[1])}


def torchvision_run(boxes: str) -> Callable[[], float]:
    import torch
    import torchvision
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms.v2 import InterpolationMode
    from torchvision.transforms.v2 import functional as F

    torch.set_num_threads(1)
    rows = [line.rsplit(" ", 4) for line in Path(boxes).read_text().splitlines()]
    files = [torch.frombuffer(bytearray(Path(row[0]).read_bytes()), dtype=torch.uint8) for row in rows]
    work = [(data, *map(int, row[1:])) for data, row in zip(files, rows, strict=True)]

    def once() -> float:
        start = time.process_time()
        for data, x, y, w, h in work:
            im = decode_jpeg(data, mode=ImageReadMode.RGB)
            F.resized_crop(im, y, x, h, w, [224, 224], interpolation=InterpolationMode.BILINEAR, antialias=True)
        return 1000 * (time.process_time() - start) / len(work)

    print("torchvision", torchvision.__version__, len(work), "images")
    once()
    return once


def summary(values: list[float]) -> str:
    return f"{statistics.median(values):.3f} [{min(values):.3f}-{max(values):.3f}]"


def main() -> None:
    binary, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    boxes = os.path.join(tempfile.mkdtemp(), "boxes")
    ours(binary, folder, boxes)
    torchvision = torchvision_run(boxes)
    table: dict[str, list[float]] = {}
    for _ in range(rounds):
        row = {**ours(binary, folder, boxes), "torchvision": torchvision()}
        for name, value in row.items():
            table.setdefault(name, []).append(value)
    floor = table.pop(RATIO)
    for name, values in table.items():
        print(f"{name:20s} CPU ms/image {summary(values)}")
    pairs = zip(table["RandomResizedCrop"], table["torchvision"], strict=True)
    print("speed against torchvision", summary([peer / own for own, peer in pairs]), "(bar: >= 1.55)")
    print("CPU against region only  ", summary(floor), "(bar: <= 1.25; image by image in turn)")


main()
