"""From items to batches: sequences in windows of whole items, sorted by length so that padding costs little."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any

import numpy as np

from isoscope.core.source import Source
from isoscope.measuring.long_text import enough_pieces
from isoscope.models.loading.chunk import Chunk
from isoscope.models.tapping.layout import FREQUENCY_BINS
from isoscope.statistics.sample import item_hash

FEW_ITEMS = 30
"""With fewer items than this, the jackknife is over sequences."""
WINDOW_BATCHES = 8
"""Batches of text that are read at a time, so that sequences of about equal length can be put together."""

Encode = Callable[[Any], list[Chunk]]


@dataclass(frozen=True)
class Sequence:
    """One piece of an item; `unit` is the hash of what the jackknife counts as independent."""

    piece: Chunk
    item: int
    unit: int


@dataclass
class Cursor:
    """How far a stream was read; a resumed cell starts from there."""

    items: int = 0
    tokens: int = 0
    measured_items: int = 0
    measured_tokens: int = 0


@dataclass
class Stream:
    """The sequences of one shard of a source."""

    source: Source
    encode: Encode
    max_tokens: int | None
    shard: tuple[int, int] = (0, 1)
    max_items: int | None = None
    cursor: Cursor = field(default_factory=Cursor)

    def has_few_items(self) -> bool:
        """Whether the whole source, not only this shard, has too few items for a jackknife over items."""
        count, tokens = 0, 0
        for item in islice(self.source.items(), min(FEW_ITEMS, self.max_items or FEW_ITEMS)):
            count += 1
            if self.max_tokens is not None:
                tokens += sum(piece.size for piece in enough_pieces(self.encode, item.content, self.max_tokens - tokens))
                if tokens >= self.max_tokens:
                    break
        return count < FEW_ITEMS

    def items(self) -> Iterator[tuple[str, list[Chunk]]]:
        """The items of this shard from the cursor on. `max_tokens` and `max_items` cut the whole source, before it is divided."""
        i, k = self.shard
        for item in islice(self.source.items(), self.cursor.items, self.max_items):
            if self.max_tokens is not None and self.cursor.tokens >= self.max_tokens:
                return
            in_shard = self.cursor.items % k == i
            pieces: list[Chunk] = []
            # Items of other shards are tokenised only to count their tokens towards `max_tokens`.
            if in_shard or self.max_tokens is not None:
                needed = None if self.max_tokens is None else self.max_tokens - self.cursor.tokens
                for piece in enough_pieces(self.encode, item.content, needed):
                    if self.max_tokens is not None and self.cursor.tokens >= self.max_tokens:
                        break
                    self.cursor.tokens += piece.size
                    pieces.append(piece)
            self.cursor.items += 1
            if in_shard and pieces:
                self.cursor.measured_items += 1
                self.cursor.measured_tokens += sum(piece.size for piece in pieces)
                yield item.id, pieces

    def windows(self, tokens: int, *, by_sequence: bool) -> Iterator[list[Sequence]]:
        """Whole items, about `tokens` tokens at a time; between two windows the cursor is at the end of the first."""
        window: list[Sequence] = []
        held = 0
        for item, pieces in self.items():
            hashed = item_hash(item)
            for number, piece in enumerate(pieces):
                unit = item_hash(f"{item}\0{number}") if by_sequence else hashed
                window.append(Sequence(piece, hashed, unit))
                held += piece.batch_cost
            if held >= tokens:
                yield window
                window, held = [], 0
        if window:
            yield window


def make_batches(window: list[Sequence], tokens: int, *, pads: bool) -> Iterator[list[Sequence]]:
    """The window's sequences from long to short, as many at a time as fit into `tokens` positions, padding included.

    If a model cannot be padded, only inputs of one shape share a batch.
    """
    ordered = sorted(window, key=lambda sequence: (-sequence.piece.size, sequence.piece.data.shape, sequence.item, sequence.piece.start))
    for _, group in groupby(ordered, key=lambda sequence: () if pads else sequence.piece.data.shape):
        left = list(group)
        while left:
            count = max(1, tokens // left[0].piece.batch_cost)
            yield left[:count]
            left = left[count:]


def mark_last_parts(batched: list[list[Sequence]]) -> list[np.ndarray]:
    """For each batch, which of its sequences (b,) are the last of their unit."""
    left = Counter(sequence.unit for batch in batched for sequence in batch)
    flags = []
    for batch in batched:
        row = np.zeros(len(batch), dtype=bool)
        for i, sequence in enumerate(batch):
            left[sequence.unit] -= 1
            row[i] = left[sequence.unit] == 0
        flags.append(row)
    return flags


def frequency_bins(stream: Stream) -> dict[int, int]:
    """Each token's bin, from the rarest quarter of all occurrences (0) to the most frequent (3), over the whole source."""
    whole = Stream(stream.source, stream.encode, stream.max_tokens, max_items=stream.max_items)
    counts: Counter[int] = Counter()
    for read in whole.items():
        for sequence in read[1]:
            plain = sequence.data if sequence.special is None else sequence.data[~sequence.special]
            counts.update(int(i) for i in plain)
    order = sorted(counts, key=lambda token: (counts[token], token))
    mass = np.cumsum([counts[token] for token in order])
    return {
        token: min(int(FREQUENCY_BINS * (m - counts[token] / 2) / mass[-1]), FREQUENCY_BINS - 1)
        for token, m in zip(order, mass, strict=True)
    }
