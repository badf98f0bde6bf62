"""The newest checkpoint that is whole."""

from __future__ import annotations

import os

from stepahead import _stores


def latest(root: str | os.PathLike[str]) -> str:
    """The path, or URL, of the newest complete checkpoint below a folder, by the numbers at the end of names.

    Ranks should not each ask: a save may be completed in between. Ask on one, and tell the others.

    Raises:
        CheckpointError: there is none that is complete; the message says what is wrong with the newest.

    Example:
        >>> dcp.load(state, storage_reader=Reader(latest("hdfs://ns/runs/7b")))  # doctest: +SKIP
    """
    store = _stores.Store(os.fspath(root), catalogue="off")
    try:
        return str(store.call("latest", name=store.name))
    finally:
        store.close()
