"""What becomes of media fields: the transform argument of a loader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepahead import _arguments
from stepahead._errors import OptionError
from stepahead.transforms import Compose


def options(transform: Compose | Mapping[str, Any] | str | None) -> dict[str, Any]:
    """The transform argument as options of the native module: one plan, or one a field."""
    if transform is None:
        return {}
    if isinstance(transform, Mapping) and "ops" not in transform:
        return {"transforms": {field: _plan(plan) for field, plan in transform.items()}}
    return {"transform": _plan(transform)}


def _plan(plan: Any) -> Any:
    if isinstance(plan, Compose):
        return _arguments.plan(plan.to_dict())
    if isinstance(plan, str):
        return _arguments.plan(plan)
    if isinstance(plan, Mapping):
        return _arguments.plan(dict(plan))
    raise OptionError(f"transform: {type(plan).__name__} is not a plan: use stepahead.transforms.Compose")
