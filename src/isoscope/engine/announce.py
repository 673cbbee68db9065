"""How much memory and disk a cell will take, said before it starts."""

from __future__ import annotations

import contextlib
import ctypes
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from isoscope.core.errors import IsoscopeError
from isoscope.statistics.groups import groups_at
from isoscope.statistics.heads import HEAD_GROUPS


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
        """Bytes in memory at the end: one large slice has a full matrix, the small ones keep their points."""
        matrices = (self.second + self.cosine) * 8 * self.d**2
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
class HeadsPlan:
    """The size of the statistics of the queries or keys of one layer."""

    heads: int
    e: int
    slices: int
    sample: int

    def _sums(self) -> int:
        return 8 * self.heads * self.e * self.slices * 2 * HEAD_GROUPS

    def memory(self) -> int:
        """Bytes in memory; every slice has its matrices."""
        return self._sums() + 8 * self.slices * self.heads * self.e**2 + 2 * self.sample * self.heads * self.e * 4

    def disk(self, keep: str) -> int:
        """Bytes on disk; of a symmetric matrix only half is written."""
        if keep == "rows":
            return 0
        matrices = 4 * self.slices * self.heads * self.e * (self.e + 1)
        return self._sums() + matrices + (self.sample * self.heads * self.e * 4 if keep == "all" else 0)


@dataclass(frozen=True)
class RowsPlan:
    """The size of the statistics of the rows of attention of one layer."""

    size: int

    def memory(self) -> int:
        """Bytes in memory."""
        return self.size

    def disk(self, keep: str) -> int:
        """Bytes on disk."""
        return 0 if keep == "rows" else self.size


Plan = SitePlan | HeadsPlan | RowsPlan


def forget_peak() -> None:
    """Start the system's count of the peak anew, where it can be (on Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


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


def human(size: float) -> str:
    """A size as people say it.

    >>> human(1_530_000_000)
    '1.5 GB'
    """
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit != "GB" else f"{size:.1f} GB"
        size /= 1000
        if unit == "MB" and size < 1000:
            return f"{size:.1f} GB"
    return f"{size:.1f} TB"


def check_disk(folder: Path, needed: int) -> None:
    """Refuse at once what would not fit, instead of failing hours later."""
    place = folder.resolve()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if needed > free:
        raise IsoscopeError(
            f"The run will write {human(needed)} and the disk that holds {folder} has {human(free)} free; keep less with --keep sums or "
            "--keep rows, or fewer --layers."
        )
