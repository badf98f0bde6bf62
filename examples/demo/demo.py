"""Train on photographs with agents off, on, one killed, and resumed with more ranks; prove that the bytes are the same.

`make demo` runs this; `make demo-hdfs` does the same on a real HDFS, where a DataNode is killed with its agent. `make
demo FORMAT=tar` trains on the same photographs as shards of a WebDataset, indexed in place, and once on the packed ones.
DATA=folder takes your own photographs, class folders as labels.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import shutil
import sys
import threading
import time
from collections.abc import Iterator

import photos
import report
import shards
from processes import ROOT, Agents, Training, stepahead
from report import Run
from storage import BLOCK, REPLICAS, Folder, Hdfs, wait_for_agents

STEPS = 140
KILL_AT, RESTART_AT = 45, 80
STOP_AT = 70
STEP_SECONDS = 0.25
RECOVERED = range(STEPS - 25, STEPS)


class Demo:
    """The folder of one demo and what is needed to train in it."""

    def __init__(self, folder: pathlib.Path, data: pathlib.Path | None, storage: Folder | Hdfs, tar: bool) -> None:
        self.folder = folder
        self.tar = tar
        self.storage = storage
        self.key = folder / "agents.key"
        self.data = data
        self.started = time.monotonic()

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.started:5.0f} s] {text}", flush=True)

    def prepare(self) -> None:
        """Photographs, a store of three nodes, the packed dataset, a key and a token."""
        self.storage.start()
        self.dead = self.storage.nodes[1]
        source = self.data or self.folder / "photos"
        if self.data is None:
            made = photos.make(source, cuts_each=36)
            sources = sum(map(len, photos.SOURCES.values()))
            self.say(
                f"cut {made} JPEG files from {sources} photographs of PyPI packages, {sources} of 4.5 to 12 megapixels"
            )
        stepahead("pack", str(source), "-o", self.storage.dataset, environment=self.storage.environment)
        self.say(
            f"packed {source} into {self.storage.dataset}, in blocks of {BLOCK >> 20} MiB on {self.storage}, "
            f"{REPLICAS} replicas each"
        )
        self.packed = self.storage.dataset
        if self.tar:
            self.index(source)
        stepahead("token", "keygen", "--key", str(self.key))
        mint = [
            "token",
            "mint",
            "--key",
            str(self.key),
            "--job",
            "demo",
            "--user",
            self.storage.user,
            "--root",
            "/",
            "--rights",
            "fetch,hint",
            "--ttl",
            "1h",
        ]
        self.token = stepahead(*mint).strip()

    def index(self, source: pathlib.Path) -> None:
        """The same photographs in tar files, and a dataset that points into them."""
        assert isinstance(self.storage, Folder)
        root = self.storage.root
        number, classes = shards.write(source, root / "shards")
        names = self.folder / "classes.txt"
        names.write_text("".join(f"{c}\n" for c in classes), encoding="utf-8")
        self.storage.dataset = str(root / "photos-in-tars")
        pattern = str(root / "shards" / f"{{{0:05d}..{number - 1:05d}}}.tar")
        said = stepahead("index", pattern, "-o", self.storage.dataset, "--classes", str(names))
        self.say(f"wrote {number} tar files of them and {said.splitlines()[0]}")

    def train(
        self, name: str, ranks: int, *arguments: str, on_step=lambda step: None, agents: bool = False
    ) -> Training:
        fixed = ["--step-seconds", str(STEP_SECONDS), "--workers", "1"]
        if agents:
            fixed += ["--agents", "auto", "--job", "demo"]
        dataset = self.packed if name == "packed" else self.storage.dataset
        training = Training(self.folder / name, dataset, ranks, *fixed, *arguments)
        training.run({"STEPAHEAD_TOKEN": self.token, **self.storage.environment}, on_step)
        return training

    @contextlib.contextmanager
    def agents(self) -> Iterator[Agents]:
        store = self.storage
        with Agents(store.url, store.nodes, self.key, self.folder, store.agent_environment) as agents:
            wait_for_agents(store)
            yield agents

    def run_killed(self) -> Run:
        """Agents on; one is killed in mid-run, with its DataNode where it has one, and both are restarted later."""
        # Beside the training: a DataNode takes seconds to start, and its agent reads from others until then.
        restart = threading.Thread(target=self.storage.restart, args=(self.dead,))
        with self.agents() as agents:

            def on_step(step: int) -> None:
                if step == KILL_AT:
                    self.storage.kill(self.dead)
                    agents.kill(self.dead)
                    self.say(f"  step {step}: killed {self.storage.killed} of {self.dead} (kill -9)")
                if step == RESTART_AT:
                    agents.start(self.dead)
                    restart.start()
                    self.say(f"  step {step}: restarted {self.storage.killed}")

            segment = self.train("run3", 2, "--steps", str(STEPS), agents=True, on_step=on_step)
        restart.join()
        return Run("3 one agent killed", [segment], killed=(KILL_AT, RESTART_AT), agents=agents.work)

    def run_resumed(self) -> Run:
        """Agents on; stopped half-way, resumed with twice the ranks."""
        checkpoint = str(self.folder / "checkpoint")
        with self.agents() as agents:
            first = self.train("run4a", 2, "--steps", str(STOP_AT), "--save", checkpoint, agents=True)
            self.say(f"  stopped after step {STOP_AT - 1}; resuming with 4 ranks")
            rest = ["--steps", str(STEPS), "--resume", checkpoint, "--resume-step", str(STOP_AT)]
            second = self.train("run4b", 4, *rest, agents=True)
        return Run("4 resumed, 4 ranks", [first, second], agents=agents.work)

    def run_packed(self) -> list[Run]:
        """Where the dataset is made of tar files: agents off, on the packed one, which must give the same bytes."""
        if not self.tar:
            return []
        self.say("run 5: agents off, on the packed dataset")
        return [Run("5 packed", [self.train("packed", 2, "--steps", str(STEPS))])]

    def runs(self) -> tuple[Run, list[Run]]:
        self.say("measuring training alone, from batches in memory")
        memory = Run("from memory", [self.train("memory", 2, "--from-memory", "--steps", "60")])
        self.say(f"run 1 of 4: agents off, 2 ranks, {STEPS} steps")
        off = Run("1 agents off", [self.train("run1", 2, "--steps", str(STEPS))])
        self.say("run 2 of 4: agents on")
        with self.agents() as agents:
            on = self.train("run2", 2, "--steps", str(STEPS), agents=True)
        self.say("run 3 of 4: agents on, one is killed")
        killed = self.run_killed()
        self.say("run 4 of 4: agents on, stopped and resumed")
        return memory, [off, Run("2 agents on", [on], agents=agents.work), killed, self.run_resumed()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=pathlib.Path, help="a folder of photographs, class folders as labels")
    parser.add_argument(
        "--folder", type=pathlib.Path, default=ROOT / "demo", help="where everything is written (default demo/)"
    )
    parser.add_argument("--hdfs", action="store_true", help="on a real HDFS instead of simulated nodes")
    parser.add_argument("--format", choices=["packed", "tar"], default="packed", help="how the photographs lie there")
    args = parser.parse_args()
    if args.hdfs and args.format == "tar":
        parser.error("--format tar writes its shards into a folder: leave --hdfs out")
    shutil.rmtree(args.folder, ignore_errors=True)
    args.folder.mkdir(parents=True)
    storage = Hdfs(args.folder) if args.hdfs else Folder(args.folder)
    try:
        demo = Demo(args.folder, args.data, storage, args.format == "tar")
        demo.prepare()
        memory, runs = demo.runs()
        packed = demo.run_packed()
    finally:
        storage.close()
    for run in [memory, *runs, *packed]:
        run.read()
    for run in [*runs, *packed]:
        run.digest = stepahead("digest", *(str(p) for s in run.segments for p in s.records())).split()[0]
    return conclude(memory, runs, packed, storage, args.folder / "load-time.png")


def conclude(memory: Run, runs: list[Run], packed: list[Run], storage: Folder | Hdfs, path: pathlib.Path) -> int:
    """Print the table, the digests and the verdict, draw the picture; returns the exit code."""
    print()
    print(f"{len(storage.nodes)} agents; the other load of their nodes is simulated: a steady 25 % of the CPU.")
    print(f"A step lasts {1e3 * STEP_SECONDS:.0f} ms: the trainer sleeps after its CPU work, as if on an accelerator.")
    print(report.table(runs, memory))
    print("\nWhat a tensor took the agents:")
    print(report.agents_table(runs[1:]))
    if any(run.reads() for run in runs):
        print("\nWhat the trainers' own reads cost:")
        print(report.reads_table(runs))
    share = report.loading_cpu(runs[1], memory) / report.loading_cpu(runs[0], memory)
    print(f"With agents the trainers spend {share:.0%} of the CPU time for loading that they spend without.")
    for run in [*runs, *packed]:
        print(f"proof digest, run {run.name}: {run.digest}")
    report.picture(runs, memory, path)
    print(f"picture: {path}")
    same = len({run.digest for run in [*runs, *packed]}) == 1
    print(f"same bytes: {'yes' if same else 'no'}")
    failed = report.verdict(*runs, memory, dead=storage.nodes[1], recovered=RECOVERED)
    for what in failed:
        print(f"does not hold: {what}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
