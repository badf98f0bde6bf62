"""Transform plans with torchvision's names, defaults and meaning.

A plan is plain data: the same JSON on disk, on the wire and here. What each operator is equal to,
to the bit, is in docs/operators.md.

>>> plan = Compose([DecodeImage(), RandomResizedCrop(224), RandomHorizontalFlip()])
>>> plan.to_dict()["ops"][2]
{'op': 'RandomHorizontalFlip', 'p': 0.5}
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator, Sequence
from typing import Any


class Operator:
    """One operator of a plan. `params` are its parameters as plan JSON names them."""

    def __init__(self, **params: Any) -> None:
        self.params: dict[str, Any] = params

    def to_dict(self) -> dict[str, Any]:
        """The operator as it stands in plan JSON."""
        return {"op": type(self).__name__, **self.params}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.params.items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operator) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_dict(), sort_keys=True))


class DecodeImage(Operator):
    """Decode a still image (JPEG, PNG, WebP, GIF) by its content to uint8 [height, width, 3] pixels.

    Equal to `PIL.Image.open(f).convert("RGB")`: alpha is dropped, grey repeated, CMYK converted. Must
    be the first operator. `orientation="stored"` keeps pixels as they lie in the file, as PIL and
    torchvision do; "apply" turns them as EXIF says, as `PIL.ImageOps.exif_transpose`.
    `jpeg="dct-scaled"` decodes a JPEG at 1/2, 1/4 or 1/8 where a much smaller resize follows: faster,
    with other pixels than "exact". `truncated="fill"` keeps what a file that ends early has, as Pillow
    with `LOAD_TRUNCATED_IMAGES`; "raise" makes it a bad sample.
    """

    def __init__(
        self,
        mode: str = "RGB",
        orientation: str = "stored",
        jpeg: str = "exact",
        truncated: str = "raise",
    ) -> None:
        super().__init__(
            mode=mode, orientation=orientation, **_unless(jpeg=(jpeg, "exact"), truncated=(truncated, "raise"))
        )


class Resize(Operator):
    """Scale to `size`: an int for the short side, keeping the aspect, or (height, width).

    `interpolation` is "nearest", "box", "bilinear", "bicubic" or "lanczos". Equal to Pillow's
    `Image.resize` to the bit, so always antialiased, but for "nearest", which cannot be. `max_size`
    limits the long side. `version=2` is the pass order of Pillow 13, `version=1` that of Pillow 12.1
    and earlier.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        interpolation: str = "bilinear",
        max_size: int | None = None,
        antialias: bool = True,
        version: int = 2,
    ) -> None:
        params: dict[str, Any] = {"size": _size(size), "interpolation": interpolation, "antialias": antialias}
        if max_size is not None:
            params["max_size"] = max_size
        super().__init__(**params, version=version)


class CenterCrop(Operator):
    """Cut the middle [height, width]; what lies outside a smaller image is zero."""

    def __init__(self, size: int | Sequence[int]) -> None:
        super().__init__(size=_pair(size))


class RandomResizedCrop(Operator):
    """Cut a random box and resize it to [height, width].

    `scale` is the range of the box's share of the image's area, `ratio` that of its width over its
    height (log-uniform). What is drawn depends on (seed, source, epoch, sample) only.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        interpolation: str = "bilinear",
        antialias: bool = True,
        version: int = 2,
    ) -> None:
        super().__init__(
            size=_pair(size),
            scale=list(scale),
            ratio=list(ratio),
            interpolation=interpolation,
            antialias=antialias,
            version=version,
        )


class RandomHorizontalFlip(Operator):
    """Mirror left and right with probability `p`."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=p)


class Normalize(Operator):
    """Compute (x - mean) / std per channel, in float32 for uint8 input.

    `scale` says how a uint8 pixel becomes x: "divide" (default) is x / 255 as torchvision's ToTensor,
    "multiply" is x * float32(1 / 255) as its ToDtype(scale=True), "none" leaves it. The first two
    differ in the last bit of about half of all values. After a ToDtype only "none" is possible.
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], scale: str = "divide") -> None:
        super().__init__(mean=list(mean), std=list(std), scale=scale)


class ToDtype(Operator):
    """Cast to "uint8", "float32", "float16" or "bfloat16"; with `scale` uint8 is multiplied by 1 / 255."""

    def __init__(self, dtype: str, scale: bool = False) -> None:
        super().__init__(dtype=str(dtype).removeprefix("torch."), scale=scale)


class Compose:
    """A plan: operators in order. Immutable by convention; equal plans have equal digests."""

    def __init__(self, ops: Sequence[Operator]) -> None:
        for op in ops:
            if not isinstance(op, Operator):
                raise TypeError(
                    f"Compose takes operators of stepahead.transforms, got {type(op).__name__}: "
                    "transforms that are not part of a plan belong in the training loop"
                )
        self.ops = tuple(ops)

    def to_dict(self) -> dict[str, Any]:
        """The plan as a JSON object."""
        return {"plan": 1, "ops": [op.to_dict() for op in self.ops]}

    def to_json(self) -> str:
        """The plan as JSON text, as `stepahead transform --plan` reads it."""
        from stepahead import _arguments

        return _arguments.dumps(_arguments.plan(self.to_dict()))

    @property
    def digest(self) -> str:
        """The SHA-256 of the plan's canonical form, in hex. Loads the native module.

        Raises PlanError when the plan is not valid.
        """
        from stepahead import _binding

        digest: str = json.loads(_binding.call("Plan", self.to_json()))["digest"]
        return digest

    def __iter__(self) -> Iterator[Operator]:
        return iter(self.ops)

    def __len__(self) -> int:
        return len(self.ops)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Compose) and self.ops == other.ops

    def __hash__(self) -> int:
        return hash(self.ops)

    def __repr__(self) -> str:
        return "Compose([" + ", ".join(map(repr, self.ops)) + "])"


def _unless(**pairs: tuple[Any, Any]) -> dict[str, Any]:
    """The parameters that differ from their default; a plan need not name the others."""
    return {name: value for name, (value, default) in pairs.items() if value != default}


def _size(size: int | Sequence[int]) -> int | list[int]:
    whole = _whole(size)
    return whole if whole is not None else list(size)  # type: ignore[arg-type]


def _pair(size: int | Sequence[int]) -> list[int]:
    sides = _size(size)
    if isinstance(sides, int):
        return [sides, sides]
    return sides * 2 if len(sides) == 1 else sides


def _whole(size: Any) -> int | None:
    try:
        return operator.index(size)
    except TypeError:
        return None
