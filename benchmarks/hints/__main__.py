"""Counts the messages that agents get from a job, by the agents' own count, while two ranks train.

README.md says what it claims. Run from the repository's root: `python -m benchmarks.hints [--json]`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import re
import socket
import sys
import tempfile
import time
import urllib.request
from typing import Any

import stepahead
from stepahead import transforms as T

from benchmarks.agent import agent
from benchmarks.dataset import pack

NODES = ("a", "b")
RANKS = 2
GLOBAL_BATCH = 32
# A step lasts this long, so that the agents' window runs ahead as it does in training.
STEP_SECONDS = 0.15


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def messages(metrics: str) -> dict[str, int]:
    """What an agent counted, by kind."""
    with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=5) as page:
        text = page.read().decode()
    counts: dict[str, int] = {}
    for labels, value in re.findall(r"^\w*hints_total\{([^}]*)\} (\S+)$", text, re.MULTILINE):
        kind = re.search(r'kind="([^"]*)"', labels)
        if kind:
            counts[kind[1]] = counts.get(kind[1], 0) + int(float(value))
    return counts


def train(dataset: pathlib.Path, steps: int) -> dict[str, Any]:
    """Take steps on both ranks in turn; rank 0's statistics, before it says good-bye to the agents."""
    plan = T.Compose([T.DecodeImage(), T.RandomResizedCrop(64)])
    with contextlib.ExitStack() as stack:
        loaders = [
            stack.enter_context(
                stepahead.DataLoader(
                    dataset, global_batch=GLOBAL_BATCH, transform=plan, rank=rank, world_size=RANKS, workers=1,
                    agents="auto", job="benchmark", run="1",
                )
            )
            for rank in range(RANKS)
        ]  # fmt: skip
        ranks = [iter(loader) for loader in loaders]
        for _ in range(steps):
            began = time.monotonic()
            for i, loader in enumerate(loaders):
                if next(ranks[i], None) is None:
                    ranks[i] = iter(loader)
                    next(ranks[i])
            time.sleep(max(0.0, began + STEP_SECONDS - time.monotonic()))
        return loaders[0].stats()


def measure(steps: int) -> dict[str, Any]:
    """The result as JSON has it: messages by kind of each agent, and the most of them for each step."""
    with tempfile.TemporaryDirectory(prefix="stepahead-hints-") as name, contextlib.ExitStack() as stack:
        store = pathlib.Path(name)
        dataset = pack(store, pictures=8 * GLOBAL_BATCH, nodes=NODES)
        agents = {node: f"127.0.0.1:{free_port()}" for node in NODES}
        for node, metrics in agents.items():
            stack.enter_context(agent(store, node, "--metrics", metrics, "--workers", "1", "--dwell", "1s"))
        stats = train(dataset, steps)
        counts = {node: messages(address) for node, address in agents.items()}
    return {
        "steps": steps,
        "ranks": RANKS,
        "by_agent": counts,
        "per_step": max(sum(kinds.values()) for kinds in counts.values()) / steps,
        "prepared_share": stats["prepared_share"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    args = parser.parse_args()
    result = measure(max(1, args.steps))
    if args.json:
        print(json.dumps(result))
        return 0
    for node, kinds in result["by_agent"].items():
        print(f"agent {node}: " + ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())))
    met = result["per_step"] <= 1
    print(f"{result['steps']} steps, {RANKS} ranks, {result['prepared_share']:.0%} prepared")
    print(f"hints <= 1 message a step, agent and job: {result['per_step']:.2f}: {'met' if met else 'missed'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
