"""Temporary copies of checkpoints, which readers find by signed rows beside them. Rows and signatures are made here, by the documents."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
from typing import Any

import fsspec
import pytest
import torch
import torch.distributed.checkpoint as dcp
from conftest import missing
from safetensors.torch import save_file
from stepahead import OptionError, checkpoint
from stepahead._cli import program
from stepahead.checkpoint import _local
from stepahead.checkpoint._opened import Opened
from stepahead.filesystem import FileSystem

SEED = b"\1" * 32

# Ed25519 as RFC 8032 has it, slowly.
P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
Point = tuple[int, int]


def add(a: Point, b: Point) -> Point:
    (x1, y1), (x2, y2) = a, b
    k = D * x1 * x2 * y1 * y2
    return (x1 * y2 + x2 * y1) * pow(1 + k, P - 2, P) % P, (y1 * y2 + x1 * x2) * pow(1 - k, P - 2, P) % P


def times(n: int, a: Point) -> Point:
    out = (0, 1)
    while n:
        if n & 1:
            out = add(out, a)
        a, n = add(a, a), n >> 1
    return out


def base() -> Point:
    y = 4 * pow(5, P - 2, P) % P
    x2 = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(x2, (P + 3) // 8, P)
    if x * x % P != x2:
        x = x * pow(2, (P - 1) // 4, P) % P
    return (P - x if x & 1 else x), y


def packed(a: Point) -> bytes:
    return (a[1] | (a[0] & 1) << 255).to_bytes(32, "little")


def number(*parts: bytes) -> int:
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little")


def signed(seed: bytes, message: bytes) -> tuple[bytes, bytes]:
    """The public key and the signature."""
    h = hashlib.sha512(seed).digest()
    a = int.from_bytes(h[:32], "little") & ((1 << 254) - 8) | 1 << 254
    public = packed(times(a, base()))
    r = number(h[32:], message) % L
    point = packed(times(r, base()))
    s = (r + number(point, public, message) * a) % L
    return public, point + s.to_bytes(32, "little")


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def spelled(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def publish(home: pathlib.Path, place: pathlib.Path, site: pathlib.Path, seed: bytes = SEED) -> None:
    """Write the row that says that `place`, in the site's store, is a copy of the checkpoint `home`."""
    fs = FileSystem(catalogue="off")
    files = []
    for file in sorted(path for path in home.rglob("*") if path.is_file()):
        rel = file.relative_to(home).as_posix()
        files.append(
            {
                "name": rel,
                "size": file.stat().st_size,
                "original": fs.info(str(file))["identity"],
                "here": fs.info(str(place / rel))["identity"],
                "crc32c": crc32c((place / rel).read_bytes()),
            }
        )
    inside = "/" + place.relative_to(site).as_posix()
    files.sort(key=lambda file: str(file["name"]).encode())
    write_row(site, str(home), "i", seed, copy={"place": inside, "digest": "d", "files": files})


def write_row(site: pathlib.Path, path: str, identity: str, seed: bytes = SEED, **content: Any) -> None:
    row = {
        "v": 1,
        "placement": 7,
        "controller": "c1",
        "path": path,
        "identity": identity,
        "ttl_ns": 3600 * 10**9,
        **content,
    }
    _public, signature = signed(seed, b"stepahead-catalogue-row-v1\nk1\n" + spelled(row))
    catalogue = site / ".stepahead" / "catalogue"
    (catalogue / "keys").mkdir(parents=True, exist_ok=True)
    trusted, _ = signed(SEED, b"")
    (catalogue / "keys" / "k1.pub").write_text(f"ed25519:k1:{base64.b64encode(trusted).decode()}\n")
    name = hashlib.sha256(path.encode()).hexdigest() + ".json"
    whole = {"row": row, "key": "k1", "ed25519": base64.b64encode(signature).decode()}
    (catalogue / name).write_bytes(spelled(whole) + b"\n")


def state(step: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(step)
    return {f"layer{i}": torch.randn(13, 7, generator=generator) for i in range(4)} | {"step": torch.tensor(step)}


def empty() -> dict[str, Any]:
    return {name: torch.zeros_like(tensor) for name, tensor in state(0).items()}


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


class World:
    """A checkpoint at home and its copy at a site."""

    def __init__(self, root: pathlib.Path) -> None:
        self.home, self.site = root / "home" / "step-1", root / "site"
        self.place = self.site / ".stepahead" / "data" / "c1-7"

    def save(self, step: int) -> None:
        dcp.save(state(step), storage_writer=checkpoint.Writer(self.home, overwrite=True))

    def copy(self) -> None:
        shutil.copytree(self.home, self.place)
        publish(self.home, self.place, self.site)

    def load(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the checkpoint holds, and where it was read from."""
        loaded, reader = empty(), checkpoint.Reader(self.home, **options)
        dcp.load(loaded, storage_reader=reader)
        told = reader.sources()
        reader.close()
        return loaded, told


@pytest.fixture
def world(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.delenv("STEPAHEAD_CATALOGUE", raising=False)
    made = World(tmp_path)
    made.save(1)
    made.copy()
    return made


def rot(file: pathlib.Path, at: int) -> None:
    """Change a byte without anybody noticing."""
    before, data = file.stat(), bytearray(file.read_bytes())
    data[at] ^= 0xFF
    file.write_bytes(data)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def shard(folder: pathlib.Path) -> pathlib.Path:
    return next(folder.glob("*.distcp"))


def test_rfc8032() -> None:
    """The vectors of RFC 8032, so that what is compared with is right."""
    seed = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
    public, signature = signed(seed, b"\x72")
    assert public.hex() == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    assert signature.hex().startswith("92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da")
    assert crc32c(b"123456789") == 0xE3069283


def test_reader(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    total = sum(file.stat().st_size for file in world.home.iterdir())
    for options in ({"catalogue": world.site}, {"catalogue": f"dir://{world.site}"}):
        loaded, told = world.load(**options)
        assert same(loaded, state(1))
        assert told["copy_bytes"] >= total - 100 and told["original_bytes"] == 0 and "fallbacks" not in told
    monkeypatch.setenv("STEPAHEAD_CATALOGUE", str(world.site))
    assert world.load()[1]["copy_bytes"] > 0
    for off in ("off", ""):
        loaded, told = world.load(catalogue=off)
        assert same(loaded, state(1)) and told["copy_bytes"] == 0
    monkeypatch.setenv("STEPAHEAD_CATALOGUE", "off")
    assert world.load()[1]["copy_bytes"] == 0


def test_overwritten(world: World) -> None:
    """The copy is of a version that is not there any more."""
    world.save(2)
    loaded, told = world.load(catalogue=world.site)
    assert same(loaded, state(2)) and told["copy_bytes"] == 0 and told["fallbacks"]["original-changed"] > 0


@pytest.mark.parametrize("what", ["rotten", "written to", "gone", "forged", "no site"])
def test_doubts(world: World, what: str) -> None:
    reason = {
        "rotten": "copy-corrupt",
        "written to": "copy-changed",
        "gone": "copy-missing",
        "forged": "row-not-trusted",
    }.get(what)
    if what == "rotten":
        rot(shard(world.place), 300)
    elif what == "written to":
        shard(world.place).write_bytes(b"other")
    elif what == "gone":
        shard(world.place).unlink()
    elif what == "forged":
        publish(world.home, world.place, world.site, seed=b"\2" * 32)
    else:
        shutil.rmtree(world.site)
    loaded, told = world.load(catalogue=world.site)
    assert same(loaded, state(1))
    if reason is not None:
        assert told["fallbacks"][reason] > 0
    damaged = list((world.site / ".stepahead" / "catalogue" / "damaged").glob("*.json"))
    assert len(damaged) == (reason is not None and reason.startswith("copy"))
    for file in damaged:
        assert json.loads(file.read_text())["placement"] == 7


def test_wrong_catalogue(world: World) -> None:
    with pytest.raises(OptionError, match="no store has the scheme s3"):
        checkpoint.Reader(world.home, catalogue="s3://bucket").sources()
    with pytest.raises(OptionError, match="catalogue=5: must be a path"):
        checkpoint.Reader(world.home, catalogue=5).sources()  # type: ignore[arg-type]


class Elsewhere(Opened):
    """A checkpoint whose files are taken to be on other machines."""

    def __init__(self, path: Any, **options: Any) -> None:
        super().__init__(path, **options)
        self.remote = True


def test_safetensors_and_fsspec(world: World, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, place = tmp_path / "home" / "model", world.site / ".stepahead" / "data" / "c1-8"
    home.mkdir()
    save_file(state(3), home / "model.safetensors")
    shutil.copytree(home, place)
    publish(home, place, world.site)
    assert same(checkpoint.load_safetensors(home, catalogue=world.site), state(3))
    with checkpoint.local(home, catalogue=world.site) as folder:
        assert pathlib.Path(folder) == home
    # As if it were on another machine: what is signed for other bytes shows where they were read.
    (place / "config.json").write_text("of the copy")
    (home / "config.json").write_text("of the home")
    publish(home, place, world.site)
    monkeypatch.setattr(_local, "Opened", Elsewhere)
    for catalogue, want in ((str(world.site), "of the copy"), ("off", "of the home")):
        with checkpoint.local(home, cache_dir=tmp_path / f"cache {want}", catalogue=catalogue) as folder:
            assert pathlib.Path(folder, "config.json").read_text() == want

    fs = fsspec.filesystem("stepahead", catalogue=str(world.site))
    want = (home / "model.safetensors").read_bytes()
    assert fs.cat(str(home / "model.safetensors")) == want
    assert fs.sources()["copy_bytes"] == len(want)
    with fs.open(str(home / "model.safetensors")) as file:
        assert file.read() == want
    (home / "model.safetensors").write_bytes(b"new")
    assert fs.cat(str(home / "model.safetensors")) == b"new"
    assert FileSystem(catalogue="off").sources()["copy_bytes"] == 0


def test_hot_files(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks are told apart by their launcher; with a row each reads the replicas whose turn it is."""
    monkeypatch.delenv("STEPAHEAD_CATALOGUE", raising=False)
    topology = {"nodes": [{"name": f"dn{i}"} for i in range(5)], "block_size": 1024, "replication": 3}
    (tmp_path / ".stepahead").mkdir()
    (tmp_path / ".stepahead" / "store.json").write_text(json.dumps(topology))
    file, data = tmp_path / "hot", bytes(range(256)) * 20
    file.write_bytes(data)
    identity = FileSystem(catalogue="off").info(str(file))["identity"]
    write_row(tmp_path, str(file), identity, sources={"size": len(data), "readers": 4})

    def even(**options: Any) -> int:
        fs = FileSystem(store=f"dir://{tmp_path}", skip_instance_cache=True, **options)
        assert fs.cat("/hot") == data
        return int(fs.sources()["even_bytes"])

    assert even() == 0  # nobody says which rank this is
    monkeypatch.setenv("WORLD_SIZE", "4")
    for rank in range(4):
        monkeypatch.setenv("RANK", str(rank))
        assert even() == len(data)
        assert even(catalogue="off") == 0
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert even() == 0


def test_msc(world: World) -> None:
    try:
        from stepahead import msc
    except ImportError as error:
        missing(f"multistorageclient: {error}")
    provider = msc.Provider(str(world.home), catalogue=str(world.site))
    name = shard(world.home).name
    assert provider.get_object(name) == shard(world.home).read_bytes()
    assert provider._objects._fs.sources()["copy_bytes"] > 0
    with pytest.raises(OptionError, match="base_path and catalogue"):
        msc.Provider("/", something=1)


def test_commands(world: World) -> None:
    """A row that was signed for other bytes shows which were read."""
    name = shard(world.home).name
    data = bytearray(shard(world.place).read_bytes())
    data[-1] ^= 0xFF
    shard(world.place).write_bytes(data)
    publish(world.home, world.place, world.site)

    def cat(catalogue: str) -> subprocess.CompletedProcess[bytes]:
        environment = {**os.environ, "STEPAHEAD_CATALOGUE": catalogue}
        command = [str(program("stepahead")), "cat", str(world.home / name)]
        return subprocess.run(command, capture_output=True, env=environment, check=False)

    assert cat(str(world.site)).stdout == bytes(data)
    for off in ("", "off", str(world.site.parent / "nothing")):
        assert cat(off).stdout == shard(world.home).read_bytes()
    refused = cat("s3://bucket")
    assert refused.returncode == 2 and b"STEPAHEAD_CATALOGUE" in refused.stderr
