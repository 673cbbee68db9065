"""From items to batches: sequences in windows of whole items, sorted by length so that padding costs little."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from typing import Any

import numpy as np

from isoscope.core.slice import BODY, FIRST, SPECIAL
from isoscope.core.source import Source
from isoscope.engine.long_text import enough_pieces
from isoscope.models.chunk import Chunk, Positions
from isoscope.models.tap import Layout
from isoscope.statistics.groups import GROUPS
from isoscope.statistics.sample import item_hash, mix, point_hashes

FEW_ITEMS = 30
"""Below so many items the jackknife is over sequences."""
WINDOW_BATCHES = 8
FREQUENCY_BINS = 4

Encode = Callable[[Any], list[Chunk]]


@dataclass(frozen=True)
class Sequence:
    """One piece of an item, with what the jackknife counts as independent."""

    piece: Chunk
    item: int
    unit: int


@dataclass
class Cursor:
    """How far a stream was read: what a resumed cell starts from."""

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

    def by_sequence(self) -> bool:
        """Whether there are too few items for them to be what is independent; of the whole source, so that shards agree."""
        seen, tokens = 0, 0
        for item in islice(self.source.items(), min(FEW_ITEMS, self.max_items or FEW_ITEMS)):
            seen += 1
            if self.max_tokens is not None:
                tokens += sum(piece.size for piece in enough_pieces(self.encode, item.content, self.max_tokens - tokens))
                if tokens >= self.max_tokens:
                    break
        return seen < FEW_ITEMS

    def items(self) -> Iterator[tuple[str, list[Chunk]]]:
        """The items of this shard from the cursor on. `max_tokens` and `max_items` cut the whole source, before it is divided."""
        i, k = self.shard
        for item in islice(self.source.items(), self.cursor.items, self.max_items):
            if self.max_tokens is not None and self.cursor.tokens >= self.max_tokens:
                return
            mine = self.cursor.items % k == i
            sequences: list[Chunk] = []
            if mine or self.max_tokens is not None:
                needed = None if self.max_tokens is None else self.max_tokens - self.cursor.tokens
                for sequence in enough_pieces(self.encode, item.content, needed):
                    if self.max_tokens is not None and self.cursor.tokens >= self.max_tokens:
                        break
                    self.cursor.tokens += sequence.size
                    sequences.append(sequence)
            self.cursor.items += 1
            if mine and sequences:
                self.cursor.measured_items += 1
                self.cursor.measured_tokens += sum(sequence.size for sequence in sequences)
                yield item.id, sequences

    def windows(self, tokens: int, *, by_sequence: bool) -> Iterator[list[Sequence]]:
        """Whole items, about `tokens` tokens at a time; between two windows the cursor says where to go on."""
        window: list[Sequence] = []
        held = 0
        for item, sequences in self.items():
            hashed = item_hash(item)
            for number, sequence in enumerate(sequences):
                unit = item_hash(f"{item}\0{number}") if by_sequence else hashed
                window.append(Sequence(sequence, hashed, unit))
                held += sequence.batch_cost
            if held >= tokens:
                yield window
                window, held = [], 0
        if window:
            yield window


def batches(window: list[Sequence], tokens: int, *, pads: bool) -> Iterator[list[Sequence]]:
    """The window's sequences from long to short, as many at a time as fit into `tokens` positions, padding included.

    Where a model cannot be padded only inputs of one shape come together.
    """
    ordered = sorted(window, key=lambda sequence: (-sequence.piece.size, sequence.piece.data.shape, sequence.item, sequence.piece.start))
    alike = [list(group) for _, group in groupby(ordered, key=lambda sequence: () if pads else sequence.piece.data.shape)]
    for left in alike:
        while left:
            fit = max(1, tokens // left[0].piece.batch_cost)
            yield left[:fit]
            left = left[fit:]


class Slicer:
    """Which slice each position is in. Names are fixed beforehand, so that shards and checkpoints agree."""

    def __init__(self, split: tuple[str, ...], seq_len: int, frequency: dict[int, int] | None = None) -> None:
        self.split, self.frequency = split, frequency or {}
        last = (seq_len - 1).bit_length()
        positions = [f"position-{_span(i)}" for i in range(last)] if "position" in split else [""]
        frequencies = [f"frequency-{i + 1}" for i in range(FREQUENCY_BINS)] if "frequency" in split else [""]
        self.width = len(positions)
        parts = ["+".join(filter(None, (f, p))) for f in frequencies for p in positions]
        plain = [f"{BODY}:{part}" if part else BODY for part in parts]
        sinks = [f"{BODY}:{'+'.join(filter(None, ('sink', part)))}" for part in parts] if "sink" in split else []
        self.parts = len(parts)
        self.names = [SPECIAL, FIRST, *plain, *sinks]

    def codes(self, positions: Positions) -> np.ndarray:
        """The code of each position of one piece, as an index into `names`."""
        n = len(positions.special)
        part = np.zeros(n, dtype=np.int16)
        if "frequency" in self.split and positions.ids is not None:
            part += np.array([self.frequency.get(int(i), 0) for i in positions.ids], dtype=np.int16) * self.width
        if "position" in self.split:
            part += np.minimum(np.floor(np.log2(np.maximum(np.arange(n), 1))), self.width - 1).astype(np.int16)
        codes = part + 2
        if positions.ordered:
            codes[:1] = 1
        codes[positions.special] = 0
        return codes

    def laid(
        self, batch: list[Sequence], last: np.ndarray, seed: int, positions: Callable[[str, int], list[Positions]]
    ) -> Callable[[str, int, int], Layout]:
        """What the positions of a batch are, at every site; the stack `""` has whole maps, one an image."""

        @functools.cache
        def found(stack: str, b: int, t: int) -> Layout:
            if stack:
                return self.layout(batch, last, seed, positions(stack, t), t)
            # A whole map is one position of the body, and its only slice.
            whole = self.layout(batch, last, seed, [Positions(np.zeros(1, dtype=bool), ordered=False)] * len(batch), 1)
            return replace(whole, codes=np.zeros_like(whole.codes), sink_codes=None)

        return found

    def layout(self, batch: list[Sequence], last: np.ndarray, seed: int, positions: list[Positions], width: int) -> Layout:
        """What the positions of a batch are, at a site of `width` positions."""
        codes = np.full((len(batch), width), -1, dtype=np.int16)
        index = np.zeros((len(batch), width), dtype=np.int64)
        for row, found in enumerate(positions):
            n = len(found.special)
            codes[row, :n] = self.codes(found)
            index[row, :n] = found.start + np.arange(n)
        item = np.array([sequence.item for sequence in batch], dtype=np.uint64)
        unit = np.array([sequence.unit for sequence in batch], dtype=np.uint64)
        hashes = point_hashes(seed, np.repeat(item, width), index.ravel()).reshape(index.shape)
        group = (mix(unit) % np.uint64(GROUPS)).astype(np.int64)
        sinks = np.where(codes >= 2, codes + self.parts, -1).astype(np.int16) if "sink" in self.split else None
        return Layout(codes, sinks, hashes, index, item, unit.view(np.int64), group, last)


def _span(i: int) -> str:
    low, high = 2**i, 2 ** (i + 1) - 1
    return str(low) if low == high else f"{low}-{high}"


def last_parts(batched: list[list[Sequence]]) -> list[np.ndarray]:
    """For each sequence of each batch whether it is the last of its unit to come."""
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
