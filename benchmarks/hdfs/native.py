"""hdfs-native (Rust), as a user of its Python package calls it: a racer with the same tasks as main.go.

It runs in build/peers, which has no packages of ours.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hdfs_native import Client  # type: ignore[import-not-found]

Task = dict[str, Any]


class Racer:
    def __init__(self, url: str) -> None:
        self.url = url
        self.client = Client(url)

    def stream(self, task: Task) -> dict[str, Any]:
        """By its iterator, which its documentation calls the most efficient way."""
        reader = self.client.read(task["path"])
        return {"bytes": sum(len(piece) for piece in reader.read_range_stream(0, len(reader)))}

    def ranges(self, task: Task) -> dict[str, Any]:
        files = {path: self.client.read(path) for path in {r["path"] for r in task["ranges"]}}
        millis = [0.0] * len(task["ranges"])

        def read(i: int) -> None:
            r = task["ranges"][i]
            start = time.perf_counter()
            data = files[r["path"]].read_range(r["off"], r["len"])
            millis[i] = (time.perf_counter() - start) * 1e3
            if len(data) != r["len"]:
                raise ValueError(f"{len(data)} bytes of {r}")

        with ThreadPoolExecutor(task["at_once"]) as pool:
            list(pool.map(time.sleep, [0] * task["at_once"]))  # the threads are there
            begin = time.perf_counter()
            list(pool.map(read, range(len(millis))))
            wall = time.perf_counter() - begin
        return {"wall": wall, "bytes": sum(r["len"] for r in task["ranges"]), "millis": millis}

    many = ranges

    def readers(self, task: Task) -> dict[str, Any]:
        readers = [Client(self.url).read(task["path"]) for _ in range(task["count"])]
        failed: list[BaseException] = []

        def read(reader: Any) -> None:
            try:
                for _ in reader.read_range_stream(0, len(reader)):
                    pass
            except BaseException as err:
                failed.append(err)

        threads = [threading.Thread(target=read, args=(r,)) for r in readers]
        begin = time.perf_counter()
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if failed:
            raise failed[0]
        return {"wall": time.perf_counter() - begin, "bytes": sum(map(len, readers))}

    def digest(self, task: Task) -> dict[str, Any]:
        h = hashlib.sha256()
        for r in task["ranges"]:
            h.update(self.client.read(r["path"]).read_range(r["off"], r["len"]))
        return {"sha256": h.hexdigest()}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    racer = Racer(parser.parse_args().url)
    for line in sys.stdin:
        task = json.loads(line)
        begin, cpu = time.perf_counter(), time.process_time()
        result = getattr(racer, task["do"])(task)
        result["cpu"] = time.process_time() - cpu
        result.setdefault("wall", time.perf_counter() - begin)
        print(json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
