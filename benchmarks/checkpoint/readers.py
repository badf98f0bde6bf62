"""Rows of loading: over a delayed link, on a local one, its memory, what ranks share, and headers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from benchmarks import run
from benchmarks.checkpoint.ground import (
    BIN,
    FOLDER,
    MIB,
    Ground,
    at_least,
    at_most,
    cost,
    middle,
    row,
    same,
    shown,
    wall,
)
from benchmarks.processes import Process, Results, race

RTT_MILLIS, RATE = 100, 125_000_000
EVERY = 10  # of so many tensors the slow peers load one, over the link
SMALL = 16_000
OURS = ["Reader", "load_safetensors", "cat_ranges"]
PEER_NAMES = ["FsspecReader", "safetensors", "hdfs-native"]
HEADER_TENSORS = 100_000
RANKS = 32
MEMORY_ROUNDS = 2


def gate(results: Results, what: str) -> None:
    """Before any speed: in the first round, which does not count for that reason alone, all have loaded the same bytes."""
    same({name: of[0]["sha256"] for name, of in results.items()}, what)


def load(url: str, i: int) -> dict[str, Any]:
    return {"do": "load", "url": url, "digest": i == 0}


def link(ground: Ground) -> Iterator[run.Row]:
    """2,000 tensors over a link with a long round trip."""
    cluster = ground.cluster
    far = cluster.do("link", rttMillis=RTT_MILLIS, bytesPerSecond=RATE) + FOLDER
    racers = {name: ground.racer(name, cluster) for name in [*OURS, "safetensors"]}
    results: Results = {name: [] for name in racers}
    served = []
    for i in range(ground.rounds):
        for name in OURS if i else racers:
            before = cluster.do("served")
            results[name].append(racers[name].ask(load(far, i)))
            after = cluster.do("served")
            if name == "Reader":
                served.append({key: after[key] - before[key] for key in after})
    gate(results, far)
    lengths = [place[2] for place in ground.spec["places"].values()]
    whole = shown({"safetensors": results.pop("safetensors")}, wall, "s")
    for name, of in results.items():
        ground.over_link[name] = middle(of, wall)
        values = [r["bytes"] / r["wall"] / RATE for r in of]
        yield at_least(
            f"link of {RTT_MILLIS} ms and 1 Gb/s, {len(lengths):,} tensors, {name}: share of the link", 0.8, values, "",
            f"{name} {middle(of, wall):.3g} s; once: {whole}; see the last rows", also=max(values) < 1.02,  # else it was not the link
        )  # fmt: skip
    small = sum(length < SMALL for length in lengths)
    yield row(
        "the same, Reader: reads that DataNodes served", "none", [float(s["reads"]) for s in served], "",
        f"for {len(lengths):,} tensors, {small:,} of them shorter than 16 KB", lambda _: True,
    )  # fmt: skip
    yield row(
        "the same, Reader: bytes from DataNodes / bytes of tensors", "none",
        [s["bytes"] / sum(lengths) for s in served], "x", "", lambda _: True,
    )  # fmt: skip


def start_baseline(ground: Ground) -> None:
    """Begin what takes minutes and next to no CPU: few tensors, one after the other, over a link of their own."""
    names = list(ground.spec["places"])[::EVERY]
    for name in ("FsspecReader", "hdfs-native"):
        far = ground.cluster.do("link", rttMillis=RTT_MILLIS, bytesPerSecond=RATE) + FOLDER
        ground.baseline[name] = ground.racer(f"{name} over the link", ground.cluster, name)
        ground.baseline[name].send({"do": "load", "url": far, "names": names})


def baseline(ground: Ground) -> Iterator[run.Row]:
    """How long the peers take over the link."""
    if not ground.baseline:
        start_baseline(ground)
    for name, racer in ground.baseline.items():
        took = racer.read()["wall"]
        ours = ground.over_link.get("Reader" if name == "FsspecReader" else "cat_ranges", math.nan)
        yield run.Row(
            f"link of {RTT_MILLIS} ms, {name}, {len(ground.spec['places']) // EVERY} tensors, scaled to all / ours", "none",
            took * EVERY / ours, None, "x", f"{name} {took:.3g} s, scaled {took * EVERY:,.0f} s; ours {ours:.3g} s", True,
        )  # fmt: skip


def local(ground: Ground) -> Iterator[run.Row]:
    """The same tensors from the cluster itself, and from local files."""
    cluster = ground.cluster
    url = cluster.url + FOLDER
    racers = {name: ground.racer(name, cluster) for name in OURS + PEER_NAMES}
    yield from ahead("local link", contest(racers, url, ground.rounds))
    here = str(ground.data)
    racers = {
        name: ground.racer(f"{name} here", as_=name)
        for name in ("Reader", "load_safetensors", "FsspecReader", "safetensors")
    }
    results = contest(racers, here, ground.rounds)
    for mine, theirs in (("Reader", "FsspecReader"), ("load_safetensors", "safetensors")):
        values = [b["wall"] / a["wall"] for a, b in zip(results[mine], results[theirs], strict=True)]
        yield row(
            f"local files, {mine}: {theirs} / ours", "none", values, "x",
            f"{shown({n: results[n] for n in (mine, theirs)}, wall, 's')}; "
            f"{shown({n: results[n] for n in (mine, theirs)}, cost, 's/GB')}", lambda _: True,
        )  # fmt: skip


def contest(racers: dict[str, Process], url: str, rounds: int) -> Results:
    results = race(racers, list(racers), rounds + 1, lambda i: load(url, i), warm=0)
    gate(results, url)
    for racer in racers.values():
        racer.end()
    return {name: of[1:] for name, of in results.items()}


# Which peers load what is in the same layout, or need none: the best of them counts.
SAME = {"Reader": ["FsspecReader"], "load_safetensors": PEER_NAMES, "cat_ranges": PEER_NAMES}


def ahead(what: str, results: Results) -> Iterator[run.Row]:
    """Each of ours against the best peer, and its CPU time."""
    for name, rivals in SAME.items():
        peers = {peer: results[peer] for peer in rivals}
        mine = {name: results[name], **{peer: results[peer] for peer in PEER_NAMES}}
        fastest = min(peers, key=lambda peer: middle(peers[peer], wall))
        cheapest = min(peers, key=lambda peer: middle(peers[peer], cost))
        values = [b["wall"] / a["wall"] for a, b in zip(results[name], results[fastest], strict=True)]
        yield at_least(f"{what}, {name}: {fastest} / ours", 1.3, values, "x", shown(mine, wall, "s"))
        values = [cost(a) / cost(b) for a, b in zip(results[name], results[cheapest], strict=True)]
        yield row(
            f"{what}, {name}: CPU, ours / {cheapest}", "< 1 x", values, "x", shown(mine, cost, "s/GB"),
            lambda median: median < 1,
        )  # fmt: skip
    fastest = min(PEER_NAMES, key=lambda peer: middle(results[peer], wall))
    values = [b["wall"] / a["wall"] for a, b in zip(results["Reader"], results[fastest], strict=True)]
    yield row(
        f"{what}, Reader: the fastest peer of another layout too, {fastest} / ours", "none", values, "x",
        shown({name: results[name] for name in ("Reader", fastest)}, wall, "s"), lambda _: True,
    )  # fmt: skip


def memory(ground: Ground) -> Iterator[run.Row]:
    """Each time in a new process: what it keeps from before would hide growth."""
    url = ground.cluster.url + FOLDER
    peaks: dict[str, list[float]] = {}
    for i in range(min(ground.rounds, MEMORY_ROUNDS)):
        for name in OURS if i else OURS + PEER_NAMES:
            racer = ground.racer(f"{name} from nothing", ground.cluster, name)
            answer = racer.ask({"do": "memory", "url": url})
            racer.end()
            peaks.setdefault(name, []).append((answer["peak"] - answer["bytes"]) / MIB)
    once = ", ".join(f"{name} {peaks[name][0]:,.0f} MiB" for name in PEER_NAMES)
    for name in OURS:
        yield at_most(f"peak memory beyond the tensors, {name}", 256, peaks[name], "MiB", f"once: {once}")


def ranks(ground: Ground) -> Iterator[run.Row]:
    """Ranks of one host read the metadata and what is common to all of them."""
    cluster = ground.cluster
    url = f"{cluster.url}{FOLDER}/common"
    job = ground.job("ranks", cluster)
    copies: dict[str, list[float]] = {"stepahead": [], "torch": []}
    results: Results = {"stepahead": [], "torch": []}
    for i in range(ground.rounds):
        for name in ("stepahead", "torch") if i == 0 else ("stepahead",):
            before = cluster.do("served")["bytes"]
            answer = job.ask({"do": "common", "as": name, "url": url, "ranks": RANKS})
            copies[name].append((cluster.do("served")["bytes"] - before) / ground.spec["common_bytes"])
            results[name].append(answer)
            same({str(k): digest for k, digest in enumerate(answer["sha256"])}, f"{name}, ranks of a host")
    same({name: of[0]["sha256"][0] for name, of in results.items()}, "common state")
    yield at_most(
        f"{RANKS} ranks of a host read .metadata and common state: bytes from DataNodes / one copy", 1.1,
        copies["stepahead"], "x",
        f"stepahead {middle(results['stepahead'], wall):.3g} s; once: FsspecReader {copies['torch'][0]:.3g} x, "
        f"{results['torch'][0]['wall']:.3g} s",
    )  # fmt: skip


def header(ground: Ground) -> Iterator[run.Row]:
    """A header of many tensors: the parser alone, and one tensor of the file from Python."""
    path = str(ground.data / "header.safetensors")
    racers = {
        "stepahead": ground.process("parser", [str(BIN / "checkpoint")]),
        "safetensors": ground.racer("safe_open", as_="safetensors"),
        "load_safetensors": ground.racer("one of many", as_="load_safetensors"),
    }
    rounds = 5 * ground.rounds
    results = race(racers, ["stepahead", "safetensors"], rounds, lambda _: {"do": "header", "url": path})
    if any(r["tensors"] != HEADER_TENSORS for r in results["stepahead"]):
        raise ValueError(f"{path}: not {HEADER_TENSORS} tensors")
    values = [b["wall"] / a["wall"] for a, b in zip(results["stepahead"], results["safetensors"], strict=True)]
    yield at_least(
        f"safetensors header of {HEADER_TENSORS:,} tensors: safetensors / ours", 2, values, "x",
        shown(results, lambda r: r["wall"] * 1e3, "ms"),
    )  # fmt: skip
    one = {"do": "one", "url": path, "names": [f"model.layers.{HEADER_TENSORS // 2:06}.weight"], "digest": True}
    results = race(racers, ["load_safetensors", "safetensors"], rounds, lambda _: one)
    same({name: of[0]["sha256"] for name, of in results.items()}, path)
    values = [b["wall"] / a["wall"] for a, b in zip(results["load_safetensors"], results["safetensors"], strict=True)]
    yield row(
        "the same, one tensor from Python: safe_open / load_safetensors", "none", values, "x",
        shown(results, lambda r: r["wall"] * 1e3, "ms"), lambda _: True,
    )  # fmt: skip
