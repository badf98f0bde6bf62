"""Arguments of Python made into what the native module takes; each mistake names the argument."""

from __future__ import annotations

import json
import math
import operator
import os
from collections.abc import Iterable
from typing import Any

from stepahead._errors import OptionError, PlanError


def whole(name: str, value: Any, least: int | None = None, most: int = 2**63 - 1) -> int | None:
    """A whole number of any type that is one (numpy's too), or None."""
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        raise OptionError(f"{name}={value!r}: must be a whole number") from None
    if isinstance(value, bool):
        raise OptionError(f"{name}={value!r}: must be a whole number")
    if least is not None and number < least:
        raise OptionError(f"{name}={number}: must be at least {least}")
    if number < -(2**63):
        raise OptionError(f"{name}={number}: must be at least {-(2**63)}")
    if number > most:
        raise OptionError(f"{name}={number}: must be at most {most}")
    return number


def seconds(name: str, value: Any) -> float | None:
    """A time that is finite, or None."""
    if value is None:
        return None
    try:
        number = float(value) if not isinstance(value, str | bytes) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise OptionError(f"{name}={value!r}: must be a number of seconds")
    return number


def number(name: str, value: Any) -> float | None:
    """A number that is finite, or None."""
    if value is None:
        return None
    try:
        converted = float(value) if not isinstance(value, str | bytes | bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        converted = math.nan
    if not math.isfinite(converted):
        raise OptionError(f"{name}={value!r}: must be a number")
    return converted


def positive(name: str, value: Any) -> float | None:
    """A number above 0, or None."""
    converted = number(name, value)
    if converted is not None and converted <= 0:
        raise OptionError(f"{name}={value!r}: must be more than 0")
    return converted


def numbers(name: str, value: Any) -> list[float]:
    """A list of finite numbers, of any type of sequence."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise OptionError(f"{name}={value!r}: must be a list of numbers")
    return [number(name, math.nan if item is None else item) or 0.0 for item in value]


def text(name: str, value: Any) -> str | None:
    """A str, or None."""
    if value is None or isinstance(value, str):
        return value
    raise OptionError(f"{name}={value!r}: must be a str")


def texts(name: str, value: Any) -> list[str]:
    """A list of str; one str alone is a mistake, whose letters would be taken for a list."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise OptionError(f"{name}={value!r}: must be a list of str")
    items = list(value)
    for item in items:
        if not isinstance(item, str):
            raise OptionError(f"{name}: {item!r}: must be a str")
    return [str(item) for item in items]


def path(name: str, value: Any) -> str | None:
    """A path as str, or None."""
    if value is None:
        return None
    try:
        return os.fsdecode(value)
    except TypeError:
        raise OptionError(f"{name}={value!r}: must be a path: str, bytes or os.PathLike") from None


def plan(text_or_plan: Any) -> Any:
    """A plan that JSON can hold."""
    try:
        if isinstance(text_or_plan, str):
            return json.loads(text_or_plan)
        json.dumps(text_or_plan, allow_nan=False, default=_number)
    except RecursionError:
        raise PlanError("transform: nested deeper than a plan can be") from None
    except (TypeError, ValueError) as error:
        raise PlanError(f"transform: not a plan as JSON: {error}") from None
    return text_or_plan


def dumps(options: dict[str, Any]) -> str:
    """Options as JSON."""
    return json.dumps(options, default=_number)


def _number(value: Any) -> Any:
    """Numbers of numpy and torch, alone or in arrays."""
    for convert in ("tolist", "item"):
        if hasattr(value, convert):
            return getattr(value, convert)()
    raise TypeError(f"{value!r} is neither a number, a text nor a list")
