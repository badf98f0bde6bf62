"""What torchvision's own operators do when their random numbers come from our stream; prints torchvision.json.

Each record names an operator, a picture's size and a sample, what torchvision then asked of Pillow, and the SHA-256 of
the pixels that came out (the picture is `picture(width, height)`).
"""

import hashlib
import itertools
import math
import struct

import numpy as np
import PIL.Image
import PIL.ImageEnhance
import PIL.ImageOps
import torch
import torchvision
from reference import Draws, op_key
from torchvision.transforms import v2

SIZES = [(61, 47), (40, 90), (33, 33)]
LINSPACE = torch.linspace

# Operators as plan JSON, and how many samples of each size.
CASES = [
    ({"op": "Resize", "size": 25}, 1),
    ({"op": "Resize", "size": 40, "max_size": 70, "interpolation": "bicubic"}, 1),
    ({"op": "Resize", "size": [70, 31], "interpolation": "lanczos"}, 1),
    ({"op": "Resize", "size": [19, 90], "interpolation": "box"}, 1),
    ({"op": "Resize", "size": [50, 33], "interpolation": "nearest"}, 1),
    ({"op": "CenterCrop", "size": [30, 30]}, 1),
    ({"op": "CenterCrop", "size": [60, 52]}, 1),
    ({"op": "RandomResizedCrop", "size": [24, 24]}, 6),
    (
        {
            "op": "RandomResizedCrop",
            "size": [40, 16],
            "scale": [0.5, 1.0],
            "ratio": [0.2, 5.0],
            "interpolation": "bicubic",
        },
        4,
    ),
    (
        {
            "op": "RandomResizedCrop",
            "size": [9, 9],
            "scale": [0.9, 1.0],
            "ratio": [3.0, 4.0],
            "interpolation": "nearest",
        },
        2,
    ),
    ({"op": "RandomCrop", "size": [20, 31]}, 2),
    ({"op": "RandomCrop", "size": [33, 33], "padding": 4, "fill": 9}, 2),
    (
        {
            "op": "RandomCrop",
            "size": [33, 40],
            "padding": [5, 6, 7, 8],
            "pad_if_needed": True,
            "padding_mode": "reflect",
        },
        2,
    ),
    (
        {"op": "RandomCrop", "size": [150, 140], "padding": [2, 3], "pad_if_needed": True, "padding_mode": "symmetric"},
        3,
    ),
    ({"op": "RandomCrop", "size": [70, 70], "pad_if_needed": True, "fill": [1, 2, 3]}, 2),
    ({"op": "RandomCrop", "size": [50, 64], "pad_if_needed": True, "padding_mode": "edge"}, 2),
    ({"op": "Pad", "padding": 3}, 1),
    ({"op": "Pad", "padding": [4, 0], "fill": [200, 100, 50]}, 1),
    ({"op": "Pad", "padding": [1, 2, 3, 4], "padding_mode": "edge"}, 1),
    ({"op": "Pad", "padding": [32, 46, 5, 0], "padding_mode": "reflect"}, 1),
    ({"op": "Pad", "padding": [150, 7, 99, 200], "padding_mode": "reflect"}, 1),
    ({"op": "Pad", "padding": [130, 3, 70, 200], "padding_mode": "symmetric"}, 1),
    ({"op": "RandomVerticalFlip"}, 3),
    ({"op": "RandomHorizontalFlip", "p": 0.3}, 3),
    ({"op": "Grayscale"}, 1),
    ({"op": "Grayscale", "num_output_channels": 3}, 1),
    ({"op": "RandomGrayscale", "p": 0.5}, 3),
    ({"op": "ColorJitter", "brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}, 6),
    ({"op": "ColorJitter", "brightness": [0, 5], "hue": 0.5}, 3),
    ({"op": "ColorJitter", "contrast": 3, "saturation": [1.5, 1.5]}, 3),
    ({"op": "ColorJitter", "hue": [-0.5, -0.2]}, 2),
    ({"op": "GaussianBlur", "kernel_size": 5}, 2),
    ({"op": "GaussianBlur", "kernel_size": [7, 3], "sigma": 1.5}, 1),
    ({"op": "RandAugment"}, 16),
    ({"op": "RandAugment", "num_ops": 6, "magnitude": 30, "interpolation": "bilinear", "fill": [10, 20, 30]}, 8),
    ({"op": "RandAugment", "num_ops": 5, "magnitude": 3, "num_magnitude_bins": 10, "fill": 128}, 8),
    ({"op": "RandAugment", "num_ops": 4, "magnitude": 0}, 2),
    ({"op": "RandomErasing", "p": 1.0}, 4),
    ({"op": "RandomErasing", "value": [1, 2, 3], "scale": [0.3, 1.0], "ratio": [0.1, 10.0]}, 6),
    ({"op": "RandomErasing", "p": 1.0, "scale": [0.9, 1.0]}, 2),
    ({"op": "RandomErasing", "value": "random", "ratio": [1.0, 5.0]}, 4),
]


def picture(width, height):
    """Noise whose channels have different ranges, so that every tone operator has something to do."""
    state, values = 1, []
    for i in range(width * height * 3):
        state = (state * 1664525 + 1013904223) % 2**32
        c = i % 3
        values.append(20 + 7 * c + ((state >> 24) * (90 + 40 * c) >> 8))
    return np.array(values, dtype=np.uint8).reshape(height, width, 3)


class Stream:
    """Takes the place of torch's generator: torch's functions, with the numbers of one operator and sample."""

    def __init__(self):
        self.draws = None

    def rand(self, *size):
        shape = size[0] if size and isinstance(size[0], tuple) else size
        return torch.full(shape, self.draws.uniform(), dtype=torch.float64)

    def randint(self, *bounds, size=None):
        if size is None:
            bounds, size = bounds[:-1], bounds[-1]
        low, high = bounds if len(bounds) == 2 else (0, bounds[0])
        return torch.full(size, low + self.draws.below(high - low), dtype=torch.int64)

    def randperm(self, n):
        order = list(range(n))
        for i in range(n - 1, 0, -1):
            j = self.draws.below(i + 1)
            order[i], order[j] = order[j], order[i]
        return torch.tensor(order)

    def uniform_(self, tensor, low, high):
        assert tensor.numel() == 1
        return tensor.fill_(self.draws.between(float(low), float(high)))

    def linspace(self, start, end, steps, **options):
        """torch's, number by number: in groups, as it computes them, the last bit depends on the processor."""
        if options:  # the window of a blur, whose pixels are not compared
            return LINSPACE(start, end, steps, **options)
        start, end = torch.tensor(start, dtype=torch.float32), torch.tensor(end, dtype=torch.float32)
        step = (end - start) / (steps - 1)
        low = [start + step * i for i in range(steps // 2)]
        return torch.stack(low + [end - step * (steps - 1 - i) for i in range(steps // 2, steps)])

    def install(self):
        assert torch.allclose(self.linspace(0.0, 0.9, 31), LINSPACE(0.0, 0.9, 31), rtol=2e-7, atol=0)
        torch.rand, torch.randint, torch.randperm = self.rand, self.randint, self.randperm
        torch.linspace = self.linspace
        torch.Tensor.uniform_ = lambda tensor, low, high: self.uniform_(tensor, low, high)


class Calls:
    """Records what is asked of Pillow."""

    def __init__(self):
        self.steps = []

    def install(self):
        transform = PIL.Image.Image.transform

        def recorded_transform(image, size, method, data, resample, **options):
            assert method == PIL.Image.Transform.AFFINE and size == image.size, (method, size)
            self.steps.append(
                {
                    "kind": "affine",
                    "matrix": [float(x).hex() for x in data],
                    "filter": PIL.Image.Resampling(resample).name.lower(),
                }
            )
            return transform(image, size, method, data, resample, **options)

        PIL.Image.Image.transform = recorded_transform
        self.record(PIL.ImageOps, "posterize", lambda _, bits: {"kind": "posterize", "level": int(bits)})
        self.record(PIL.ImageOps, "solarize", lambda _, limit: {"kind": "solarize", "level": math.ceil(limit)})
        for name in ("autocontrast", "equalize"):
            self.record(PIL.ImageOps, name, lambda *_, name=name: {"kind": name})
        for name, kind in (
            ("Brightness", "brightness"),
            ("Contrast", "contrast"),
            ("Color", "saturation"),
            ("Sharpness", "sharpness"),
        ):
            self.record(
                getattr(PIL.ImageEnhance, name),
                "enhance",
                lambda _, factor, kind=kind: {"kind": kind, "factor": float(factor).hex()},
            )

    def record(self, owner, name, describe):
        real = getattr(owner, name)

        def recorded(*arguments):
            self.steps.append(describe(*arguments))
            return real(*arguments)

        setattr(owner, name, recorded)


def operator(op):
    parameters = {k: v for k, v in op.items() if k != "op"}
    return getattr(v2, op["op"])(**parameters)


DESCRIBED = ("RandomCrop", "GaussianBlur", "RandomErasing", "ColorJitter", "RandAugment")


def described(op, params):
    """The step that parameters drawn by torchvision stand for, for operators that do not call Pillow step by step."""
    name = op["op"]
    if name == "RandomCrop":
        left, top = params["padding"][:2]
        return [
            {"kind": "crop", "box": [params["left"] - left, params["top"] - top, params["width"], params["height"]]}
        ]
    if name == "GaussianBlur":
        return [{"kind": "blur", "sigma": float(params["sigma"][0]).hex()}]
    if name == "RandomErasing" and params["v"] is not None:
        return [{"kind": "erase", "box": [params["j"], params["i"], params["w"], params["h"]]}]
    if name == "ColorJitter":
        steps = []
        for n in params["fn_idx"].tolist():
            kind = ["brightness", "contrast", "saturation", "hue"][n]
            amount = params[kind + "_factor"]
            if amount is None:
                continue
            if kind == "hue":
                steps.append({"kind": kind, "level": int(np.int32(amount * 255).astype(np.uint8))})
            else:
                steps.append({"kind": kind, "factor": float(amount).hex()})
        return steps
    return []


def run(op, width, height, sample, stream, calls):
    # Drawn numbers keep all their bits; the magnitudes of RandAugment are float32.
    torch.set_default_dtype(torch.float32 if op["op"] == "RandAugment" else torch.float64)
    transform = operator(op)
    drawn = []
    make_params = transform.make_params
    transform.make_params = lambda inputs: drawn.append(make_params(inputs)) or drawn[-1]
    stream.draws, calls.steps = Draws(op_key(7, "", 0, sample, 1)), []
    out = transform(PIL.Image.fromarray(picture(width, height)))
    steps = calls.steps if op["op"] == "RandAugment" else [s for params in drawn for s in described(op, params)]
    pixels = np.asarray(out)
    record = {
        "op": op,
        "width": width,
        "height": height,
        "sample": sample,
        "steps": steps,
        "shape": [*pixels.shape, 1][:3],
        "sha256": hashlib.sha256(pixels.tobytes()).hexdigest(),
    }
    if op["op"] not in DESCRIBED:
        del record["steps"]
    if op["op"] == "GaussianBlur":  # computed by torch in float32; ours is in fixed point
        del record["sha256"]
    if op.get("value") == "random":  # the noise is ours, and its key what the stream gives next
        del record["sha256"]
        for step in steps:
            step["key"] = struct.pack("<QQ", *itertools.islice(stream.draws.words, 2)).hex()
    return record


TAILS = [
    [
        {"op": "ToDtype", "dtype": "float32", "scale": True},
        {"op": "Normalize", "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
        {"op": "RandomErasing", "p": 0.8},
    ],
    [
        {"op": "ToDtype", "dtype": "float32", "scale": True},
        {"op": "RandomErasing", "p": 1.0, "value": [0.1, 0.2, 0.7]},
        {"op": "Normalize", "mean": [0.5], "std": [0.25]},
        {"op": "RandomErasing", "p": 1.0, "value": 2.5},
        {"op": "ToDtype", "dtype": "float16", "scale": False},
    ],
]


def run_tail(ops, width, height, sample, stream):
    """The operators of a tail behind DecodeImage, on a tensor."""
    x = torch.from_numpy(picture(width, height)).permute(2, 0, 1)
    for index, op in enumerate(ops, start=1):
        if op["op"] == "ToDtype":
            x = v2.functional.to_dtype(x, getattr(torch, op["dtype"]), scale=op["scale"])
        elif op["op"] == "Normalize":
            n = 3 // len(op["mean"])
            x = v2.functional.normalize(x, op["mean"] * n, op["std"] * n)
        else:
            torch.set_default_dtype(torch.float64)
            stream.draws = Draws(op_key(7, "", 0, sample, index))
            x = operator(op)(x)
            torch.set_default_dtype(torch.float32)
    x = x.permute(1, 2, 0).contiguous()
    digest = hashlib.sha256(x.view(torch.uint8).numpy().tobytes()).hexdigest()
    return {"ops": ops, "width": width, "height": height, "sample": sample, "sha256": digest}


# Whole plans behind DecodeImage, as people write them.
PLANS = [
    [
        {"op": "RandomResizedCrop", "size": [32, 32], "interpolation": "bicubic"},
        {"op": "RandomHorizontalFlip"},
        {"op": "ColorJitter", "brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1},
        {"op": "RandomGrayscale", "p": 0.2},
        {"op": "RandomErasing", "value": [124, 116, 104]},
    ],
    [
        {"op": "Resize", "size": 40, "interpolation": "lanczos", "max_size": 64},
        {"op": "RandomCrop", "size": [36, 36], "padding": 4, "padding_mode": "reflect"},
        {"op": "RandomVerticalFlip"},
        {"op": "RandAugment", "num_ops": 3, "magnitude": 12},
    ],
    [
        {"op": "Grayscale"},
        {"op": "RandAugment", "num_ops": 4, "fill": 7},
        {"op": "ColorJitter", "brightness": 0.3, "contrast": [0.5, 2], "saturation": 0.5, "hue": 0.5},
        {"op": "Resize", "size": [28, 30], "interpolation": "box"},
        {"op": "RandomErasing", "p": 0.7, "value": 3},
    ],
    [
        {"op": "RandAugment", "num_ops": 2, "magnitude": 14, "interpolation": "bilinear"},
        {"op": "CenterCrop", "size": [50, 50]},
        {"op": "Pad", "padding": [3, 2], "fill": [9, 8, 7]},
        {"op": "Resize", "size": [20, 24], "interpolation": "nearest"},
        {"op": "Grayscale", "num_output_channels": 3},
    ],
]


def run_plan(ops, width, height, sample, stream):
    image = PIL.Image.fromarray(picture(width, height))
    for index, op in enumerate(ops, start=1):
        torch.set_default_dtype(torch.float32 if op["op"] == "RandAugment" else torch.float64)
        stream.draws = Draws(op_key(7, "", 0, sample, index))
        image = operator(op)(image)
    pixels = np.asarray(image)
    return {
        "ops": ops,
        "width": width,
        "height": height,
        "sample": sample,
        "shape": [*pixels.shape, 1][:3],
        "sha256": hashlib.sha256(pixels.tobytes()).hexdigest(),
    }


def golden():
    stream, calls = Stream(), Calls()
    stream.install()
    calls.install()
    records = [
        run(op, width, height, sample, stream, calls)
        for op, samples in CASES
        for width, height in SIZES
        if fits(op, width, height)
        for sample in range(samples)
    ]
    plans = [run_plan(ops, *size, sample, stream) for ops in PLANS for size in SIZES for sample in range(8)]
    torch.set_default_dtype(torch.float32)
    tails = [run_tail(ops, 61, 47, sample, stream) for ops in TAILS for sample in range(6)]
    return {
        "torchvision": torchvision.__version__,
        "pillow": PIL.__version__,
        "operators": records,
        "plans": plans,
        "tails": tails,
    }


def fits(op, width, height):
    if op["op"] != "RandomCrop" or op.get("pad_if_needed"):
        return True
    more = 2 * op.get("padding", 0)
    return op["size"][0] <= height + more and op["size"][1] <= width + more
