"""The exceptions of stepahead, and how errors of the native module become them."""

from __future__ import annotations

import json


class StepaheadError(Exception):
    """The parent of every exception that stepahead raises by itself."""


class OptionError(StepaheadError, ValueError):
    """An argument has a value that cannot work; the message names it and what would."""


class PlanError(StepaheadError, ValueError):
    """A transform plan is not valid: the message names the operator's index and the parameter."""


class DatasetError(StepaheadError):
    """The dataset is damaged, of a newer version, or its files do not belong together."""


class StoreError(StepaheadError, OSError):
    """The store could not be read: a missing file, no permission, every replica out of reach."""


class IdentityError(StepaheadError):
    """A saved state belongs to another dataset or order, or a file of the dataset was overwritten while it was read.

    `diff` lists what differs: of a file, the version it was opened as and the version that is there now.
    """

    def __init__(self, message: str) -> None:
        text, *diff = message.split("\n")
        super().__init__(text)
        self.diff: list[str] = diff


class BadSampleError(StepaheadError):
    """A sample's content is bad and the loader was told `on_bad="raise"`, or its substitutes are bad too, or it has
    tokens, which have none.

    The attributes say which sample (the last one tried) and why; each is None where it is not known.
    """

    source: str | None
    """The name of its source, where there are several."""
    sample: int | None
    """Its number in the dataset."""
    key: str | None
    """Its key in the dataset: as a rule, the name of the file it was packed from."""
    field: str | None
    """The media field, or "tokens"."""
    bin: str | None
    """The file that holds it: its path, or its URL."""
    offset: int | None
    """Where it begins in `bin`."""
    kind: str | None
    """"checksum", "decode", "truncated", "unsupported", "limit", or "token" for an id that is none."""
    reason: str | None
    """What is wrong, in words."""

    def __init__(self, message: str) -> None:
        text, _, facts = message.partition("\n")
        super().__init__(text)
        known = json.loads(facts) if facts else {}
        self.source = known.get("source")
        self.sample = known.get("sample")
        self.key = known.get("key") or None
        self.field = known.get("field")
        self.bin = known.get("bin")
        self.offset = known.get("offset")
        self.kind = known.get("kind")
        self.reason = known.get("reason")


class WorkerError(StepaheadError):
    """Worker processes could not be started, or kept failing on a sample for another reason than its content."""


class ClosedError(StepaheadError):
    """The loader was closed."""


class ForkError(StepaheadError):
    """This process was forked from one that had already loaded the native module, which cannot work here."""


class InternalError(StepaheadError):
    """A bug of stepahead. The message holds what to report."""


_CLASSES: dict[str, type[StepaheadError]] = {
    "EOPTION": OptionError,
    "EPLAN": PlanError,
    "EDATASET": DatasetError,
    "ESTORE": StoreError,
    "EIDENTITY": IdentityError,
    "EBADSAMPLE": BadSampleError,
    "EWORKER": WorkerError,
    "ECLOSED": ClosedError,
    "EINTERNAL": InternalError,
}


def from_native(error: RuntimeError) -> StepaheadError:
    """The exception for an error of the native module, whose text begins with a code and a colon."""
    code, _, message = str(error).partition(": ")
    return _CLASSES.get(code, InternalError)(message if code in _CLASSES else str(error))
