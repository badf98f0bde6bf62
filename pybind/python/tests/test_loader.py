"""What a training loop sees: order, bytes, memory, state."""

from __future__ import annotations

import gc
import hashlib
import json
import pathlib

import numpy as np
import pytest
import stepahead
import torch
from conftest import CLASSES, EACH, run
from PIL import Image
from stepahead import transforms as T

CROP = T.Compose([T.DecodeImage(), T.CenterCrop(128)])
RANDOM = T.Compose([T.DecodeImage(), T.RandomResizedCrop(96), T.RandomHorizontalFlip()])
STEPS = len(CLASSES) * EACH // 8


def open_loader(dataset: pathlib.Path, **changes: object) -> stepahead.DataLoader:
    options: dict = {"global_batch": 8, "transform": CROP, "seed": 3, "workers": 1}
    return stepahead.DataLoader(dataset, **(options | changes))


def history(loader: stepahead.DataLoader, steps: int) -> list[tuple[int, int, str]]:
    """(step, sample, SHA-256 of its image) of the next steps, over epoch borders."""
    seen: list[tuple[int, int, str]] = []
    left = steps
    while left:
        for batch in loader:
            for sample, image in zip(batch.samples, batch["image"], strict=True):
                seen.append((batch.step, sample, hashlib.sha256(image.contiguous().numpy().tobytes()).hexdigest()))
            left -= 1
            if not left:
                break
    return seen


def test_batches_are_channels_last_tensors(dataset: pathlib.Path) -> None:
    with open_loader(dataset) as loader:
        assert len(loader) == STEPS and loader.classes == list(CLASSES)
        batch = next(iter(loader))
    assert set(batch) == {"image", "label"}
    assert batch["image"].dtype == torch.uint8 and batch["image"].shape == (8, 3, 128, 128)
    assert batch["image"].is_contiguous(memory_format=torch.channels_last)
    assert batch["label"].dtype == torch.int64 and batch["label"].shape == (8,)
    assert batch.step == 0 and batch.epoch == 0 and len(batch.samples) == 8


def test_pixels_are_those_of_pillow(dataset: pathlib.Path, photos: pathlib.Path) -> None:
    files = sorted(photos.glob("*/*.jpg"))  # the order of keys is that of sample ids
    with open_loader(dataset) as loader:
        for batch in loader:
            for sample, image, label in zip(batch.samples, batch["image"], batch["label"], strict=True):
                want = np.asarray(Image.open(files[sample]).convert("RGB"))
                top, left = (round((n - 128) / 2) for n in want.shape[:2])
                np.testing.assert_array_equal(
                    image.numpy().transpose(1, 2, 0), want[top : top + 128, left : left + 128]
                )
                assert CLASSES[int(label)] == files[sample].parent.name


def test_layout_contiguous_holds_the_same_values(dataset: pathlib.Path) -> None:
    with open_loader(dataset) as a, open_loader(dataset, layout="contiguous") as b:
        view, copy = next(iter(a))["image"], next(iter(b))["image"]
    assert copy.is_contiguous() and torch.equal(view, copy)


def test_numpy_output(dataset: pathlib.Path) -> None:
    with open_loader(dataset) as a, open_loader(dataset, output="numpy") as b:
        tensor, array = next(iter(a))["image"], next(iter(b))["image"]
    assert isinstance(array, np.ndarray) and array.shape == (8, 3, 128, 128)
    np.testing.assert_array_equal(array, tensor.numpy())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_casts_are_those_of_torch(dataset: pathlib.Path, dtype: str) -> None:
    cast = T.Compose([*CROP, T.ToDtype(dtype, scale=True)])
    with open_loader(dataset) as a, open_loader(dataset, transform=cast) as b:
        pixels, got = next(iter(a))["image"], next(iter(b))["image"]
    want = pixels.to(torch.float32).mul(1 / 255).to(getattr(torch, dtype))
    assert got.dtype == want.dtype and torch.equal(got, want)


def test_a_loop_is_the_rest_of_an_epoch(dataset: pathlib.Path) -> None:
    with open_loader(dataset) as loader:
        for batch in loader:
            if batch.step == 1:
                break
        assert [b.step for b in loader] == list(range(2, STEPS))
        assert [(b.epoch, b.step) for b in loader] == [(1, STEPS + i) for i in range(STEPS)]


def test_a_loop_left_on_the_last_batch_ends_the_epoch(dataset: pathlib.Path) -> None:
    with open_loader(dataset) as loader:
        for batch in loader:
            if batch.step == STEPS - 1:
                break
        assert [b.epoch for b in loader] == [1] * STEPS


def test_epochs_end(dataset: pathlib.Path) -> None:
    with open_loader(dataset, epochs=2) as loader:
        assert [sum(1 for _ in loader) for _ in range(4)] == [STEPS, STEPS, 0, 0]


def test_ranks_are_slices_of_the_global_batch(dataset: pathlib.Path) -> None:
    with open_loader(dataset, transform=RANDOM) as whole:
        want = history(whole, 12)
    got: list[tuple[int, int, str]] = []
    for rank in range(4):
        with open_loader(dataset, transform=RANDOM, rank=rank, world_size=4, prefetch=rank + 1) as part:
            got += history(part, 12)
    assert sorted(got) == sorted(want)


def test_resume_at_another_world_size_continues_the_run(dataset: pathlib.Path) -> None:
    with open_loader(dataset, transform=RANDOM) as loader:
        want = history(loader, 14)
    with open_loader(dataset, transform=RANDOM) as loader:
        seen = history(loader, 7)
        state = loader.state_dict()
    assert len(json.dumps(state)) < 1024
    for rank in range(2):
        with open_loader(dataset, transform=RANDOM, rank=rank, world_size=2) as loader:
            loader.load_state_dict(state)
            assert loader.state_dict() == state  # saved straight after a restore
            seen += history(loader, 7)
    assert sorted(seen) == sorted(want)


def test_state_at_the_end_of_an_epoch_starts_the_next(dataset: pathlib.Path) -> None:
    with open_loader(dataset) as loader:
        assert sum(1 for _ in loader) == STEPS
        state = loader.state_dict()
    with open_loader(dataset) as loader:
        loader.load_state_dict(state)
        assert [b.epoch for b in loader] == [1] * STEPS
        assert [b.epoch for b in loader] == [2] * STEPS


def test_prefetched_batches_do_not_count(dataset: pathlib.Path) -> None:
    with open_loader(dataset, prefetch=5) as loader:
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
    with open_loader(dataset, prefetch=1) as loader:
        loader.load_state_dict(state)
        assert next(iter(loader)).step == 1


def test_a_state_of_another_order_is_refused(dataset: pathlib.Path) -> None:
    with open_loader(dataset) as loader:
        state = loader.state_dict()
    with open_loader(dataset, seed=4) as other, pytest.raises(stepahead.IdentityError, match="seed") as raised:
        other.load_state_dict(state)
    assert any("seed" in line for line in raised.value.diff)
    with open_loader(dataset) as loader, pytest.raises(stepahead.StepaheadError):
        loader.load_state_dict({"other": 1})


def test_memory_is_not_reused_while_referenced(dataset: pathlib.Path) -> None:
    with open_loader(dataset, prefetch=2) as loader:
        kept, sums = [], []
        for _ in range(3):
            for batch in loader:
                kept.append(batch["image"][1:3, :, 5:9])  # a view of a view
                sums.append(kept[-1].clone())
        mapped = loader.stats()["mapped_bytes"]
        assert all(torch.equal(a, b) for a, b in zip(kept, sums, strict=True))
        assert len({view.data_ptr() for view in kept}) == len(kept)
        kept.clear()
        del batch
        gc.collect()
        for _ in range(4):
            for _ in loader:
                pass
        assert loader.stats()["mapped_bytes"] < mapped / 2


def test_batches_outlive_the_loader(dataset: pathlib.Path) -> None:
    loader = open_loader(dataset)
    image = next(iter(loader))["image"]
    before = image.clone()
    loader.close()
    loader.close()
    assert torch.equal(image, before)
    with pytest.raises(stepahead.ClosedError):
        next(iter(loader))
    image[0] = 7  # writable, and still ours


def test_each_batch_matches_its_record(dataset: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "record.jsonl"
    with open_loader(dataset, transform=RANDOM, record=path) as loader:
        batches = {batch.step: batch for batch in loader}
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(records) == 8 * STEPS
    for record in records:
        batch = batches[record["step"]]
        assert batch.samples[record["position"]] == record["sample"]
        for field in record["fields"]:
            value = batch[field["name"]][record["position"]]
            assert field["shape"] == list(value.shape)
            assert field["dtype"] == str(value.dtype).removeprefix("torch.")
            assert field["sha256"] == hashlib.sha256(value.contiguous().numpy().tobytes()).hexdigest()
    assert len(run("digest", path).split()[0]) == 64


def test_stats_say_where_the_time_went(dataset: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with open_loader(dataset, stats=tmp_path / "stats.jsonl") as loader:
        steps = [batch.stats for batch in loader]
        totals = loader.stats()
        assert loader.worker_cpu_seconds() > 0
    assert totals["steps"] == STEPS and totals["local"] == 8 * STEPS and totals["prepared_share"] == 0
    assert all(step["local"] == 8 and step["stall_seconds"] >= 0 for step in steps)
    assert len((tmp_path / "stats.jsonl").read_text().splitlines()) == STEPS


def test_inside_a_torch_dataloader(dataset: pathlib.Path) -> None:
    class Wrapped(torch.utils.data.IterableDataset):
        def __init__(self, loader: stepahead.DataLoader) -> None:
            self.loader = loader

        def __iter__(self):
            return (dict(batch) for batch in self.loader)

    with open_loader(dataset) as loader:
        wrapped = torch.utils.data.DataLoader(Wrapped(loader), batch_size=None, num_workers=0)
        assert sum(1 for _ in wrapped) == STEPS
