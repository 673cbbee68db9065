"""What a model is fed at once, and what its positions are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class Piece:
    """One input of an item: at most seq-len tokens, a window of speech, or an image."""

    data: np.ndarray
    """Token ids (n,), samples (n,) or pixels (3, h, w)."""
    size: int
    """What it counts for: tokens, frames, or one image."""
    start: int = 0
    """The index of its first position within the item."""
    special: np.ndarray | None = None
    """Of token ids which are special."""
    room: int = 0
    """What it takes in a batch, where that is more than its size: a short clip that the model pads with silence."""

    @property
    def takes(self) -> int:
        """What it takes in a batch."""
        return max(self.size, self.room)


@dataclass(frozen=True)
class Positions:
    """The positions of one piece at one stack that count; those behind them are padding."""

    special: np.ndarray
    ids: np.ndarray | None = None
    start: int = 0
    ordered: bool = True
    """Whether position 0 is the beginning of something, as in text and speech; a corner of an image is not."""


@dataclass(frozen=True)
class Fed:
    """A batch as the model takes it."""

    arguments: dict[str, Any]
    positions: Callable[[str, int], list[Positions]]
    """`positions(stack, t)`: those of each piece, at a site of t positions."""


class Reader(Protocol):
    """How items become pieces, and pieces a batch, for one loaded model."""

    unit: str
    """What a piece's size counts: tokens, frames or images."""
    pads: bool
    """Whether pieces of different sizes may share a batch."""
    seq_len: int
    """The largest size of a piece."""

    @property
    def special_tokens(self) -> str:
        """The special tokens that are fed around each piece, as in `[CLS] … [SEP]`; empty where a model is fed no tokens."""

    def pieces(self, content: Any) -> list[Piece]:
        """The pieces of an item's content."""

    def feed(self, pieces: list[Piece]) -> Fed:
        """A batch of pieces."""

    def probe(self, count: int, size: int) -> list[Piece]:
        """So many made-up pieces of at most this size, by which sites and memory are found."""
