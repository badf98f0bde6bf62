"""Checkpoints under random faults: a writer that is killed at any time, and files with any change. With STEPAHEAD_SOAK many more of each."""

from __future__ import annotations

import os
import pathlib
import random
import signal
from multiprocessing.connection import Connection
from typing import Any

import pytest
import ranks
import stepahead
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file
from stepahead import checkpoint
from test_checkpoint import bits, root  # noqa: F401  where checkpoints lie
from test_hdfs import hdfs, minihdfs  # noqa: F401  the cluster
from torch.distributed.checkpoint.api import CheckpointException

SOAK = bool(os.environ.get("STEPAHEAD_SOAK"))
DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.float8_e4m3fn)


def random_state(seed: int, most: int) -> dict[str, torch.Tensor]:
    """Tensors of random dtypes and shapes, the longest of about `most` elements."""
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for i in range(rng.randint(1, 6)):
        shape = [rng.randint(0, 9) for _ in range(rng.randint(0, 3))] if rng.random() < 0.5 else [rng.randint(1, most)]
        values = torch.randint(0, 2, shape, generator=generator) * torch.randint(1, 100, shape, generator=generator)
        state[f"tensor {i}"] = values.to(rng.choice(DTYPES))
    return state


def same(loaded: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> bool:
    return loaded.keys() == wanted.keys() and all(bits(loaded[name]) == bits(wanted[name]) for name in wanted)


def load(path: object, like: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    state = {name: torch.zeros_like(tensor) for name, tensor in like.items()}
    dcp.load(state, storage_reader=checkpoint.Reader(str(path)), no_dist=True)
    return state


def save_in_a_process(end: Connection, path: str, seed: int, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    torch.set_num_threads(1)
    state = random_state(seed, 3_000_000)
    writer = checkpoint.Writer(path, thread_count=1 + seed % 3)
    end.send("begins")
    dcp.save(state, storage_writer=writer, no_dist=True)
    end.send("done")


@pytest.mark.timeout(600)
def test_a_writer_that_is_killed_at_any_time(root: str) -> None:  # noqa: F811
    """What is left is a whole checkpoint or none, and latest never takes it for one; the path can be saved into again."""
    rng = random.Random(7)
    write_again = "://" not in root  # in HDFS a killed process holds the path for up to a minute
    newest = ""
    for seed in range(60 if SOAK else 5):
        path = f"{root}/step-{seed}"
        state = random_state(seed, 3_000_000)
        end, theirs = ranks.server.Pipe()
        process = ranks.server.Process(target=save_in_a_process, args=(theirs, path, seed, dict(os.environ)))
        process.start()
        theirs.close()
        assert end.recv() == "begins"
        if seed:
            end.poll(rng.random() ** 2 * 0.2)  # then it is killed, wherever it is
            os.kill(process.pid, signal.SIGKILL)
        process.join()
        try:
            whole = same(load(path, state), state)
            assert whole, f"seed {seed}: other bits"
            newest = path
        except (CheckpointException, stepahead.StepaheadError):
            assert seed, "the one that was not killed"
        assert checkpoint.latest(root) == newest, f"seed {seed}"
        if newest != path and write_again:
            dcp.save(state, storage_writer=checkpoint.Writer(path), no_dist=True)
            assert same(load(path, state), state) and checkpoint.latest(root) == path
            newest = path


def change(file: pathlib.Path, rng: random.Random) -> None:
    data = bytearray(file.read_bytes())
    match rng.randrange(5):
        case 0:
            del data[rng.randrange(len(data)) :]
        case 1:
            data += rng.randbytes(rng.randint(1, 100))
        case 2:
            at = rng.randrange(len(data))
            data[at : at + 8] = rng.randbytes(8)
        case 3:
            at, to = rng.randrange(len(data)), rng.randrange(len(data))
            data[at : at + 50] = data[to : to + 50]
        case _:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    file.write_bytes(data)


@pytest.mark.timeout(600)
def test_files_with_any_change(tmp_path: pathlib.Path) -> None:
    """A checkpoint with a change anywhere is refused, or loads the very bits: a model never has others."""
    refused = 0
    rounds = 1500 if SOAK else 40
    for seed in range(rounds):
        rng = random.Random(seed)
        state = random_state(seed, 2000)
        path = tmp_path / str(seed)
        dcp.save(state, storage_writer=dcp.FileSystemWriter(path, thread_count=1 + seed % 2), no_dist=True)
        change(rng.choice(sorted(path.iterdir())), rng)
        try:
            assert same(load(path, state), state), f"seed {seed}: other bits"
        except (CheckpointException, stepahead.StepaheadError) as error:
            assert str(path) in str(error) or isinstance(error, CheckpointException), f"seed {seed}: {error}"
            refused += 1
    assert refused > rounds / 2


@pytest.mark.timeout(600)
def test_safetensors_with_any_change(tmp_path: pathlib.Path) -> None:
    """Their bytes have no sums: what is not refused has the tensors that safetensors itself reads there."""
    read = refused = 0
    for seed in range(3000 if SOAK else 60):
        rng = random.Random(seed)
        file = tmp_path / f"{seed}.safetensors"
        save_file(random_state(seed, 300), file)
        change(file, rng)
        try:
            ours: Any = checkpoint.load_safetensors(file)
        except stepahead.StepaheadError:
            refused += 1
            continue
        theirs = load_file(file)  # all that we read it reads too
        assert same(ours, theirs), f"seed {seed}"
        read += 1
    assert min(read, refused) > 0
