"""How much faster a sweep is by two processes and by Ray than by one: the same checkpoints, by turns.

python benchmarks/executors.py [--checkpoints 24] [--repeats 3] [--tokens 8192]

Start-up is aside: each way first measures a few checkpoints that are not counted, and its time is that of the last cells, from the
manifests: from the moment when all processes have finished one cell to the end of the last.
"""

import argparse
import statistics
import tempfile
from datetime import datetime
from pathlib import Path

import isoscope
from isoscope.core.machine import cores

ASKED = {"two processes": 1.6, "Ray": 1.4}


def ways(two: int) -> dict[str, dict[str, object]]:
    return {
        "one process, one thread": {"processes": 1, "threads": 1},
        "one process, two threads": {"processes": 1, "threads": two},
        "two processes": {"processes": two, "threads": 1},
        "Ray": {"executor": "ray", "processes": two, "threads": 1},
    }


def suite(folder: Path, count: int) -> Path:
    """So many checkpoints of a small decoder, each with weights of its own."""
    import torch
    import transformers as t
    from tokenizers import Tokenizer, models, pre_tokenizers

    t.utils.logging.disable_progress_bar()
    letters = {"[UNK]": 0, **{letter: i + 1 for i, letter in enumerate("abcdefghijklmnopqrstuvwxyz .,;'")}}
    tokenizer = Tokenizer(models.WordLevel(letters, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    made = t.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[UNK]", model_max_length=256)
    size = {"hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 4, "intermediate_size": 1024}
    for step in range(count):
        torch.manual_seed(step)
        config = t.GPTNeoXConfig(vocab_size=40, max_position_embeddings=256, bos_token_id=0, eos_token_id=0, **size)
        place = folder / "made" / f"step-{step}"
        t.GPTNeoXForCausalLM(config).save_pretrained(place)
        made.save_pretrained(place)
    return folder / "made"


def seconds(run: Path, side: int) -> float:
    """Seconds a cell, start-up aside: from the end of the cell by which every process has finished one to the end of the last."""
    ends = sorted(datetime.fromisoformat(one["created"]) for one in isoscope.open(run).manifests() if "experiment" not in one["identity"])
    first = side - 1
    return (ends[-1] - ends[first]).total_seconds() / (len(ends) - 1 - first)


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("--checkpoints", type=int, default=24)
    words.add_argument("--repeats", type=int, default=3)
    words.add_argument("--tokens", type=int, default=8192)
    asked = words.parse_args()
    two = min(2, cores())
    found: dict[str, list[float]] = {name: [] for name in ways(two)}
    with tempfile.TemporaryDirectory() as place:
        root = suite(Path(place), asked.checkpoints)
        for repeat in range(asked.repeats):
            for name, way in ways(two).items():
                out = Path(place) / f"{name}-{repeat}"
                given = {"max_tokens": asked.tokens, "sample": 256, "taps": "hidden", "store": "rows", "quiet": True}
                isoscope.sweep(str(root), "embedded", out, **given, **way)
                found[name].append(seconds(out, two if name in ASKED else 1))
                print(f"repeat {repeat + 1}, {name}: {found[name][-1]:.2f} s a cell", flush=True)
    alone = found["one process, one thread"]
    print(f"\n{'way':26} {'s a cell':>9} {'least':>7} {'most':>7} {'times one':>10}")
    for name, own in found.items():
        ratio = statistics.median(one / other for one, other in zip(alone, own, strict=True))
        wanted = f"  (asked for {ASKED[name]})" if name in ASKED else ""
        print(f"{name:26} {statistics.median(own):9.2f} {min(own):7.2f} {max(own):7.2f} {ratio:10.2f}{wanted}")


if __name__ == "__main__":
    main()
