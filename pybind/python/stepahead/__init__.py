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

from stepahead import lifecycle, transforms
from stepahead._batch import Batch
from stepahead._errors import (
    BadSampleError,
    ClosedError,
    DatasetError,
    ForkError,
    IdentityError,
    InternalError,
    OptionError,
    PlanError,
    StepaheadError,
    StoreError,
    WorkerError,
)
from stepahead._loader import DataLoader
from stepahead._sources import Source
from stepahead._tokens import Tokens

__version__ = "0.1.0"

__all__ = [
    "BadSampleError",
    "Batch",
    "ClosedError",
    "DataLoader",
    "DatasetError",
    "ForkError",
    "IdentityError",
    "InternalError",
    "OptionError",
    "PlanError",
    "Source",
    "StepaheadError",
    "StoreError",
    "Tokens",
    "WorkerError",
    "lifecycle",
    "transforms",
]
