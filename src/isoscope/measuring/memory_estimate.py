"""How much memory and disk a cell will take, estimated before it starts."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isoscope.measuring.options import SAMPLE_UP_TO
from isoscope.models.model_errors import HookGuard
from isoscope.statistics.jackknife_groups import groups_at

if TYPE_CHECKING:
    from torch.nn import Module

COMPILED_MODULE, COMPILED_BYTES = "isoscope.statistics.kernel_fused", 100_000_000
"""The kernel that is compiled with the first batch, and about what the compiler takes."""

FREED_STATES = 30
"""States of a batch that the C library keeps after they were freed, once it has seen a few batches: 10 to 50 were measured."""


@dataclass(frozen=True)
class SitePlan:
    """The size of one site's statistics."""

    d: int
    slices: int
    second: bool
    cosine: bool
    sample: int
    tokens: int | None
    """How many points it will see, if that is known."""

    def _points(self) -> int:
        return self.sample if self.tokens is None else min(self.sample, self.tokens)

    def memory(self) -> int:
        """Bytes in memory at the end: the body has a full matrix, and so has one more slice, special or first tokens."""
        matrices = min(self.slices, 2) * (self.second + self.cosine) * 8 * self.d**2
        if self.tokens is not None and self.tokens <= self.d:
            matrices = (self.second + self.cosine) * 4 * self.d * self.tokens
        buffered = min(2 * self.sample, self.tokens) if self.tokens is not None else 2 * self.sample
        return matrices + 2 * self.slices * groups_at(self.d) * self.d * 8 + buffered * self.d * 4

    def disk(self, keep: str) -> int:
        """Bytes on disk; of a symmetric matrix only half is written."""
        if keep == "rows":
            return 0
        matrices = (self.second + self.cosine) * 4 * self.d * (self.d + 1)
        return matrices + 2 * self.slices * groups_at(self.d) * self.d * 8 + (self._points() * self.d * 4 if keep == "all" else 0)


@dataclass(frozen=True)
class HeldPlan:
    """The size of statistics whose arrays are all there from the start: those of heads, and of rows of attention."""

    arrays: int
    matrices: int = 0
    """Symmetric ones."""
    sample: int = 0

    def memory(self) -> int:
        """Bytes in memory; a sample has room for twice its points."""
        return self.arrays + self.matrices + 2 * self.sample

    def disk(self, keep: str) -> int:
        """Bytes on disk; of a symmetric matrix only half is written."""
        return 0 if keep == "rows" else self.arrays + self.matrices // 2 + (self.sample if keep == "all" else 0)


Plan = SitePlan | HeldPlan


class CallSizes:
    """The bytes that the largest call of a module reads and makes in a forward pass."""

    def __init__(self) -> None:
        self.largest = 0
        self._guard = HookGuard()

    @contextlib.contextmanager
    def of_calls_in(self, model: Module) -> Iterator[None]:
        """Look at the calls of every module of the model within this context."""

        def note(_: Module, args: Any, output: Any) -> None:
            self.largest = max(self.largest, _bytes_of(args) + _bytes_of(output))

        handles = [module.register_forward_hook(self._guard.wrap(note)) for module in model.modules()]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            self._guard.raise_own_error()


def _bytes_of(value: Any) -> int:
    """The bytes of all tensors in an argument or a result."""
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ()
    return sum(_bytes_of(part) for part in parts)


def estimate_peak(plans: list[Plan], batch: int, tokens: int, sample: int) -> int:
    """The peak memory to expect, in bytes, within about 30 %.

    Args:
        plans: of the statistics of every site.
        batch: bytes that a forward pass of the largest batch takes.
        tokens: positions of the largest batch.
        sample: points that are kept of a site.
    """
    widest = max((plan.d for plan in plans if isinstance(plan, SitePlan) and plan.d <= SAMPLE_UP_TO), default=0)
    # The reduction of one state takes, for a moment, shifted rows, their products, and a full sample while it is cut to size.
    cut = 3 * sample + 2 * tokens if sample else 0
    working = 4 * (tokens + cut) * widest + 8 * widest**2
    freed = FREED_STATES * 4 * tokens * widest
    compiled = 0 if COMPILED_MODULE in sys.modules else COMPILED_BYTES
    return resident_memory() + batch + sum(plan.memory() for plan in plans) + working + freed + compiled


def resident_memory() -> int:
    """The memory that this process holds now, in bytes."""
    return _status("VmRSS")


def peak_memory() -> int:
    """The most memory that this process has held since it started, or since `forget_peak`, in bytes."""
    return _status("VmHWM")


def forget_peak() -> None:
    """Start the system's record of the peak anew, where that is possible (on Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _status(entry: str) -> int:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text("ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(entry))
    import resource

    # Other systems tell only the peak.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
