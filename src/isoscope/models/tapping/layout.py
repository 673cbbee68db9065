"""The layout of a batch: which position of a state, a map or an attention is which token of which item.

Everything about positions is built here and nowhere else: slices, hashes for the sample, groups for the jackknife, padding, the positions
of windows and chunks that an attention computes with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import BODY, FIRST, SPECIAL, Site
from isoscope.models.loading.chunk import Positions
from isoscope.statistics.jackknife_groups import GROUPS
from isoscope.statistics.sample import mix, point_hashes

SINK = 10.0
"""A body token is a sink if its norm exceeds this many times the median norm of its sequence."""
FREQUENCY_BINS = 4
PADDING = -1


@dataclass
class Layout:
    """The positions of one tensor: (b, t) arrays of slice codes (−1 for padding), hashes and indices; (b,) arrays about their rows."""

    codes: np.ndarray
    sink_codes: np.ndarray | None  # the code of each position if it is a sink
    hashes: np.ndarray
    index: np.ndarray
    item: np.ndarray  # uint64, the hash of each row's item
    unit: np.ndarray  # int64, what the jackknife counts as independent
    group: np.ndarray
    last: np.ndarray  # whether a row is the last of its unit
    _slices: list[tuple[int, np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list, init=False, repr=False)

    def slices(self) -> list[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
        """(code, mask, flat positions, all other positions) of every slice in the batch."""
        if not self._slices:
            for code in (int(code) for code in np.unique(self.codes) if code >= 0):
                mask = self.codes == code
                self._slices.append((code, mask, np.flatnonzero(mask), np.flatnonzero(~mask)))
        return self._slices

    def with_sinks(self, norms: np.ndarray) -> Layout:
        """The same positions with body tokens of enormous norm in a slice of their own; `norms` (b, t) are those of one site."""
        if self.sink_codes is None:
            return self
        counted = np.where(self.codes >= 0, norms, np.nan)
        median = np.nanmedian(counted, axis=1, keepdims=True)
        codes = np.where((self.sink_codes >= 0) & (norms > SINK * median), self.sink_codes, self.codes)
        return replace(self, codes=codes, sink_codes=None)

    def cut_columns(self, start: int, length: int) -> Layout:
        """The positions from `start` on, `length` of each row; the layout itself if these are all."""
        width = self.codes.shape[1]
        if start == 0 and length == width:
            return self
        if start + length > width:
            raise IsoscopeError(f"Attention over {length} positions does not fit the {width} of its block; measure without attention.")
        at = slice(start, start + length)
        sinks = None if self.sink_codes is None else self.sink_codes[:, at]
        # A unit ends with the last of its chunks, not with each.
        last = self.last & (start + length == width)
        codes, hashes, index = self.codes[:, at], self.hashes[:, at], self.index[:, at]
        return replace(self, codes=codes, sink_codes=sinks, hashes=hashes, index=index, last=last)

    def moved_to(self, mask: np.ndarray) -> Layout:
        """The same positions where the mask (b, t) is True, wherever the padding is, instead of at the front of their rows."""
        front = np.arange(mask.shape[1]) < mask.sum(1)[:, None]
        codes, hashes, index = np.full_like(self.codes, PADDING), np.zeros_like(self.hashes), np.zeros_like(self.index)
        codes[mask], hashes[mask], index[mask] = self.codes[front], self.hashes[front], self.index[front]
        return replace(self, codes=codes, hashes=hashes, index=index)


class Slicer:
    """Which slice each position is in. Names are fixed beforehand, so that shards and checkpoints agree."""

    def __init__(self, split: tuple[str, ...], seq_len: int, frequency: dict[int, int] | None = None) -> None:
        self.split, self.frequency = split, frequency or {}
        last = (seq_len - 1).bit_length()
        positions = [f"position-{_span_name(i)}" for i in range(last)] if "position" in split else [""]
        frequencies = [f"frequency-{i + 1}" for i in range(FREQUENCY_BINS)] if "frequency" in split else [""]
        self.width = len(positions)
        parts = ["+".join(filter(None, (f, p))) for f in frequencies for p in positions]
        plain = [f"{BODY}:{part}" if part else BODY for part in parts]
        sinks = [f"{BODY}:{'+'.join(filter(None, ('sink', part)))}" for part in parts] if "sink" in split else []
        self.parts = len(parts)
        self.names = [SPECIAL, FIRST, *plain, *sinks]
        self.body = 2
        """The code of the first slice of the body."""

    def codes(self, positions: Positions) -> np.ndarray:
        """The code of each position of one row, as an index into `names`."""
        n = len(positions.special)
        part = np.zeros(n, dtype=np.int16)
        if "frequency" in self.split and positions.ids is not None:
            part += np.array([self.frequency.get(int(i), 0) for i in positions.ids], dtype=np.int16) * self.width
        if "position" in self.split:
            part += np.minimum(np.floor(np.log2(np.maximum(np.arange(n), 1))), self.width - 1).astype(np.int16)
        codes = part + self.body
        if positions.ordered:
            codes[:1] = 1
        codes[positions.special] = 0
        return codes

    def sink_codes(self, codes: np.ndarray) -> np.ndarray | None:
        """The code that each position has if it is a sink, −1 outside the body; None if sinks are not split off."""
        if "sink" not in self.split:
            return None
        return np.where(codes >= self.body, codes + self.parts, PADDING).astype(np.int16)


@dataclass(frozen=True)
class Rows:
    """The rows of a batch: (b,) hashes of the item and of the independent unit of each, and whether it is the last of unit and item."""

    item: np.ndarray
    unit: np.ndarray
    last: np.ndarray
    ends_item: np.ndarray

    @classmethod
    def of(cls, items: list[int], units: list[int], last: np.ndarray, ends_item: np.ndarray | None = None) -> Rows:
        """Rows from the hashes of their items and units; by default an item ends with its unit."""
        return cls(np.array(items, dtype=np.uint64), np.array(units, dtype=np.uint64), last, last if ends_item is None else ends_item)


class BatchLayout:
    """The layouts of every tensor of one forward pass.

    Args:
        slicer: names the slices.
        seed: chooses the sample.
        rows: `rows(b)` are the rows of a batch of b; a reader knows them beforehand, of a module only the states show how many there are.
        positions: `positions(stack, b, t)` are the positions that count of each row, at a site of t positions.
        mask: (b, t) where those positions lie, if not at the front of their rows.
    """

    def __init__(
        self,
        slicer: Slicer,
        seed: int,
        rows: Callable[[int], Rows],
        positions: Callable[[str, int, int], list[Positions]],
        mask: np.ndarray | None = None,
    ) -> None:
        self.slicer, self.seed, self.rows, self.positions, self.mask = slicer, seed, rows, positions, mask
        self.row_count = 0
        """The most rows that any state had."""
        self._states: dict[tuple[str, int, int], Layout] = {}
        self._maps: dict[int, Layout] = {}
        self._windows: dict[tuple[int, int, int], Layout] = {}
        self._cuts: dict[tuple[str, int, int, int], Layout] = {}
        self._chunk: dict[Site, int] = {}

    def of_states(self, stack: str, b: int, t: int) -> Layout:
        """The layout of a state of b × t positions."""
        if (stack, b, t) not in self._states:
            layout = self._build(self.rows(b), self.positions(stack, b, t), t)
            self._states[stack, b, t] = layout if self.mask is None else layout.moved_to(self.mask)
            self.row_count = max(self.row_count, b)
        return self._states[stack, b, t]

    def of_maps(self, b: int) -> Layout:
        """The layout of b whole maps: each is one position, in the only slice of its site."""
        if b not in self._maps:
            rows = self.rows(b)
            layout = self._build(rows, [Positions(np.zeros(1, dtype=bool), ordered=False)] * len(rows.item), 1)
            self._maps[b] = replace(layout, codes=np.zeros_like(layout.codes), sink_codes=None)
            self.row_count = max(self.row_count, b)
        return self._maps[b]

    def of_items(self, items: np.ndarray) -> Layout:
        """The layout of one vector for each of these items, which are independent of each other."""
        rows = Rows(items, items, *[np.ones(len(items), dtype=bool)] * 2)
        layout = self._build(rows, [Positions(np.zeros(1, dtype=bool), ordered=False)] * len(items), 1)
        return replace(layout, codes=np.zeros_like(layout.codes), sink_codes=None)

    def of_attention(
        self, site: Site, stacks: list[str], block: tuple[int, int], queries: tuple[int, int], keys: tuple[int, int]
    ) -> tuple[Layout, Layout]:
        """The layouts of the queries (b, t) and of the keys (b, s) of one call, in a block that was given a state of shape `block`.

        Args:
            site: the attention.
            stacks: the stacks of the model in order: a decoder attends across to the one before it.
            block: rows and positions of the state that the block was given.
            queries: rows and positions of the queries.
            keys: rows and positions of the keys.

        A block that attends chunk by chunk makes one call per chunk, in order; one that attends in windows has one row per window.
        Positions that belong neither to the block's state nor, across stacks, to another's are of the body, in no order.
        """
        whole = self.of_states(site.stack, *block) if queries[0] == block[0] else None
        if whole is None:
            if queries[0] * queries[1] != block[0] * block[1]:
                raise IsoscopeError(
                    f"{site.label} attends in {queries[0]} windows of {queries[1]} positions, and its block has {block[0]} × {block[1]}: "
                    "some windows hold padding, which cannot be told; choose a size that windows fit, or measure without attention."
                )
            of_queries = self.of_windows(block[0], *queries)
        else:
            start = self._chunk.get(site, 0)
            # The same object for every layer: what is made of a layout is made once.
            cut = site.stack, block[0], start, queries[1]
            if cut not in self._cuts:
                self._cuts[cut] = whole.cut_columns(start, queries[1])
            of_queries = self._cuts[cut]
            self._chunk[site] = (start + queries[1]) % block[1]
        if site.kind.startswith("cross"):
            before = stacks[: stacks.index(site.stack)]
            in_stack = bool(before) and keys[0] == block[0]
            return of_queries, self.of_states(before[-1], *keys) if in_stack else self.of_windows(block[0], *keys)
        if keys == queries or (keys[0] == block[0] and keys[1] == queries[1]):
            return of_queries, of_queries
        if whole is not None and keys == block:
            return of_queries, whole
        return of_queries, self.of_windows(block[0], *keys)

    def of_windows(self, rows: int, b: int, t: int) -> Layout:
        """The layout of b windows of t positions of the body; b is a multiple of the rows, and the windows of an item are in order."""
        if b % rows:
            raise IsoscopeError(f"Attention over {b} rows cannot be told apart by the {rows} items of a batch; measure without attention.")
        if (rows, b, t) not in self._windows:
            times = b // rows
            images = self.of_maps(rows)
            item = np.repeat(images.item, times)
            index = (np.tile(np.arange(times), rows)[:, None] * t + np.arange(t)).astype(np.int64)
            last = np.zeros(b, dtype=bool)
            last[times - 1 :: times] = images.last
            self._windows[rows, b, t] = Layout(
                np.full((b, t), self.slicer.body, dtype=np.int16),
                None,
                point_hashes(self.seed, np.repeat(item, t), index.ravel()).reshape(b, t),
                index,
                item,
                np.repeat(images.unit, times),
                np.repeat(images.group, times),
                last,
            )
        return self._windows[rows, b, t]

    def _build(self, rows: Rows, positions: list[Positions], width: int) -> Layout:
        """A layout of `width` columns, each row's positions at its front."""
        codes = np.full((len(rows.item), width), PADDING, dtype=np.int16)
        index = np.zeros((len(rows.item), width), dtype=np.int64)
        for row, of_row in enumerate(positions):
            n = len(of_row.special)
            codes[row, :n] = self.slicer.codes(of_row)
            index[row, :n] = of_row.start + np.arange(n)
        hashes = point_hashes(self.seed, np.repeat(rows.item, width), index.ravel()).reshape(index.shape)
        group = (mix(rows.unit) % np.uint64(GROUPS)).astype(np.int64)
        return Layout(codes, self.slicer.sink_codes(codes), hashes, index, rows.item, rows.unit.view(np.int64), group, rows.last)


def _span_name(i: int) -> str:
    low, high = 2**i, 2 ** (i + 1) - 1
    return str(low) if low == high else f"{low}-{high}"
