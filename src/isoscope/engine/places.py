"""What the rows and columns of an attention are: positions of the state that its block was given, chunks or windows of it, or others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.core.token_slices import BODY, base_slice
from isoscope.models.tap import Layout
from isoscope.statistics.sample import point_hashes

Laid = Callable[[str, int, int], Layout]
"""`laid(stack, b, t)`: what the b × t positions of a state are; the stack `""` has whole maps, one an image."""


class Places:
    """The layouts of one forward pass, found from the layouts of its states."""

    def __init__(self, laid: Laid, stacks: list[str], slices: list[str], seed: int) -> None:
        self.laid, self.stacks, self.seed = laid, stacks, seed
        self.body = next(code for code, name in enumerate(slices) if base_slice(name) == BODY)
        self._offset: dict[Site, int] = {}
        self._spread: dict[tuple[int, int, int], Layout] = {}

    def of(self, site: Site, width: tuple[int, int], queries: tuple[int, int], keys: tuple[int, int]) -> tuple[Layout, Layout]:
        """The layouts of the queries (b, t) and of the keys (b, s) of one call, in a block that was given a state of this width.

        Where a block attends chunk by chunk the chunks follow each other; where it attends in windows each window is a row. Positions
        that are neither those of the block's state nor, across stacks, those of another's are of the body, in no order.
        """
        whole = self.laid(site.stack, *width) if queries[0] == width[0] else None
        start = self._offset.get(site, 0)
        if whole is None:
            if queries[0] * queries[1] != width[0] * width[1]:
                raise IsoscopeError(
                    f"{site.label} attends in {queries[0]} windows of {queries[1]} positions, and its block has {width[0]} × {width[1]}: "
                    "some windows hold padding, which cannot be told; choose a size that windows fit, or measure without attention."
                )
            first = self.spread(width[0], *queries)
        else:
            first = _cut(whole, start, queries[1])
            self._offset[site] = (start + queries[1]) % width[1]
        if site.kind.startswith("cross"):
            return first, self._elsewhere(site.stack, width[0], keys)
        if keys == queries or (keys[0] == width[0] and keys[1] == queries[1]):
            return first, first
        if whole is not None and keys == width:
            return first, whole
        return first, self.spread(width[0], *keys)

    def _elsewhere(self, stack: str, rows: int, keys: tuple[int, int]) -> Layout:
        """The positions of the stack before this one, where there is one."""
        before = self.stacks[: self.stacks.index(stack)]
        return self.laid(before[-1], *keys) if before and keys[0] == rows else self.spread(rows, *keys)

    def spread(self, rows: int, b: int, t: int) -> Layout:
        """b × t positions of the body, b being a multiple of the rows of the batch: so many windows an item, in order."""
        if b % rows:
            raise IsoscopeError(f"Attention over {b} rows cannot be told apart by the {rows} items of a batch; measure without attention.")
        if (rows, b, t) not in self._spread:
            times = b // rows
            whole = self.laid("", rows, 1)
            item = np.repeat(whole.item, times)
            index = (np.tile(np.arange(times), rows)[:, None] * t + np.arange(t)).astype(np.int64)
            hashes = point_hashes(self.seed, np.repeat(item, t), index.ravel()).reshape(b, t)
            last = np.zeros(b, dtype=bool)
            last[times - 1 :: times] = whole.last
            self._spread[rows, b, t] = Layout(
                np.full((b, t), self.body, dtype=np.int16),
                None,
                hashes,
                index,
                item,
                np.repeat(whole.unit, times),
                np.repeat(whole.group, times),
                last,
            )
        return self._spread[rows, b, t]


def _cut(layout: Layout, start: int, length: int) -> Layout:
    """The positions from `start` on; the layout itself where that is all of it."""
    if start == 0 and length == layout.codes.shape[1]:
        return layout
    if start + length > layout.codes.shape[1]:
        raise IsoscopeError(
            f"Attention over {length} positions does not fit the {layout.codes.shape[1]} of its block; measure without attention."
        )
    parts = [part[:, start : start + length] for part in (layout.codes, layout.hashes, layout.index)]
    sinks = None if layout.sink_codes is None else layout.sink_codes[:, start : start + length]
    last = layout.last & (start + length == layout.codes.shape[1])
    return Layout(parts[0], sinks, parts[1], parts[2], layout.item, layout.unit, layout.group, last)
