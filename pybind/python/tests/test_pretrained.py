"""Models of transformers, saved in a store, are loaded by from_pretrained through the local view, and by the example."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import pytest
import torch
from conftest import missing
from stepahead import checkpoint
from test_checkpoint import bits, put, root  # noqa: F401  where checkpoints lie
from test_hdfs import hdfs, minihdfs  # noqa: F401  the cluster

EXAMPLE = pathlib.Path(__file__).resolve().parents[3] / "examples" / "evaluate_pretrained.py"
TEXTS = ("the first text", "a second one")


@pytest.fixture(scope="module")
def transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        missing(f"transformers: {error}")
    return transformers


@pytest.fixture(scope="module")
def model(transformers: Any) -> Any:
    torch.manual_seed(3)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.LlamaConfig(vocab_size=40, num_key_value_heads=1, max_position_embeddings=32, **sizes)
    return transformers.LlamaForCausalLM(config).to(torch.bfloat16).eval()


@pytest.fixture(scope="module")
def saved(transformers: Any, model: Any, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """What save_pretrained writes: several files of weights with an index, configuration, tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("pretrained") / "model"
    model.save_pretrained(folder, max_shard_size="4KB")
    words = {word: number for number, word in enumerate(["?", *sorted(set(" ".join(TEXTS).split()))])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="?").save_pretrained(folder)
    assert len(list(folder.glob("*.safetensors"))) > 1
    return folder


def test_from_pretrained(root: str, model: Any, saved: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from transformers import AutoModelForCausalLM

    path = put(saved, root)
    want = model.state_dict()
    with checkpoint.local(path) as folder:
        loaded = AutoModelForCausalLM.from_pretrained(folder, torch_dtype="auto").state_dict()
    assert loaded.keys() == want.keys() and all(bits(loaded[name]) == bits(tensor) for name, tensor in want.items())
    ours = checkpoint.load_safetensors(path, names=want)
    assert ours.keys() == want.keys() and all(bits(ours[name]) == bits(tensor) for name, tensor in want.items())


def test_the_example(root: str, transformers: Any, model: Any, saved: pathlib.Path) -> None:  # noqa: F811
    tokenizer = transformers.AutoTokenizer.from_pretrained(saved)
    wanted = []
    for text in TEXTS:
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            wanted.append(f"{model(ids, labels=ids).loss.item():.4f}  {text}")
    command = [sys.executable, "-W", "ignore", str(EXAMPLE), put(saved, root), *TEXTS]
    out = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert out.returncode == 0, out.stderr
    assert out.stdout.splitlines() == wanted
