"""What a rank of test_shared_reads.py does: a module of its own, which imports little."""

from __future__ import annotations

import contextlib
import os
import signal
import zlib
from collections.abc import Sequence
from multiprocessing.connection import Connection

from stepahead.checkpoint._opened import Opened


def read(end: Connection, url: str, names: Sequence[str], environment: dict[str, str]) -> None:
    """A rank: it opens the checkpoint, reads when it is told to, and lives until the other end is closed."""
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    opened = Opened(url, shared=True)
    try:
        end.send("opened")
        end.recv()
        end.send("reads")
        end.send({name: zlib.crc32(opened.read_file(name)) for name in names})
    except KeyboardInterrupt:
        end.send("interrupted")
    except EOFError:
        return
    with contextlib.suppress(EOFError):
        end.recv()
