"""Evaluate a Hugging Face model that lies on any store: its loss on a few texts. Needs the package transformers.

    python examples/evaluate_pretrained.py hdfs://nameservice/models/7b "The first text" "The second text"

The folder is what `save_pretrained` or Trainer wrote. Several of these on one host copy it from the store once.
"""

from __future__ import annotations

import argparse

import torch
from stepahead import checkpoint


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("model", help="the model's folder or its URL")
    parser.add_argument("texts", nargs="+")
    args = parser.parse_args()

    from transformers import AutoModelForCausalLM, AutoTokenizer

    with checkpoint.local(args.model) as folder:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype="auto").eval()
    for text in args.texts:
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            loss = model(ids, labels=ids).loss
        print(f"{loss.item():.4f}  {text}")


if __name__ == "__main__":
    main()
