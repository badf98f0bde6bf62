"""Two datacenters: an evaluation at the other one and the restart of a job, without the controller and with it.

`make demo-controller` runs this. It ends with 1 if the controller did not help, or left anything behind.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import random
import shutil
import sys
import time
from typing import Any

from datacenters import AWAY, HOME, LINK_RATE, MIB, NODE_RATE, ROOT, ROUND_TRIP, USER, Datacenters
from outcome import Evaluation, Outcome, Start
from services import Program, Services, wait
from stepahead import lifecycle

HERE = pathlib.Path(__file__).resolve().parent
PAGES = ROOT / "docs"  # the text that is learned
QUEUE = 35  # seconds until the evaluation begins
HOSTS, RANKS = 6, 4  # hosts, and ranks on each
HOT, HOT_BYTES = "/runs/base/weights.bin", 12 * MIB
STORE = f"hdfs://{HOME}/"


class Demo:
    """The folder of one demo, and what runs in it."""

    def __init__(self, folder: pathlib.Path, ends: contextlib.ExitStack) -> None:
        self.folder, self.ends = folder, ends
        self.outcome = Outcome()
        self.began = time.monotonic()

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.began:5.0f} s] {text}", flush=True)

    def prepare(self) -> None:
        """Two clusters, a file that many read, an agent, and an evaluator at the other datacenter that waits for its turn."""
        self.say("starting two clusters of HDFS")
        self.sites = self.ends.enter_context(Datacenters(self.folder))
        nodes = len(self.sites.clusters[HOME].do("nodes"))
        self.say(
            f"{HOME}: {nodes} DataNodes that read {NODE_RATE // MIB} MiB/s each; {AWAY}: reached over a link of "
            f"{ROUND_TRIP} ms and {LINK_RATE // MIB} MiB/s"
        )
        data = random.Random(1).randbytes(HOT_BYTES)
        (self.folder / "weights").write_bytes(data)
        self.outcome.sha256 = hashlib.sha256(data).hexdigest()
        self.sites.put(HOT, self.folder / "weights")
        self.services = Services(self.folder, self.sites)
        self.ends.callback(self.services.close)
        self.tokens = {job: self.services.token(job, "hint") for job in ("without", "with", "evaluation")}
        self.say("an agent listens at home; no controller runs")
        os.environ.update({k: v for k, v in self.sites.environment(HOME, USER).items() if k.startswith("HADOOP_")})

    def program(self, script: str, *arguments: Any, here: str, job: str = "", **more: str) -> Program:
        """Start a program of the demo in a datacenter."""
        environment = {**self.sites.environment(here, USER), "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1", **more}
        if job:
            environment["STEPAHEAD_TOKEN"] = self.tokens[job]
        command = [sys.executable, HERE / f"{script}.py", *arguments]
        program = Program(script, command, self.folder / f"{script}.log", environment)
        self.ends.callback(program.end)
        return program

    def evaluator(self, **environment: str) -> Program:
        arguments = ["--text", PAGES, "--site", AWAY]
        return self.program("evaluate", *arguments, here=AWAY, job="evaluation", **environment)

    def evaluation(self, name: str) -> None:
        """A run saves a checkpoint that is worse than it was before; it is evaluated at the other datacenter when its turn comes."""
        catalogue = {"STEPAHEAD_CATALOGUE": f"hdfs://{AWAY}/"} if name == "with" else {}
        evaluator = self.evaluator(**catalogue)
        url = f"{STORE}runs/{name}"
        arguments = [url, "--text", PAGES, "--site", AWAY, "--expected-in", QUEUE]
        training = self.program("train", *arguments, here=HOME, job=name)
        saved = training.read()
        due = time.monotonic() + QUEUE
        training.end()
        evaluator.read()
        self.say(f"  saved {saved['path']}, {saved['tensors']} tensors; its evaluation at {AWAY} begins in {QUEUE} s")
        self.until(due, saved["path"])
        task = {"path": saved["path"], "evaluation": "held-out", "before": saved["before"]}
        answer = evaluator.ask(task)
        self.outcome.evaluations[name] = Evaluation(saved["path"], saved["digest"], answer)
        if catalogue:
            self.late = evaluator  # it stays for more
        else:
            evaluator.end()
        self.say(
            f"  read in {answer['seconds']:.2f} s; held-out loss {answer['now']:.3g}, before {answer['before']:.3g}: "
            f"{'a regression' if answer['regression'] else 'no regression'}"
        )

    def until(self, due: float, url: str) -> None:
        """Wait until it is an evaluation's turn."""
        ready = False
        while (rest := due - time.monotonic()) > 0:
            time.sleep(min(0.5, rest))
            if self.services.controller and not ready:
                ready = self.services.placements("/" + url.removeprefix(STORE)).get("copy") == "live"
                if ready:
                    self.say(f"  a verified copy is there, {due - time.monotonic():.0f} s before")

    def begin_controller(self) -> None:
        self.services.start_controller(node_rate=NODE_RATE, readers_per_source=2)

    def path(self, name: str) -> str:
        """The path of a run's checkpoint in its store."""
        return "/" + self.outcome.evaluations[name].path.removeprefix(STORE)

    def gone(self, path: str) -> None:
        wait(f"nothing to be left of {path}", lambda: not self.services.placements(path))

    def timelines(self) -> None:
        for name in ("without", "with"):
            print(f"\nstepahead ctl timeline --job {name}")
            print(self.services.stepahead("ctl", "timeline", "--job", name), flush=True)
            told = json.loads(self.services.stepahead("ctl", "timeline", "--job", name, "--json"))
            self.outcome.evaluations[name].take(told["timelines"])

    def kill(self) -> None:
        """The controller is killed while it copies; the evaluator opens the checkpoint meanwhile."""
        path = self.outcome.evaluations["without"].path
        self.speak("without")
        for name in ("again", "later"):
            lifecycle.evaluation_scheduled(path, name, site=AWAY)
        wait("a copy that is being sent", lambda: self.services.sending(self.path("without")))
        self.services.kill_controller()
        self.begin_controller()
        self.say("  killed while it sent (kill -9), and started again: it waits for the lease, a minute")
        self.evaluate_late("again", "killed")
        self.say(f"  the evaluator read it meanwhile, in {self.outcome.evaluations['killed'].reading:.2f} s")

    def evaluate_late(self, evaluation: str, name: str) -> None:
        """An evaluation of the first run's checkpoint once more."""
        first = self.outcome.evaluations["without"]
        answer = self.late.ask({"path": first.path, "evaluation": evaluation, "before": first.answer["before"]})
        self.outcome.evaluations[name] = Evaluation(first.path, first.saved, answer)

    def recovered(self) -> None:
        """The controller goes on with what it had half sent, since it is still asked for."""
        path = self.path("without")
        wait("the controller to be the active one", self.services.active)
        wait("the copy", lambda: self.services.placements(path).get("copy") == "live")
        self.say("the controller is the active one again, and the copy is whole")
        self.evaluate_late("later", "recovered")
        self.late.end()
        self.say(f"  the evaluator read it in {self.outcome.evaluations['recovered'].reading:.2f} s")

    def speak(self, job: str) -> None:
        """From here on this process speaks for a job, as whatever launches it does."""
        lifecycle.configure(store=STORE, token=self.tokens[job])

    def start(self, name: str) -> None:
        """All ranks of a job start, and read one file."""
        hosts = [
            self.program(
                "ranks", STORE, HOT, "--first", h * RANKS, "--ranks", RANKS, "--world", HOSTS * RANKS, here=HOME
            )
            for h in range(HOSTS)
        ]
        for host in hosts:
            host.read()
        began = time.monotonic()
        for host in hosts:
            host.send("go")
        answers = [answer for host in hosts for answer in host.read()]
        self.outcome.starts[name] = start = Start(answers, began)
        self.say(f"  the last of {len(answers)} ranks had it after {start.walls[-1]:.2f} s")

    def restart(self) -> None:
        """The same when the controller was told before."""
        self.speak("with")
        url = STORE + HOT.removeprefix("/")
        lifecycle.starting(files={url: HOSTS * RANKS}, ranks=HOSTS * RANKS, ranks_per_host=RANKS, expected_in=45)
        wait("more sources", lambda: self.services.placements(HOT).get("sibling") == "live")
        self.say(f"  {HOT} has more sources")
        self.start("with")
        lifecycle.ended()
        self.gone(HOT)

    def run(self) -> None:
        self.prepare()
        self.say("an evaluation at the other datacenter, without the controller")
        self.evaluation("without")
        originals = [HOT, f"{self.path('without')}/.metadata", f"{self.path('without')}/__0_0.distcp"]
        before = self.sites.located(originals)
        self.begin_controller()
        wait("the controller to be the active one", self.services.active)
        self.say("the controller runs; the same with it")
        self.evaluation("with")
        self.gone(self.path("with"))
        self.timelines()
        self.say("the controller is killed in the middle of a copy")
        self.kill()
        self.say(f"the restart of a job of {HOSTS} hosts with {RANKS} ranks each, while no controller is active")
        self.start("without")
        self.recovered()
        self.say("the same restart, announced to the controller")
        self.restart()
        self.say("all is asked for no more; what a predecessor left is kept for two minutes after a start")
        self.gone(self.path("without"))
        self.outcome.left = self.services.left()
        after = self.sites.located(originals)
        self.outcome.moved = [path for path in originals if after[path] != before[path]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "demo-controller", help="where all is written")
    args = parser.parse_args()
    shutil.rmtree(args.folder, ignore_errors=True)
    args.folder.mkdir(parents=True)
    with contextlib.ExitStack() as ends:
        demo = Demo(args.folder, ends)
        demo.run()
    print()
    print(demo.outcome.table())
    picture = args.folder / "controller.png"
    demo.outcome.picture(picture)
    print(f"picture: {picture}")
    wrong = demo.outcome.wrong()
    print(f"same bytes, originals where they were, nothing left: {'no' if wrong else 'yes'}")
    for what in wrong:
        print(f"does not hold: {what}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
