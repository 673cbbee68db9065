"""What measuring adds to the forward pass of a BERT-base-sized model: hidden states, and hidden states and attention.

Usage: python benchmarks/overhead.py [--repeats 7] [--threads 1 2] [--device cuda]

The model is BERT-base as transformers builds it, at initialisation: time does not depend on the weights. Each repeat runs one batch of
8 × 512 tokens under every setting in turn, so that a busy machine disturbs all of them alike; medians and the range are shown. Of hidden
states the time within hooks is taken; of attention, which is seen in every function of torch, the time of the whole pass against that of
one without taps. On another device than the CPU every setting is a whole pass.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

SETTINGS = {
    "sums and norms": {"second": False, "sample": 0},
    "with second moments": {"second": True, "sample": 0},
    "all, with a sample": {"second": True, "sample": 4096},
}
WHOLE = {
    "hidden and attention": {"taps": ("hidden", "attention"), "sample": 0},
    "the same, with 64 rows": {"taps": ("hidden", "attention"), "sample": 0, "query_rows": 64},
    "the same, with medians": {"taps": ("hidden", "attention"), "sample": 0, "attention_median": True},
}
"""Settings of whole passes, through the engine; histograms of scores are among them."""
ON_A_DEVICE = {"hidden": {"taps": ("hidden",), "sample": 4096}, **WHOLE}


def clocked(run, device: str = "cpu") -> float:
    import torch

    wait = torch.accelerator.synchronize if device != "cpu" else lambda: None
    wait()
    started = time.perf_counter()
    run()
    wait()
    return time.perf_counter() - started


def measure(threads: int, repeats: int, device: str) -> dict[str, list[float]]:
    import numpy as np
    import torch
    from threadpoolctl import threadpool_limits
    from transformers import BertConfig, BertModel

    from isoscope.measuring.module_feeder import ModuleFeeder
    from isoscope.measuring.options import Options
    from isoscope.measuring.single_pass import Batch, Pass
    from isoscope.models.loading.chunk import Positions
    from isoscope.models.loading.family import Stack
    from isoscope.models.tapping.layout import BatchLayout, Rows, Slicer
    from isoscope.models.tapping.reduction import reduce_state
    from isoscope.models.tapping.tap import Tap
    from isoscope.statistics.site_statistics import SiteStatistics

    torch.set_num_threads(threads)
    model = BertModel(BertConfig(), add_pooling_layer=False).eval().to(device)
    by_hooks, whole_passes = (SETTINGS, WHOLE) if device == "cpu" else ({}, ON_A_DEVICE)
    rng = np.random.default_rng(0)
    special = np.zeros(512, dtype=bool)
    special[[0, -1]] = True
    ids = torch.tensor(rng.integers(1000, 30000, (8, 512)), device=device)
    mask = torch.ones_like(ids)
    slicer = Slicer((), 512)
    rows = Rows.of(list(range(8)), list(range(8)), np.ones(8, dtype=bool))
    layouts = BatchLayout(slicer, 0, lambda b: rows, lambda stack, b, t: [Positions(special)] * b)
    layout = layouts.of_states("encoder", 8, 512)
    shares: dict[str, list[float]] = {name: [] for name in (*by_hooks, *whole_passes)}
    passes = {}
    for name, wanted in whole_passes.items():
        feeder = ModuleFeeder(model, "bert", Options(**wanted), None, None)
        feeder.stacks, feeder.slicer, feeder.longest, feeder.channels = {"encoder": Stack(model)}, slicer, 512, "first"
        passes[name] = Pass(feeder, feeder.options)

    def forward():
        model(input_ids=ids, attention_mask=mask)

    batch = Batch(forward, forward, layouts)
    for found in passes.values():
        found.learn(lambda: model(input_ids=ids[:1, :8]))
    sites = {name: {} for name in by_hooks}
    with threadpool_limits(threads), torch.inference_mode():
        for repeat in range(repeats + 2):
            for name, wanted in by_hooks.items():
                found = sites[name]

                def receive(site, tensor, found=found, wanted=wanted):
                    if site not in found:
                        found[site] = SiteStatistics(768, slicer.names, **wanted)
                    reduce_state(found[site], tensor, layout, site, "bert")

                tap = Tap({"encoder": Stack(model)}, receive)
                tap.begin()
                started = time.perf_counter()
                with tap.attach():
                    forward()
                whole = time.perf_counter() - started
                if repeat >= 2:  # the first passes fill caches and the buffers of few points
                    shares[name].append(tap.seconds / (whole - tap.seconds))
            plain = clocked(forward, device)
            for name, found in passes.items():
                whole = clocked(lambda found=found: found.reduce(batch), device)
                if repeat >= 2:
                    shares[name].append(whole / plain - 1)
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one, given.repeats, given.device)))
        return
    print(f"{'threads':>7}  {'setting':<22} {'median':>8}  {'range'}")
    for threads in given.threads:
        command = [sys.executable, __file__, "--one", str(threads), "--repeats", str(given.repeats), "--device", given.device]
        shares = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        for name, found in shares.items():
            print(f"{threads:>7}  {name:<22} {statistics.median(found):>8.2%}  {min(found):.2%} to {max(found):.2%}")


if __name__ == "__main__":
    main()
