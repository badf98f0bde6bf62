"""The ranks of one host at the start of a job: processes that all read one file when they are told to."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time

from stepahead.filesystem import FileSystem


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("store", help="URL of the store")
    parser.add_argument("path", help="the file in it")
    parser.add_argument("--first", type=int, required=True, help="the number of this host's first rank")
    parser.add_argument("--ranks", type=int, required=True, help="how many it has")
    parser.add_argument("--world", type=int, required=True, help="how many the job has")
    args = parser.parse_args()
    os.environ |= {"WORLD_SIZE": str(args.world), "LOCAL_WORLD_SIZE": str(args.ranks)}
    ranks = [fork(args, i) for i in range(args.ranks)]
    for rank in ranks:
        json.loads(rank.answers.readline())
    print(json.dumps("ready"), flush=True)
    sys.stdin.readline()
    for rank in ranks:
        os.write(rank.go, b"\n")
    print(json.dumps([json.loads(rank.answers.readline()) for rank in ranks]), flush=True)
    for rank in ranks:
        os.waitpid(rank.process, 0)


class Rank:
    """A process of this program."""

    def __init__(self, process: int, go: int, answers: int) -> None:
        self.process, self.go, self.answers = process, go, os.fdopen(answers)


def fork(args: argparse.Namespace, local: int) -> Rank:
    """Start a rank: so early that nothing of stepahead runs yet, as launchers do."""
    go, tell = os.pipe()
    hear, answer = os.pipe()
    process = os.fork()
    if process:
        os.close(go)
        os.close(answer)
        return Rank(process, tell, hear)
    try:
        os.environ |= {"RANK": str(args.first + local), "LOCAL_RANK": str(local)}
        with os.fdopen(answer, "w", buffering=1) as answers:
            store = FileSystem(args.store)
            store.info("/")
            print(json.dumps("ready"), file=answers)
            os.read(go, 1)
            data = store.cat_file(args.path)
            ended = time.monotonic()
            found = {"rank": args.first + local, "ended": ended, "sha256": hashlib.sha256(data).hexdigest()}
            print(json.dumps({**found, "sources": store.sources()}), file=answers)
    except BaseException as error:
        print(f"rank {args.first + local}: {error!r}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
