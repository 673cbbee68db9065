"""What is to be measured, what of it is there already, and what it will take: said before anything is loaded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from isoscope.core.errors import IsoscopeError
from isoscope.core.source import Source
from isoscope.core.wording import format_duration
from isoscope.engine.announce import human
from isoscope.engine.executor import Engine
from isoscope.engine.measure import Given, cell_identity
from isoscope.engine.options import Options
from isoscope.models.reference import ModelReference, weight
from isoscope.store.manifest import key_of
from isoscope.store.run import Run

ROOM = 1 << 30
"""Bytes of a process without a model."""
spoken = format_duration


@dataclass(frozen=True)
class Planned:
    """One model and its source: one cell, in as many shards as it is measured in."""

    reference: ModelReference
    source: Source
    key: str
    shards: int
    items: int | None
    done: bool

    @property
    def size(self) -> float:
        """What its cost goes with, so far as it is known before: weights times items."""
        return float(weight(self.reference)) * (self.items or 1)


@dataclass(frozen=True)
class Cost:
    """Seconds, memory and disk of one cell."""

    seconds: float | None
    memory: int
    disk: int | None


def plan(run: Run, references: Iterable[ModelReference], given: Given, options: Options, engine: Engine) -> list[Planned]:
    """Each model once, in the order given; a single one is divided where several processes are asked for it."""
    models = list(references)
    if engine.split_into is not None and options.shard != (0, 1):
        raise IsoscopeError("--shard measures one part and --split-into all of them; name one of the two.")
    sources = [given.for_model(reference, options) for reference in models]
    keys = [key_of(cell_identity(one, source, options)) for one, source in zip(models, sources, strict=True)]
    done = [run.cell(key, options.store) is not None for key in keys]
    left = len({key for key, there in zip(keys, done, strict=True) if not there})
    divided = (engine.processes or 1) if left == 1 and options.shard == (0, 1) and "-" not in given.specs else 1
    found = []
    for reference, source, key, there in zip(models, sources, keys, done, strict=True):
        items = items_of(source, options)
        shards = min(engine.split_into or divided, items or engine.split_into or divided)
        found.append(Planned(reference, source, key, shards, items, there))
    return list({one.key: one for one in found}.values())


def items_of(source: Source, options: Options) -> int | None:
    """How many items there are, where counting them is cheap."""
    counted: int | None = getattr(source, "count", lambda: None)()
    return options.max_items if counted is None else min(counted, options.max_items or counted)


class Costs:
    """What cells have taken, as the finished ones say; the next are reckoned from those, by weights times items."""

    def __init__(self) -> None:
        self._seconds = self._size = 0.0
        self._memory = self._disk = self._seen = 0

    def see(self, manifest: dict[str, Any], size: float) -> None:
        """Count a finished cell in."""
        if "seconds" not in manifest:
            return
        self._seconds, self._size, self._seen = self._seconds + float(manifest["seconds"]), self._size + size, self._seen + 1
        self._memory = max(self._memory, int(manifest.get("memory", 0)))
        self._disk = max(self._disk, sum(int(file["bytes"]) for file in manifest["files"].values()))

    def of(self, size: float, weights: int) -> Cost:
        """The cost of a cell of this size; where none is finished, the memory that a process takes for such weights."""
        if not self._seen:
            return Cost(None, ROOM + 2 * weights, None)
        return Cost(self._seconds / self._size * size if self._size else None, self._memory, self._disk)


def say(planned: list[Planned], run: Run, count: int, *, far: bool = False) -> list[str]:
    """The plan in lines: each model, its shards, items and bytes; then all together, with the time once some cell has told it."""
    costs = Costs()
    for one in planned:
        if one.done and (cell := run.cell(one.key)) is not None:
            costs.see(cell.manifest, one.size)
    lines, seconds, cells = [], 0.0, 0
    for one in planned:
        weights = weight(one.reference)
        cost = costs.of(one.size, weights)
        items = "items not counted" if one.items is None else f"{one.items:,} items"
        shards = "1 cell" if one.shards == 1 else f"{one.shards} shards"
        state = "measured already" if one.done else f"about {human(cost.memory)} of memory a process{_more(cost)}"
        lines.append(f"{one.reference.name}: {shards} of {one.source.name}, {items}, {human(weights)} of weights; {state}")
        if not one.done:
            seconds, cells = seconds + (cost.seconds or 0.0), cells + one.shards
    side = "as many at a time as the cluster has room for" if far else f"{count} at a time"
    total = f"{cells} of {sum(one.shards for one in planned)} cells to measure, {side}"
    return [*lines, total + (f", about {spoken(seconds / max(1, min(count, cells)))}" if seconds and cells else "")]


def _more(cost: Cost) -> str:
    disk = "" if cost.disk is None else f", {human(cost.disk)} on disk"
    return disk + ("" if cost.seconds is None else f", {spoken(cost.seconds)}")
