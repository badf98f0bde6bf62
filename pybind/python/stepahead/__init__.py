"""stepahead: a dataloader that tells storage what the next training steps need.

>>> import stepahead
>>> from stepahead import transforms as T
>>> plan = T.Compose([T.DecodeImage(), T.RandomResizedCrop(224), T.RandomHorizontalFlip()])
>>> loader = stepahead.DataLoader("photos", global_batch=64, transform=plan, seed=7)  # doctest: +SKIP
>>> for batch in loader:  # doctest: +SKIP
...     train(batch["image"], batch["label"])

Importing this package loads no Go: the native module loads when the first loader is made, in the
process that makes it.
"""

from stepahead import checkpoint, lifecycle, transforms
from stepahead._batch import Batch
from stepahead._errors import (
    AccessError,
    BadSampleError,
    CheckpointError,
    ClosedError,
    DatasetError,
    ExistsError,
    ForkError,
    IdentityError,
    InternalError,
    IsAFolderError,
    NotAFolderError,
    NotFoundError,
    OptionError,
    PlanError,
    StepaheadError,
    StoreError,
    WorkerError,
)
from stepahead._loader import DataLoader
from stepahead._sources import Source
from stepahead._tokens import Tokens

__version__: str
"""The package's version, which its programs say too."""


def __getattr__(name: str) -> str:
    if name == "__version__":  # when it is asked for: importing what tells it takes longer than importing this package
        from importlib.metadata import version

        return version("stepahead")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "AccessError",
    "BadSampleError",
    "Batch",
    "CheckpointError",
    "ClosedError",
    "DataLoader",
    "DatasetError",
    "ExistsError",
    "ForkError",
    "IdentityError",
    "InternalError",
    "IsAFolderError",
    "NotAFolderError",
    "NotFoundError",
    "OptionError",
    "PlanError",
    "Source",
    "StepaheadError",
    "StoreError",
    "Tokens",
    "WorkerError",
    "checkpoint",
    "lifecycle",
    "transforms",
]
