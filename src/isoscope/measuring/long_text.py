"""Tokenise only the beginning of a long text, if that gives the same tokens as the whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from isoscope.core.memory import check_room
from isoscope.models.loading.chunk import Chunk

BEGINNING = 1 << 16
"""Characters of a text that are always tokenised. Shorter texts are never cut."""
PER_TOKEN = 16
"""Characters per token that is needed. Words and spaces take about five; if this is too few, more are tried."""
TOKENISING = 200
"""Bytes of memory per character while a text is tokenised: tokens, masks and offsets."""


def enough_pieces(encode: Callable[[Any], list[Chunk]], content: Any, needed: int | None) -> list[Chunk]:
    """The pieces of an item; for a long text only the first ones, with at least `needed` tokens among them.

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
    count = 0
    for a, b in zip(shorter, longer, strict=False):
        if not (np.array_equal(a.data, b.data) and a.start == b.start and _equal_special(a, b)):
            break
        count += 1
    return longer[:count]


def _equal_special(a: Chunk, b: Chunk) -> bool:
    if a.special is None or b.special is None:
        return a.special is b.special
    return np.array_equal(a.special, b.special)
