"""What a trainer's host spends on loading when agents prepare, against making everything itself.

One process trains, with loaders without and with agents in turn, at the pace that a training step takes. Its CPU time and
that of its workers is counted; the agent's is not, which belongs to another host. `python -m benchmarks.loader.agents SET
LAYOUT ROUNDS` prints one JSON line a round.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import stepahead
import torch
from stepahead import transforms as T

from benchmarks import photos
from benchmarks.agent import agent
from benchmarks.dataset import BIN
from benchmarks.loader import tree

SIDE = 224
# Batch, seconds of a step, steps measured. The pace leaves an agent on the same two cores time to be ahead.
SETS = {"inet": (64, 0.5, 12), "large": (16, 1.2, 6)}
WARM_UP = 6  # steps


@contextlib.contextmanager
def served(name: str) -> Iterator[tuple[pathlib.Path, int]]:
    """The set, packed into a store of one simulated node, and the process of the agent that runs beside it."""
    with tempfile.TemporaryDirectory(prefix="stepahead-agents-") as folder:
        store = pathlib.Path(folder)
        (store / ".stepahead").mkdir()
        topology = {"nodes": [{"name": "a", "rack": "/a"}], "block_size": 128 << 20, "replication": 1}
        (store / ".stepahead" / "store.json").write_text(json.dumps(topology))
        source = photos.folder(name)
        if name == "large":  # one class
            source = store / "sources"
            (source / "all").mkdir(parents=True)
            for path in photos.files(name):
                (source / "all" / path.name).symlink_to(path)
        run(BIN / "stepahead", "pack", source, "-o", store / "dataset")
        # It stands for a host of its own, so what else this one does is not its business.
        with agent(store, "a", "--workers", "2", "--load", "25%") as process:
            yield store / "dataset", process


def run(*command: Any) -> None:
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)


def forever(loader: stepahead.DataLoader) -> Iterator[stepahead.Batch]:
    while True:
        yield from loader


def paced(batches: Iterator[Any], steps: int, seconds: float) -> None:
    for _ in range(steps):
        began = time.monotonic()
        next(batches)
        time.sleep(max(0.0, began + seconds - time.monotonic()))


def cost(name: str, source: pathlib.Path, other: int, layout: str, seed: int, agents: str | None) -> dict[str, float]:
    """CPU seconds of this process and its workers for 1,000 pictures, and how many came prepared."""
    batch, seconds, steps = SETS[name]
    plan = T.Compose([T.DecodeImage(), T.RandomResizedCrop(SIDE)])
    with stepahead.DataLoader(
        source, batch_size=batch, transform=plan, seed=seed, layout=layout, agents=agents
    ) as loader:
        batches = forever(loader)
        paced(batches, 2, seconds)
        tree.line_up(os.getpid())
        paced(batches, WARM_UP, seconds)
        before, began = loader.stats(), tree.cpu(os.getpid(), other)
        paced(batches, steps, seconds)
        spent, after = tree.cpu(os.getpid(), other) - began, loader.stats()
    samples = steps * batch
    return {"cpu": spent / samples * 1000, "prepared": (after["prepared"] - before["prepared"]) / samples}


def receive(name: str) -> float:
    """The floor: CPU seconds to receive the bytes of 1,000 tensors over loopback TCP and do nothing else, at the same pace."""
    batch, seconds, steps = SETS[name]
    size = batch * SIDE * SIDE * 3
    send = f"import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); b = bytes({size})\n"
    send += "while s.recv(1): s.sendall(b)"
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = subprocess.Popen([sys.executable, "-c", send, str(server.getsockname()[1])])
        connection, _ = server.accept()
        memory = memoryview(torch.empty(size, dtype=torch.uint8).numpy())

        def step() -> Iterator[None]:
            while True:
                connection.sendall(b"x")
                got = 0
                while got < size:
                    got += connection.recv_into(memory[got : got + (256 << 10)])
                yield

        steps_of = step()
        paced(steps_of, WARM_UP, seconds)
        began = time.process_time()
        paced(steps_of, steps, seconds)
        spent = time.process_time() - began
        connection.close()
        sender.wait()
    return spent / (steps * batch) * 1000


def main() -> None:
    name, layout, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with served(name) as (source, other):
        for seed in range(rounds):
            off = cost(name, source, other, layout, seed, None)
            on = cost(name, source, other, layout, seed, "auto")
            row = {"off": off["cpu"], "on": on["cpu"], "prepared": on["prepared"], "tcp": receive(name)}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
