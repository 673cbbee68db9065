"""Rows of attention: how much faster than with softmax written out, in how much memory, and as a share of a BERT-base layer.

Usage: python benchmarks/attention.py [--repeats 9] [--threads 1 2]

Queries and keys are 4 × 12 × 512 × 64, as a layer of BERT-base has them. The plain way holds all scores and all probabilities; it takes the
median by whichever of torch and numpy is quicker, and the entropy as −Σ p ln p. Every repeat runs all settings in turn, so that a busy
machine disturbs all of them alike; medians and the range of the ratios are shown. Memory is the peak of the process during one call, less
what it held before, in a process of its own; the scores of one head are 1 MB.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

B, H, L, E = 4, 12, 512, 64
HIDDEN = H * E
PLAIN = {"torch": "plain, torch.median", "numpy": "plain, numpy.median"}
LAYER = "a layer of BERT-base"
ROWS, EVERY = "rows", "rows with the median"


def call():
    import torch

    from isoscope.core.site import Site
    from isoscope.models.tapping.attention_call import AttentionCall

    torch.manual_seed(0)
    query, key = (torch.randn(B, L, H, E).transpose(1, 2) for _ in range(2))
    return AttentionCall(Site("encoder", "attention", 1), query, key, E**-0.5, None, None, None, query, key)


def plain(query, key, median):
    """What a user writes: everything that is held is B × H × L × L."""
    import numpy as np
    import torch

    p = torch.softmax(query @ key.transpose(2, 3) * E**-0.5, -1)
    entropy = -(p * p.log()).sum(-1)
    middle = p.median(-1).values if median == "torch" else np.median(p.numpy(), -1)
    return entropy, p.amax(-1), middle, p.amin(-1)


def settings():
    """What is timed, by name."""
    import numpy as np
    import torch
    from transformers import BertConfig
    from transformers.models.bert.modeling_bert import BertLayer

    from isoscope.models.tapping.attention_rows import attention_rows
    from isoscope.models.tapping.layout import Layout
    from isoscope.models.tapping.reduction import reduce_heads, reduce_rows
    from isoscope.statistics.attention_statistics import AttentionStatistics
    from isoscope.statistics.head_statistics import Heads
    from isoscope.statistics.sample import point_hashes

    seen = call()
    names = ["special", "first", "body"]
    codes = np.full((B, L), 2, dtype=np.int16)
    codes[:, [0, -1]] = 0
    item, index = np.arange(B).astype(np.uint64), np.tile(np.arange(L), (B, 1))
    hashes = point_hashes(0, np.repeat(item, L), index.ravel()).reshape(B, L)
    layout = Layout(codes, None, hashes, index, item, item.astype(np.int64), np.arange(B), np.ones(B, dtype=bool))
    held = AttentionStatistics(H, E, names)
    heads = [Heads(H, E, names) for _ in range(2)]
    few = torch.arange(0, L, L // 64)

    def vectors():
        for one, tensor in zip(heads, (seen.query, seen.key), strict=True):
            reduce_heads(one, tensor, layout, seen.site, "made")

    def all_kept(rows):
        at = None if rows is None else rows.numpy()
        reduce_rows(held, attention_rows(seen, rows=rows), layout, seen.site, "made", rows=at)
        vectors()

    config = BertConfig()
    config._attn_implementation = "sdpa"
    layer, state = BertLayer(config).eval(), torch.randn(B, L, HIDDEN)
    return {
        EVERY: lambda: attention_rows(seen, median=True),
        **{name: lambda kind=kind: plain(seen.query, seen.key, kind) for kind, name in PLAIN.items()},
        LAYER: lambda: layer(state),
        ROWS: lambda: attention_rows(seen),
        "queries and keys": vectors,
        "rows, queries and keys": lambda: all_kept(None),
        "64 rows, queries and keys": lambda: all_kept(few),
    }


def timed(threads: int, repeats: int) -> dict[str, list[float]]:
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(threads)
    timed_: dict[str, list[float]] = {}
    with threadpool_limits(threads), torch.inference_mode():
        named = settings()
        for repeat in range(repeats + 2):
            for name, run in named.items():
                started = time.perf_counter()
                run()
                if repeat >= 2:  # the first fill caches, compile, and hold few points
                    timed_.setdefault(name, []).append(time.perf_counter() - started)
    return timed_


def memory(median: bool) -> float:
    """Megabytes that one call needs at its peak, beyond its inputs; its results are among them."""
    import torch

    from isoscope.models.tapping.attention_rows import attention_rows

    torch.set_num_threads(2)
    seen = call()
    attention_rows(seen, rows=torch.arange(8), median=median)

    def status(name: str) -> float:
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
        return float(line.split()[1]) / 1024

    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = status("VmRSS")
    attention_rows(seen, median=median)
    return status("VmHWM") - before


def ratio(name: str, over: list[float], under: list[float], form: str) -> None:
    parts = [a / b for a, b in zip(over, under, strict=True)]
    print(f"  {name:<46} {format(statistics.median(parts), form):>7}  {format(min(parts), form)} to {format(max(parts), form)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        kind, value = given.child.split(":")
        print(json.dumps(timed(int(value), given.repeats) if kind == "time" else memory(value == "median")))
        return

    def child(what: str):
        command = [sys.executable, __file__, "--child", what, "--repeats", str(given.repeats)]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])

    for threads in given.threads:
        found = child(f"time:{threads}")
        quick = min(PLAIN.values(), key=lambda name: statistics.median(found[name]))
        print(f"{threads} {'thread' if threads == 1 else 'threads'}; {quick} is the quicker plain way")
        ratio("times faster: entropy, largest, median, smallest", found[quick], found[EVERY], ".1f")
        for name in (ROWS, "queries and keys", "rows, queries and keys", "64 rows, queries and keys"):
            ratio(f"share of a layer: {name}", found[name], found[LAYER], ".1%")
    print(f"memory at the peak of a call: {child('memory:plain'):.1f} MB, with the median {child('memory:median'):.1f} MB")


if __name__ == "__main__":
    main()
