"""A training job: it learns for a while, then its learning rate goes wrong; what it saves then is to be evaluated elsewhere.

It prints a line of JSON when the checkpoint is saved, and ends with its input.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys

import job
import torch
import torch.distributed.checkpoint as dcp
from stepahead import checkpoint, lifecycle

GOOD, WRONG = 12, 16  # the step after which it goes wrong, and that of the checkpoint


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoints", help="URL of the folder for checkpoints")
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--site", required=True, help="where the evaluation runs")
    parser.add_argument("--expected-in", type=float, required=True, help="seconds until it does")
    args = parser.parse_args()
    lifecycle.hook_saves()  # says that a checkpoint is being saved, and that it is whole
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model, data, pieces = job.Model(), job.text(args.text), torch.Generator().manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    before = 0.0
    for step in range(1, WRONG + 1):
        job.loss(model, data, pieces).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == GOOD:
            before = job.benchmark(model, data)
            optimizer.param_groups[0]["lr"] = 0.3
    path = f"{args.checkpoints}/step-{WRONG}"
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    dcp.save(state, storage_writer=checkpoint.Writer(path), no_dist=True)
    lifecycle.evaluation_scheduled(path, "held-out", site=args.site, expected_in=args.expected_in)
    tensors = sum(isinstance(t, torch.Tensor) for s in optimizer.state.values() for t in s.values())
    said = {"path": path, "before": before, "digest": job.digest(model), "tensors": tensors + len(model.state_dict())}
    told = lifecycle.told(timeout=30)
    if told.refused or told.lost or not told.done:
        raise SystemExit(f"agents were not told: {told}")
    print(json.dumps(said), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
