"""The cost model of docs/scale.md against measurements: seconds and bytes of a cell for decoders of several widths and depths.

python benchmarks/costs.py [--tokens 8192]

A cell of L layers of width d takes 24 L d² + 4 L t d operations a token for the forward pass and L d² for second moments, at the speed
that float32 products of that width reach here; and 8 d² (1 + slices' groups) bytes a site.
"""

import argparse
import tempfile
import time
from pathlib import Path

import torch
import transformers as t

import isoscope

SIZES = ((128, 4), (256, 4), (256, 8), (512, 4), (768, 4))
LENGTH = 256


def speed(d: int) -> float:
    """Operations a second of a product (rows × d) by (d × 4 d), on one thread."""
    x, w = torch.randn(8 * LENGTH, d), torch.randn(d, 4 * d)
    taken = []
    for _ in range(7):
        began = time.perf_counter()
        x @ w
        taken.append(time.perf_counter() - began)
    return 2 * 8 * LENGTH * d * 4 * d / min(taken)


def model(folder: Path, d: int, layers: int) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers

    letters = {"[UNK]": 0, **{letter: i + 1 for i, letter in enumerate("abcdefghijklmnopqrstuvwxyz .,;'")}}
    tokenizer = Tokenizer(models.WordLevel(letters, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    made = t.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[UNK]", model_max_length=LENGTH)
    config = t.GPTNeoXConfig(
        vocab_size=40,
        max_position_embeddings=LENGTH,
        hidden_size=d,
        num_hidden_layers=layers,
        num_attention_heads=d // 64,
        intermediate_size=4 * d,
        bos_token_id=0,
        eos_token_id=0,
    )
    t.GPTNeoXForCausalLM(config).save_pretrained(folder)
    made.save_pretrained(folder)
    return folder


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("--tokens", type=int, default=8192)
    asked = words.parse_args()
    torch.set_num_threads(1)
    print(f"{'d':>5} {'layers':>6} {'GFLOP/s':>8} {'predicted':>14} {'measured':>13} {'ratio':>6} {'stored MB':>10}")
    with tempfile.TemporaryDirectory() as place:
        for d, layers in SIZES:
            folder = model(Path(place) / f"{d}-{layers}", d, layers)
            given = {"seq_len": LENGTH, "threads": 1, "sample": 0, "store": "sums", "quiet": True}
            least = []
            for tokens in (asked.tokens, 3 * asked.tokens):
                results = isoscope.measure(str(folder), out=Path(place) / f"run-{d}-{layers}-{tokens}", max_tokens=tokens, **given)
                least.append((results.manifests()[0]["seconds"], results.manifests()[0]["spec"]["tokens"]))
            (few, less), (many, more) = least
            rate = (many - few) / (more - less)  # what does not grow with tokens (loading, metrics) falls out
            at = speed(d)
            predicted = (24 * layers * d**2 + 4 * layers * LENGTH * d + (layers + 2) * d**2) / at
            stored = sum(file["bytes"] for file in results.manifests()[0]["files"].values())
            said = (1e3 * predicted * 1e3, 1e3 * rate * 1e3)
            print(
                f"{d:5} {layers:6} {at / 1e9:8.1f} {said[0]:9.2f} ms/k {said[1]:8.2f} ms/k {rate / predicted:6.2f} {stored / 1e6:10.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
