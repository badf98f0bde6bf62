"""An evaluator: for each line of its input it loads a checkpoint, computes its held-out loss and says what it found.

It opens the path of the original, wherever it runs; whether a verified copy is read instead is STEPAHEAD_CATALOGUE's matter.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import time

import job
import torch
import torch.distributed.checkpoint as dcp
from stepahead import checkpoint, lifecycle


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--site", required=True, help="where this runs")
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, data = job.Model(), job.text(args.text)
    job.benchmark(model, data)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(evaluate(json.loads(line), model, data, args.site)), flush=True)


def evaluate(task: dict[str, object], model: torch.nn.Module, data: torch.Tensor, site: str) -> dict[str, object]:
    path, name, before = str(task["path"]), str(task["evaluation"]), float(str(task["before"]))
    lifecycle.evaluation_opened(path, name, site=site)
    began = time.monotonic()
    reader = checkpoint.Reader(path)
    state = {"model": model.state_dict()}
    dcp.load(state, storage_reader=reader, no_dist=True)
    model.load_state_dict(state["model"])
    took = time.monotonic() - began
    lifecycle.evaluation_loaded(path, name)
    now = job.benchmark(model, data)
    regression = now > 1.1 * before
    lifecycle.evaluation_result(path, name, metric="loss", value=now, regression=regression)
    lifecycle.evaluation_decided(path, "rollback" if regression else "continue", name)
    lifecycle.evaluation_done(path, name)
    told = lifecycle.told(timeout=30)
    sources = reader.sources()
    reader.close()
    return {
        "seconds": took,
        "before": before,
        "now": now,
        "regression": regression,
        "digest": job.digest(model),
        "sources": sources,
        "told": told.done and not told.refused and not told.lost,
    }


if __name__ == "__main__":
    main()
