"""From items to batches: sequences in windows of whole items, sorted by length so that padding costs little.

Only the beginning of a long text is tokenised, if that gives the same tokens as the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice, takewhile
from typing import Any

import numpy as np

from isoscope.core.machine import check_room
from isoscope.core.source import Source, part_of
from isoscope.models.loading.chunk import Chunk
from isoscope.models.tapping.layout import FREQUENCY_BINS
from isoscope.statistics.sample import item_hash

FEW_ITEMS = 30
"""With fewer items than this, the jackknife is over sequences."""
WINDOW_BATCHES = 8
"""Batches of text that are read at a time, so that sequences of about equal length can be put together."""
BEGINNING = 1 << 16
"""Characters of a text that are always tokenised. Shorter texts are never cut."""
PER_TOKEN = 16
"""Characters per token that is needed. Words and spaces take about five; if this is too few, more are tried."""
FREQUENCY_TOKENS = 1 << 22
"""Tokens from the beginning of a source that are counted to tell rare tokens from frequent ones."""
TOKENISING = 200
"""Bytes of memory per character while a text is tokenised: tokens, masks and offsets."""

Encode = Callable[[Any], list[Chunk]]


@dataclass(frozen=True)
class Sequence:
    """One piece of an item; `unit` is the hash of the item or piece that the jackknife counts as independent."""

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

    def __post_init__(self) -> None:
        limited = self.max_tokens is not None or self.max_items is not None
        part = part_of(self.source, self.shard, limited=limited)
        self.content: Source = self.source if part is None else part
        """What is read: the source, or a part of it that holds the items of this shard and no others."""
        self._place = self.shard if part is None else (0, 1)

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
        i, k = self._place
        for item in islice(self.content.items(), self.cursor.items, self.max_items):
            if self.max_tokens is not None and self.cursor.tokens >= self.max_tokens:
                return
            # Items are dealt out in turn, not in runs: sources are often sorted, and shards should take about equally long.
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
            # Counted once it is read to its end: a resumed stream starts at a whole item.
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
    """Yield the window's sequences from long to short, in batches that fit into `tokens` positions, padding included.

    If a model cannot be padded, only inputs of one shape share a batch.
    """
    # Item and start break ties, so that batches do not depend on the order in which equally long sequences were read.
    ordered = sorted(window, key=lambda sequence: (-sequence.piece.size, sequence.piece.data.shape, sequence.item, sequence.piece.start))
    for _, group in groupby(ordered, key=lambda sequence: () if pads else sequence.piece.data.shape):
        left = list(group)
        while left:
            count = max(1, tokens // left[0].piece.batch_cost)
            yield left[:count]
            left = left[count:]


def mark_last_parts(batched: list[list[Sequence]], whole: Callable[[Sequence], int] = lambda sequence: sequence.unit) -> list[np.ndarray]:
    """For each batch, which of its sequences (b,) are the last of their unit, or of another `whole`."""
    # Sorting by length tears items apart, and the sums of a unit are complete only with its last part.
    left = Counter(whole(sequence) for batch in batched for sequence in batch)
    flags = []
    for batch in batched:
        row = np.zeros(len(batch), dtype=bool)
        for i, sequence in enumerate(batch):
            left[whole(sequence)] -= 1
            row[i] = left[whole(sequence)] == 0
        flags.append(row)
    return flags


def frequency_bins(stream: Stream) -> dict[int, int]:
    """Each token's bin, from the rarest quarter of all occurrences (0) to the most frequent (3), at the beginning of the whole source."""
    most = min(FREQUENCY_TOKENS, stream.max_tokens or FREQUENCY_TOKENS)
    whole = Stream(stream.source, stream.encode, most, max_items=stream.max_items)
    counts: Counter[int] = Counter()
    for read in whole.items():
        for sequence in read[1]:
            plain = sequence.data if sequence.special is None else sequence.data[~sequence.special]
            counts.update(int(i) for i in plain)
    # Ties are broken by the token, so that every shard and every machine gets the same bins.
    order = sorted(counts, key=lambda token: (counts[token], token))
    mass = np.cumsum([counts[token] for token in order])
    return {
        token: min(int(FREQUENCY_BINS * (m - counts[token] / 2) / mass[-1]), FREQUENCY_BINS - 1)
        for token, m in zip(order, mass, strict=True)
    }


def enough_pieces(encode: Encode, content: Any, needed: int | None) -> list[Chunk]:
    """Return the pieces of an item; for a long text only the first pieces, with at least `needed` tokens.

    A cut may change a few tokens before it, and with some tokenizers more than a few: a stretch without spaces is one word, and its best
    division may depend on its end. So two beginnings of different lengths are tokenised, and only pieces on which both agree are taken.
    If these are too few, longer beginnings are tried, and finally the whole text.
    """
    if not isinstance(content, str):
        return encode(content)
    size = len(content) if needed is None else max(BEGINNING, PER_TOKEN * needed)
    before: list[Chunk] = []
    while size < len(content):
        pieces = encode(content[:size])
        common = _common_start(before, pieces)
        if needed is not None and sum(piece.size for piece in common) >= needed:
            return common
        before, size = pieces, 2 * size + 7  # an odd step, so that a repetitive text is not cut at the same place again
    if len(content) > BEGINNING:
        task = f"Tokenising a text of {len(content):,} characters"
        check_room(task, TOKENISING * len(content), "divide it into documents, or use --max-tokens")
    return encode(content)


def _common_start(shorter: list[Chunk], longer: list[Chunk]) -> list[Chunk]:
    """The first pieces of both, as far as they are equal."""
    equal = (a.start == b.start and _equal(a.data, b.data) and _equal(a.special, b.special) for a, b in zip(shorter, longer, strict=False))
    return [piece for piece, _ in zip(longer, takewhile(bool, equal), strict=False)]


def _equal(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    return a is b if a is None or b is None else np.array_equal(a, b)
