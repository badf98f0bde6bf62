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


class NotFoundError(StoreError, FileNotFoundError):
    """There is no such file or folder."""


class ExistsError(StoreError, FileExistsError):
    """There is a file or folder of that name, or something in a folder that must be empty."""


class NotAFolderError(StoreError, NotADirectoryError):
    """A folder was asked for, and it is a file."""


class IsAFolderError(StoreError, IsADirectoryError):
    """A file was asked for, and it is a folder."""


class AccessError(StoreError, PermissionError):
    """This user may not do that."""


class CheckpointError(StepaheadError):
    """There is no checkpoint, it is not complete, damaged, of another kind, or not what the model asks for.

    The message names the file, the byte or the field, and what to do.
    """


class IdentityError(StepaheadError):
    """A saved state belongs to another dataset or order, or a file of a dataset or checkpoint was overwritten while it was read.

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
    """The loader, file or store was closed."""


class ForkError(StepaheadError):
    """This process was forked from one that had already loaded the native module, which cannot work here."""


class InternalError(StepaheadError):
    """A bug of stepahead. The message holds what to report."""


_CLASSES: dict[str, type[StepaheadError]] = {
    "EOPTION": OptionError,
    "EPLAN": PlanError,
    "EDATASET": DatasetError,
    "ESTORE": StoreError,
    "ENOTFOUND": NotFoundError,
    "EEXIST": ExistsError,
    "ENOTDIR": NotAFolderError,
    "EISDIR": IsAFolderError,
    "EPERMISSION": AccessError,
    "ECHECKPOINT": CheckpointError,
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
