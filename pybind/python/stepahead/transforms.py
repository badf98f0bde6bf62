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
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any


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
        params: dict[str, Any] = {"size": _size(size), "interpolation": _filter(interpolation), "antialias": antialias}
        if max_size is not None:
            params["max_size"] = max_size
        super().__init__(**params, version=version)


class CenterCrop(Operator):
    """Cut the middle [height, width]; what lies outside a smaller image is zero."""

    def __init__(self, size: int | Sequence[int]) -> None:
        super().__init__(size=_pair(size))


class RandomCrop(Operator):
    """Cut [height, width] at a random place, after adding `padding`.

    `padding` is a number of pixels for all sides, (left and right, top and bottom) or (left, top, right,
    bottom). With `pad_if_needed` a side that is still too short grows on both ends by what it lacks;
    without it a picture that is too small stops the run with a PlanError. `padding_mode` is "constant"
    (`fill`, 0 to 255, a number or [red, green, blue]), "edge", "reflect" or "symmetric".
    Equal to torchvision's for the same place; every place is equally likely.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: int | Sequence[int] = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__(
            size=_pair(size),
            padding=0 if padding is None else _listed(padding),
            pad_if_needed=pad_if_needed,
            fill=_listed(fill),
            padding_mode=padding_mode,
        )


class Pad(Operator):
    """Add a border of `padding` pixels: a number, (left and right, top and bottom) or (left, top, right, bottom).

    `fill` and `padding_mode` are as in `RandomCrop`. Equal to torchvision's on PIL images, so "reflect"
    and "symmetric" go back and forth where the border is wider than the picture. No side may exceed
    65535.
    """

    def __init__(
        self,
        padding: int | Sequence[int],
        fill: int | Sequence[int] = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__(padding=_listed(padding), fill=_listed(fill), padding_mode=padding_mode)


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
            scale=_listed(scale),
            ratio=_listed(ratio),
            interpolation=_filter(interpolation),
            antialias=antialias,
            version=version,
        )


class RandomHorizontalFlip(Operator):
    """Mirror left and right with probability `p`."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=p)


class RandomVerticalFlip(Operator):
    """Mirror top and bottom with probability `p`."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p=p)


class Grayscale(Operator):
    """Replace colours by Pillow's luma, `Image.convert("L")`.

    The output has `num_output_channels`: 1, so that all that follows has one channel and takes one mean
    or fill, or 3 equal ones.
    """

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__(num_output_channels=num_output_channels)


class RandomGrayscale(Operator):
    """Replace colours by Pillow's luma with probability `p`; the number of channels stays."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p=p)


class ColorJitter(Operator):
    """Change brightness, contrast, saturation and hue by random amounts in a random order.

    Each is a range (low, high) to draw from, or a number d that stands for (max(0, 1 - d), 1 + d), for
    `hue` (-d, d). Factors are from 0 to 1000, so d is at most 999; `hue` is from -0.5 to 0.5 of the colour
    circle; None does nothing. Equal to torchvision on PIL images, to the bit, for the same amounts and order.
    """

    def __init__(
        self,
        brightness: float | Sequence[float] | None = None,
        contrast: float | Sequence[float] | None = None,
        saturation: float | Sequence[float] | None = None,
        hue: float | Sequence[float] | None = None,
    ) -> None:
        super().__init__(
            brightness=_listed(brightness),
            contrast=_listed(contrast),
            saturation=_listed(saturation),
            hue=_listed(hue),
        )


class GaussianBlur(Operator):
    """Blur with a random standard deviation of `sigma` pixels, a number or (low, high).

    `kernel_size` is the window: an odd number up to 255, or (across, along). Half of it must be smaller
    than the picture, else the run stops with a PlanError. The borders are mirrored without repeating the
    outermost pixel, as in torchvision; the arithmetic is ours, in fixed point (docs/operators.md).
    """

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        sigma: float | Sequence[float] = (0.1, 2.0),
    ) -> None:
        super().__init__(kernel_size=_pair(kernel_size), sigma=_listed(sigma))


class RandAugment(Operator):
    """Apply `num_ops` (0 to 16) random operators of torchvision's table at one strength.

    `magnitude` counts from 0 in `num_magnitude_bins` (2 to 1000) equal steps of each operator's range.
    `interpolation` of shears and rotations is "nearest" or "bilinear"; `fill` is what they leave empty,
    None for black. Equal to torchvision on PIL images for the same operators and signs.
    """

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: str = "nearest",
        fill: int | Sequence[int] | None = None,
    ) -> None:
        super().__init__(
            num_ops=num_ops,
            magnitude=magnitude,
            num_magnitude_bins=num_magnitude_bins,
            interpolation=_filter(interpolation),
            fill=0 if fill is None else _listed(fill),
        )


class RandomApply(Operator):
    """Apply `transforms` with probability `p`: all of them, in order, or none.

    It takes ColorJitter, GaussianBlur, RandAugment, RandomGrayscale and the flips, which keep a picture's
    size and channels. What they draw does not depend on whether they act.
    """

    def __init__(self, transforms: Sequence[Operator], p: float = 0.5) -> None:
        super().__init__(transforms=[op.to_dict() for op in _operators("RandomApply", transforms)], p=p)


class RandomErasing(Operator):
    """Overwrite a random box with probability `p`.

    `scale` is the range of the box's share of the area, `ratio` that of its height over its width
    (log-uniform). `value` is a number or one a channel; before Normalize and ToDtype whole, from 0 to
    255, or "random" for random bytes; behind them in the units of the tensor, without "random". Up to ten
    boxes are tried, as in torchvision; a picture that none fits stays as it is. `inplace` has no effect:
    batches are always made anew.
    """

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | Sequence[float] | str = 0.0,
        inplace: bool = False,
    ) -> None:
        super().__init__(
            p=p, scale=_listed(scale), ratio=_listed(ratio), value=value if isinstance(value, str) else _listed(value)
        )


class Normalize(Operator):
    """Compute (x - mean) / std per channel, in float32 for uint8 input.

    `scale` says how a uint8 pixel becomes x: "divide" is x / 255 as torchvision's ToTensor, "multiply" is
    x * float32(1 / 255) as its ToDtype(scale=True), "none" leaves it. The first two differ in the last
    bit of about half of all values. None (default) is "divide" where uint8 arrives, and "none", the only
    one that is possible there, behind a ToDtype to another dtype.
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], scale: str | None = None) -> None:
        super().__init__(mean=_listed(mean), std=_listed(std), **_unless(scale=(scale, None)))


class ToDtype(Operator):
    """Cast to "uint8", "float32", "float16" or "bfloat16"; with `scale` uint8 is multiplied by 1 / 255."""

    def __init__(self, dtype: str, scale: bool = False) -> None:
        super().__init__(dtype=str(dtype).removeprefix("torch."), scale=scale)


class Compose:
    """A plan: operators in order. Immutable by convention; equal plans have equal digests.

    What it says is checked by the native module, which making one does not load: by `digest`, and by
    `DataLoader` before it opens anything. The error names the operator's place and the parameter.
    """

    def __init__(self, ops: Sequence[Operator]) -> None:
        self.ops = _operators("Compose", ops)

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


def _operators(name: str, ops: Any) -> tuple[Operator, ...]:
    if isinstance(ops, Operator) or not isinstance(ops, Iterable):
        raise TypeError(f"{name} takes a list of operators, got {ops!r}: write {name}([...])")
    listed = tuple(ops)  # once: it may be a generator
    for op in listed:
        if not isinstance(op, Operator):
            raise TypeError(
                f"{name} takes operators of stepahead.transforms, got {type(op).__name__}: "
                "transforms that are not part of a plan belong in the training loop"
            )
    return listed


def _unless(**pairs: tuple[Any, Any]) -> dict[str, Any]:
    """The parameters that differ from their default; a plan need not name the others."""
    return {name: value for name, (value, default) in pairs.items() if value != default}


def _listed(value: Any) -> Any:
    """A sequence as a list, for JSON; a number and None as they are."""
    if value is None or not hasattr(value, "__len__") or isinstance(value, str | bytes):
        return value
    return list(value)


# Pillow's numbers of filters, which torchvision takes too.
_PILLOWS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")


def _filter(interpolation: Any) -> Any:
    """The name of a filter, also for a member of torchvision's InterpolationMode or of Pillow's Resampling."""
    value = getattr(interpolation, "value", interpolation)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(_PILLOWS):
        return _PILLOWS[value]
    return value


def _size(size: Any) -> Any:
    """A size for JSON. What is none stays as it is, for the plan to name the mistake."""
    whole = _whole(size)
    return _listed(size) if whole is None else whole


def _pair(size: Any) -> list[Any]:
    sides = _size(size)
    if not isinstance(sides, list):
        return [sides, sides]
    return sides * 2 if len(sides) == 1 else sides


def _whole(size: Any) -> int | None:
    try:
        return operator.index(size)
    except TypeError:
        return None


_OWN_LOOP = "it is not an operator of plans yet: call torchvision's on tensors, in the training loop"
_NOT_NEEDED = "leave it out: batches are tensors already, and DecodeImage gives RGB"

# torchvision's names that are not here, and what to do instead.
_INSTEAD = {
    "ToTensor": "Normalize(mean, std) divides by 255 itself; Normalize([0], [1]) is ToTensor alone",
    "ConvertImageDtype": "use ToDtype(dtype, scale=True)",
    "ConvertDtype": "use ToDtype(dtype, scale=True)",
    "PILToTensor": _NOT_NEEDED,
    "ToImage": _NOT_NEEDED,
    "ToPureTensor": _NOT_NEEDED,
    "RGB": _NOT_NEEDED,
    "InterpolationMode": 'give the filter by name, as in Resize(256, interpolation="bicubic")',
    "MixUp": _OWN_LOOP,
    "CutMix": _OWN_LOOP,
    "AutoAugment": "it is not an operator of plans yet; RandAugment is",
    "TrivialAugmentWide": "it is not an operator of plans yet; RandAugment is",
    "AugMix": "it is not an operator of plans yet; RandAugment is",
    "Lambda": "plans run no Python: call the function on the batch in the training loop",
    "RandomChoice": _OWN_LOOP,
    "RandomOrder": _OWN_LOOP,
    "RandomRotation": _OWN_LOOP,
    "RandomAffine": _OWN_LOOP,
    "RandomPerspective": _OWN_LOOP,
    "ElasticTransform": _OWN_LOOP,
    "RandomInvert": _OWN_LOOP,
    "RandomPosterize": _OWN_LOOP,
    "RandomSolarize": _OWN_LOOP,
    "RandomAdjustSharpness": _OWN_LOOP,
    "RandomAutocontrast": _OWN_LOOP,
    "RandomEqualize": _OWN_LOOP,
    "FiveCrop": _OWN_LOOP,
    "TenCrop": _OWN_LOOP,
}

if not TYPE_CHECKING:  # so that type checkers still know which names there are

    def __getattr__(name: str) -> Any:
        instead = f": {_INSTEAD[name]}" if name in _INSTEAD else ""
        message = f"stepahead.transforms has no {name}{instead}"
        raise AttributeError(message, name=name, obj=sys.modules[__name__])
