"""How much memory and disk a cell will take, said before it starts."""

from __future__ import annotations

import contextlib
import ctypes
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from isoscope.core.errors import IsoscopeError
from isoscope.core.wording import format_bytes
from isoscope.statistics.groups import groups_at

M_MMAP_THRESHOLD, LARGE = -3, 1 << 17
"""A parameter of the GNU C library's malloc, and from how many bytes on a block is large: every state of a batch should be, since what
is left of smaller ones between pieces in use differs from batch to batch, and the peak would be that of the unluckiest."""
human = format_bytes


@dataclass(frozen=True)
class SitePlan:
    """The size of one site's statistics."""

    d: int
    slices: int
    second: bool
    cosine: bool
    sample: int
    tokens: int | None
    """How many points it will see, where that is known."""

    def _points(self) -> int:
        return self.sample if self.tokens is None else min(self.sample, self.tokens)

    def memory(self) -> int:
        """Bytes in memory at the end: the body has a full matrix, and so has one slice beside it, special or first tokens."""
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


def forget_peak() -> None:
    """Start the system's count of the peak anew, where it can be (on Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def steady() -> None:
    """Have the C library return large blocks as soon as they are freed: left to itself it learns to keep them, and the peak creeps up."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE)


def give_back() -> None:
    """Have the C library return what it holds of freed memory: between windows, so that a run's peak does not creep up."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def peak_memory() -> int:
    """The most memory this process has held, in bytes, since the count began."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/self/status").read_text("ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def check_disk(folder: Path, needed: int) -> None:
    """Refuse at once what would not fit, instead of failing hours later."""
    place = folder.resolve()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if needed > free:
        raise IsoscopeError(
            f"The run will write {human(needed)} and the disk that holds {folder} has {human(free)} free; keep less with --store sums or "
            "--store rows, or fewer --layers."
        )
