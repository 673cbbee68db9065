"""A plan in lines: what is to be measured, what is done already, and an estimate of time, memory and disk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from isoscope.core.wording import format_bytes, format_duration
from isoscope.measuring.machine import BASE_MEMORY


@dataclass(frozen=True)
class Cost:
    """An estimate of the seconds, the memory per process and the disk that cells take; None if it is not known."""

    seconds: float | None
    memory: int
    disk: int | None

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

    def estimate(self, size: float, weights: int = 0, cells: int = 1) -> Cost:
        """The cost of cells of this size together; if no cell is finished, the memory that a process takes for such weights."""
        if self._memory is None or self._disk is None:
            return Cost(None, BASE_MEMORY + 2 * weights, None)
        return Cost(self._seconds / self._size * size * cells if self._size else None, self._memory, self._disk * cells)


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
    seconds = sum(entry.cost.seconds or 0.0 for entry in entries if entry.cost is not None)
    total = f"{left:,} of {sum(entry.cells for entry in entries):,} cells to measure"
    if remote:
        total += ", as many at a time as the cluster has room for"
    elif count is not None:
        total += f", {count} at a time"
    if seconds and left:
        total += f", about {format_duration(seconds / max(1, min(count or 1, left)))}{'' if count else ' in one process'}"
    return [*lines, total]
