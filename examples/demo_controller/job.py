"""The model of the demo: a language model of bytes, with as many layers and tensors as large ones have, but narrow."""

from __future__ import annotations

import hashlib
import pathlib

import torch
from torch import nn

LAYERS, WIDTH, HEADS, CONTEXT = 24, 96, 3, 32
BATCH = 4


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bytes = nn.Embedding(256, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(LAYERS)
        )
        self.head = nn.Linear(WIDTH, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        h = self.bytes(x) + self.places(torch.arange(x.shape[1]))
        for layer in self.layers:
            h = layer(h, src_mask=mask, is_causal=True)
        out: torch.Tensor = self.head(h)
        return out


def text(folder: pathlib.Path) -> torch.Tensor:
    """The bytes that it learns: the pages of a folder."""
    data = b"".join(page.read_bytes() for page in sorted(folder.glob("*.md")))
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).long()


def loss(model: nn.Module, data: torch.Tensor, generator: torch.Generator, batch: int = BATCH) -> torch.Tensor:
    """Of pieces of the text from anywhere."""
    at = torch.randint(len(data) - CONTEXT - 1, (batch,), generator=generator)
    x = torch.stack([data[i : i + CONTEXT + 1] for i in at.tolist()])
    return nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())


@torch.inference_mode()
def benchmark(model: nn.Module, data: torch.Tensor) -> float:
    """The held-out loss, always of the same pieces."""
    generator = torch.Generator().manual_seed(7)
    return sum(loss(model, data, generator).item() for _ in range(4)) / 4


def digest(model: nn.Module) -> str:
    """The SHA-256 of all weights."""
    total = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        total.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return total.hexdigest()
