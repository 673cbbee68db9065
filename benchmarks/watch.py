"""What watching adds to a training loop: every 100 steps, with a probe of one training batch.

Usage: python benchmarks/watch.py [--repeats 7] [--threads 1] [--steps 4]

The model is a BERT of 6 layers × 256 dimensions, 8 heads, that reads 16 × 128 tokens a step; time does not depend on the weights. Each
repeat takes a few training steps and one watched step in turn, so that a busy machine disturbs both alike, and clocks the processor, not
the wall. The share is the time of a watched step over that of 100 training steps; medians and the range are shown. The first look, which
finds the sites and compiles kernels, is shown apart: it happens once.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time


def clocked(run) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started


def measure(threads: int, repeats: int, steps: int, options: dict) -> tuple[float, list[float], list[float]]:
    import torch
    from threadpoolctl import threadpool_limits
    from transformers import BertConfig, BertForMaskedLM

    import isoscope

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    size = {"hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 8, "intermediate_size": 1024}
    model = BertForMaskedLM(BertConfig(vocab_size=8192, **size)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ids = torch.randint(5, 8192, (16, 128))
    batch = {"input_ids": ids, "labels": ids}

    def train_step() -> None:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

    training, watching = [], []
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(threads):
        w = isoscope.watch(model, every=1, data=batch, out=folder, optimizer=optimizer, **options)
        first = clocked(w.__enter__)
        for repeat in range(repeats + 1):
            one = clocked(lambda: [train_step() for _ in range(steps)]) / steps
            look = clocked(w.step)
            if repeat:  # the first steps fill caches
                training.append(one)
                watching.append(look)
        w.close()
    return first, training, watching


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--steps", type=int, default=4)
    given = parser.parse_args()
    settings = {"hidden and attention": {}, "hidden only": {"taps": "hidden"}, "with all that can be kept": {"store": "all"}}
    print(f"{'threads':>7}  {'setting':<26} {'train step':>10} {'watched':>9} {'first':>8}   share of 100 steps")
    for threads in given.threads:
        for name, options in settings.items():
            first, training, watching = measure(threads, given.repeats, given.steps, options)
            shares = [look / (100 * one) for one, look in zip(training, watching, strict=True)]
            times = f"{statistics.median(training):>9.2f}s {statistics.median(watching):>8.2f}s {first:>7.2f}s"
            print(
                f"{threads:>7}  {name:<26} {times}   {statistics.median(shares):.2%} ({min(shares):.2%} to {max(shares):.2%})", flush=True
            )


if __name__ == "__main__":
    main()
