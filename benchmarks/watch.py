"""What watching adds to a training loop, in wall time and in processor time, and whether memory stays level.

Usage: python benchmarks/watch.py [--repeats 7] [--threads 1] [--looks 2000]

Each repeat takes training steps without a watch and the same number with one, in turn, so that a busy machine disturbs both alike. Three
times are compared: the wall, the processor time of the training's own process, and that of the process which computes the numbers as well.
Medians and ranges are shown. `busy` is the processor time of that process over that of the training: below 100 % the training never waits
for it, where each has a core. The first look, which finds the sites and compiles kernels, is shown apart: it happens once.

- tiny: a BERT of 4 layers × 64, looked at every 20 steps: steps of some 20 ms, the hardest case, because a look costs much beside a step.
- small: a BERT of 6 layers × 256, 8 heads, 16 × 128 tokens a step, looked at every 100 steps; its time is that of 5 steps and one look,
  from which the share of 100 steps follows.

At last `--looks` looks at a tiny module, with the memory of both processes after each tenth of them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits
from torch import nn

import isoscope

TICK = os.sysconf("SC_CLK_TCK")
SIZES = {"tiny": (64, 4, 4, 12, 32, 20, 20, 3), "small": (256, 6, 8, 16, 128, 100, 5, 1)}
"""Width, layers, heads, rows, positions; steps from one look to the next, steps taken here, and looks per repeat."""


def process_time(pid: int) -> float:
    """Processor seconds of another process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def resident(pid: int) -> float:
    """Megabytes that a process holds in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def clock(act: Callable[[], object], worker: int) -> tuple[float, float, float]:
    """Wall seconds, processor seconds of this process, and those of both."""
    before = time.perf_counter(), time.process_time(), process_time(worker)
    act()
    wall, own, other = time.perf_counter() - before[0], time.process_time() - before[1], process_time(worker) - before[2]
    return wall, own, own + other


def compare(name: str, threads: int, repeats: int, options: dict) -> None:
    from transformers import BertConfig, BertForMaskedLM

    d, layers, heads, rows, positions, every, steps, looks = SIZES[name]
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    config = BertConfig(vocab_size=4096, hidden_size=d, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * d)
    model = BertForMaskedLM(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ids = torch.randint(5, 4096, (rows, positions))
    batch = {"input_ids": ids, "labels": ids}

    def train(watch: isoscope.watch | None = None) -> None:
        for _ in range(steps * looks):
            optimizer.zero_grad()
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            if watch is not None:
                watch.step(loss=loss)

    train()
    alone, watched = [], []
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(threads):
        started = time.perf_counter()
        watch = isoscope.watch(model, every=steps, data=batch, out=folder, optimizer=optimizer, **options)
        with watch:
            first = time.perf_counter() - started
            worker = watch._process._process.pid
            train(watch)
            for _ in range(repeats):
                watch.results()
                alone.append(clock(train, worker))
                watched.append(clock(lambda: train(watch), worker))
    plain = [statistics.median(times) / (steps * looks) for times in zip(*alone, strict=True)]
    share = steps / every
    ratios = [
        [(b - a) / a * share for a, b in zip(x, y, strict=True)]
        for x, y in zip(zip(*alone, strict=True), zip(*watched, strict=True), strict=True)
    ]
    busy = statistics.median((both - own) / own for _, own, both in watched) * share
    shown = "  ".join(f"{statistics.median(r):7.1%} ({min(r):.1%} to {max(r):.1%})" for r in ratios)
    setting = " ".join(f"{key}={value}" for key, value in options.items()) or "hidden and attention"
    print(f"{name:>6} {threads:>7}  {setting:<22} {plain[1] * 1000:>8.1f} ms {first:>7.2f} s  {shown}  {busy:5.0%}", flush=True)


class Tiny(nn.Module):
    """Two layers, whose looks cost little but what every look costs."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Two steps of a residual stream."""
        for block in self.blocks:
            x = x + block(x)
        return x


def follow_memory(looks: int) -> None:
    print(f"\nMemory over {looks:,} looks, in MB: the training's process and the other one")
    with tempfile.TemporaryDirectory() as folder:
        options = {"taps": "hidden", "sample": 64, "layers": "1"}
        with isoscope.watch(Tiny(), every=1, data=torch.randn(16, 4, 8), out=folder, **options) as watch:
            for look in range(1, looks + 1):
                watch.step(loss=1.0)
                if look % max(1, looks // 10) == 0:
                    watch._take_outcomes(wait=True)
                    print(f"{look:>7,}: {resident(os.getpid()):>7.1f} {resident(watch._process._process.pid):>7.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--sizes", nargs="*", default=list(SIZES))
    parser.add_argument("--looks", type=int, default=2000)
    given = parser.parse_args()
    print(
        "  size threads  setting                      a step   first  added: wall, processor time of the training, of both processes; busy"
    )
    for threads in given.threads:
        for name in given.sizes:
            for options in ({}, {"taps": "hidden"}):
                compare(name, threads, given.repeats, options)
    if given.looks:
        follow_memory(given.looks)


if __name__ == "__main__":
    main()
