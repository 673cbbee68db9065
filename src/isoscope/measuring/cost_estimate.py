"""How much time, memory and disk cells will take: in a plan, from cells that are finished; before a cell starts, from its sites."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from isoscope.core.machine import resident_memory
from isoscope.core.wording import format_bytes, format_duration
from isoscope.measuring.options import SAMPLE_UP_TO
from isoscope.models.model_errors import HookGuard
from isoscope.statistics.jackknife_groups import groups_at

if TYPE_CHECKING:
    from torch.nn import Module

BASE_MEMORY = 1 << 30
"""Bytes of a process without a model: libraries, and the statistics of a small one."""
WEIGHT_COPIES = 4
"""A process takes up to this many times the weights: to load and read them, and for statistics of all layers."""
COMPILED_MODULE, COMPILED_BYTES = "isoscope.statistics.kernel_fused", 100_000_000
"""The kernel that is compiled with the first batch, and about the memory that the compiler takes."""

FREED_STATES = 30
"""States of a batch that the C library keeps after they were freed, once it has seen a few batches: 10 to 50 were measured."""


@dataclass(frozen=True)
class Cost:
    """An estimate of the seconds, the memory per process and the disk that cells take; None if it is not known."""

    seconds: float | None
    memory: int
    disk: int | None
    guessed: bool = False
    """Whether the seconds come from sizes, and not from cells that are finished."""

    def __str__(self) -> str:
        disk = "" if self.disk is None else f", {format_bytes(self.disk)} on disk"
        seconds = "" if self.seconds is None else f", {format_duration(self.seconds)}"
        return f"about {format_bytes(self.memory)} of memory per process{disk}{seconds}"


class Costs:
    """Estimates the cost of cells from cells that are finished. Time grows with the `size` of a cell: weights times items."""

    def __init__(self, finished: Iterable[tuple[dict[str, Any], float]]) -> None:
        """`finished`: the manifest and the size of each finished cell."""
        known = [(manifest, size) for manifest, size in finished if "seconds" in manifest]
        self._seconds = sum(float(manifest["seconds"]) for manifest, _ in known)
        self._size = sum(size for _, size in known)
        self._memory = max((int(manifest.get("memory", 0)) for manifest, _ in known), default=None)
        self._disk = max((sum(int(file["bytes"]) for file in manifest["files"].values()) for manifest, _ in known), default=None)

    def estimate(
        self, size: float, weights: int = 0, cells: int = 1, tokens: Callable[[], int | None] = lambda: None, *, attention: bool = False
    ) -> Cost:
        """The cost of cells of this size together; if no cell is finished, a guess from the weights and the number of tokens of each."""
        if self._memory is None or self._disk is None:
            return Cost(guess_seconds(weights, tokens(), cells, attention=attention), BASE_MEMORY + 2 * weights, None, guessed=True)
        return Cost(self._seconds / self._size * size * cells if self._size else None, self._memory, self._disk * cells)


START_SECONDS, CELL_SECONDS = 6.0, 2.0
"""What importing torch takes, and loading a small model and computing its tables."""
PASSES = 4.0
"""The time of a forward pass with its statistics, in that of the products of all weights at the speed of `multiply_speed`.
Attention doubles it."""


def guess_seconds(weights: int, tokens: int | None, cells: int = 1, *, attention: bool = False) -> float | None:
    """A guess before anything is measured, right within a factor of three on a CPU; None if the number of tokens is not known.

    `weights` in bytes and `tokens` are those of each of the cells.

    >>> guess_seconds(92_000_000, None) is None, 8.0 < guess_seconds(92_000_000, 20_000) < 3000.0
    (True, True)
    """
    if tokens is None:
        return None
    return START_SECONDS + cells * (CELL_SECONDS + PASSES * (1 + attention) * 2 * (weights / 4) * tokens / multiply_speed())


@cache
def multiply_speed() -> float:
    """The operations per second of a product of float32 matrices on this machine."""
    matrix = np.ones((768, 768), np.float32)
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        matrix @ matrix
        seconds.append(time.perf_counter() - started)
    return 2 * 768**3 / max(min(seconds), 1e-6)


@dataclass(frozen=True)
class PlanEntry:
    """A model or a suite in a plan, with the cost of those of its cells that are left."""

    text: str
    cells: int
    left: int
    cost: Cost | None = None


def format_plan(entries: list[PlanEntry], count: int | None, *, remote: bool = False) -> list[str]:
    """The plan in lines: one per entry, and a last one with all of them. `count`: how many are measured at a time, if that is known."""
    lines = [entry.text if entry.cost is None else f"{entry.text}; {entry.cost}" for entry in entries]
    left = sum(entry.left for entry in entries)
    costs = [entry.cost for entry in entries if entry.left]
    known = [cost.seconds for cost in costs if cost is not None and cost.seconds is not None]
    seconds = sum(known) if len(known) == len(costs) else None
    total = f"{left:,} of {sum(entry.cells for entry in entries):,} cells to measure"
    if remote:
        total += ", as many at a time as the cluster has room for"
    elif count is not None:
        total += f", {count} at a time"
    if left and seconds is None:
        total += ", time not known before the first is measured (or with --max-tokens)"
    elif left and seconds is not None:
        total += f", about {format_duration(seconds / max(1, min(count or 1, left)))}{'' if count else ' in one process'}"
        if any(cost is not None and cost.guessed for cost in costs):
            total += ", a guess from the sizes of models and sources"
    return [*lines, total]


@dataclass(frozen=True)
class StatisticsSize:
    """The bytes that the statistics of one site take in memory at the end, and on disk."""

    memory: int
    sums: int
    """On disk: all but the sample."""
    sample: int
    """On disk: the sample."""
    d: int = 0
    """The dimension of the points; 0 for heads and rows of attention."""

    @classmethod
    def of_points(cls, d: int, slices: int, matrices: int, sample: int, tokens: int | None) -> StatisticsSize:
        """The size for points of dimension d, with `matrices` second moments per slice; `tokens` is the number of points, if known."""
        groups = 2 * slices * groups_at(d) * d * 8
        # The body has full matrices, and so has one more slice: special or first tokens. Few points are kept as they are, in float32.
        held = 4 * d * tokens if tokens is not None and tokens <= d else min(slices, 2) * 8 * d**2
        drawn, buffered = (size if tokens is None else min(size, tokens) for size in (sample, 2 * sample))
        triangle = 4 * d * (d + 1)  # of a symmetric matrix only half is written
        return cls(matrices * held + groups + 4 * d * buffered, matrices * triangle + groups, 4 * d * drawn, d)

    def disk(self, store: str) -> int:
        """Bytes on disk under `--store`."""
        return {"rows": 0, "sums": self.sums, "all": self.sums + self.sample}[store]


@contextlib.contextmanager
def note_call_sizes(model: Module) -> Iterator[list[int]]:
    """Within this context, note how many bytes each call of a module of the model reads and makes."""
    sizes: list[int] = []
    guard = HookGuard()
    note = guard.wrap(lambda _, args, output: sizes.append(_bytes_of(args) + _bytes_of(output)))
    handles = [module.register_forward_hook(note) for module in model.modules()]
    try:
        yield sizes
    finally:
        for handle in handles:
            handle.remove()
        guard.raise_own_error()


def _bytes_of(value: Any) -> int:
    """The bytes of all tensors in an argument or a result."""
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ()
    return sum(_bytes_of(part) for part in parts)


def estimate_peak(sizes: list[StatisticsSize], batch: int, tokens: int, sample: int) -> int:
    """The peak memory to expect, in bytes, within about 30 %.

    Args:
        sizes: of the statistics of every site.
        batch: bytes that a forward pass of the largest batch takes.
        tokens: positions of the largest batch.
        sample: points that are kept of a site.
    """
    widest = max((size.d for size in sizes if size.d <= SAMPLE_UP_TO), default=0)
    # The reduction of one state takes, for a moment, shifted rows, their products, and a full sample while it is cut to size.
    cut = 3 * sample + 2 * tokens if sample else 0
    working = 4 * (tokens + cut) * widest + 8 * widest**2
    freed = FREED_STATES * 4 * tokens * widest
    compiled = 0 if COMPILED_MODULE in sys.modules else COMPILED_BYTES
    return resident_memory() + batch + sum(size.memory for size in sizes) + working + freed + compiled
