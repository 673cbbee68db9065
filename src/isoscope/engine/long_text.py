"""Texts far longer than what is needed of them: only a beginning is tokenised, and only where that gives the tokens of the whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from isoscope.core.memory import check_room
from isoscope.models.chunk import Chunk

BEGINNING = 1 << 16
"""Characters of a text that are tokenised in any case. Shorter texts are never cut."""
PER_TOKEN = 16
"""Characters for each token that is needed. Words and spaces take about five; what takes more is tried again with more."""
TOKENISING = 200
"""Bytes of memory for each character while a text is tokenised: tokens, their masks, and where each came from."""


def enough_pieces(encode: Callable[[Any], list[Chunk]], content: Any, needed: int | None) -> list[Chunk]:
    """The pieces of an item, or of a long text the first ones, with at least `needed` tokens among them.

    Where a text is cut, a few tokens before the cut may differ from those of the whole, and for some tokenizers more than a few: a stretch
    without spaces is one word, and its best division may depend on its end. So two beginnings of different lengths are tokenised, and
    only pieces on which both agree are taken; where these are too few, longer beginnings are tried, at last the whole.
    """
    if not isinstance(content, str):
        return encode(content)
    size = len(content) if needed is None else max(BEGINNING, PER_TOKEN * needed)
    before: list[Chunk] = []
    while size < len(content):
        found = encode(content[:size])
        agreed = _agreed(before, found)
        if needed is not None and sum(piece.size for piece in agreed) >= needed:
            return agreed
        before, size = found, 2 * size + 7  # an odd step, so that what repeats in the text is not cut at the same place again
    if len(content) > BEGINNING:
        what = f"Tokenising a text of {len(content):,} characters"
        check_room(what, TOKENISING * len(content), "divide it into documents, or use --max-tokens")
    return encode(content)


def _agreed(some: list[Chunk], others: list[Chunk]) -> list[Chunk]:
    """The first pieces of both, as far as they are the same."""
    count = 0
    for one, other in zip(some, others, strict=False):
        if not (np.array_equal(one.data, other.data) and one.start == other.start and _same_marks(one, other)):
            break
        count += 1
    return others[:count]


def _same_marks(one: Chunk, other: Chunk) -> bool:
    if one.special is None or other.special is None:
        return one.special is other.special
    return np.array_equal(one.special, other.special)
