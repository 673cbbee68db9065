"""The inputs of a model: chunks of an item, and a batch of them with the meaning of its positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Chunk:
    """One input of an item: at most seq-len tokens, a window of speech, or an image."""

    data: np.ndarray
    """Token ids (n,), samples (n,) or pixels (3, h, w)."""
    size: int
    """Number of tokens or frames; 1 for an image."""
    start: int = 0
    """The index of its first position within the item."""
    special: np.ndarray | None = None
    """(n,) bool, which token ids are special; None if none is."""
    padded_size: int = 0
    """The size to which the model itself pads a chunk, as Whisper pads a short clip with silence; 0 if it does not."""

    @property
    def batch_cost(self) -> int:
        """The number of positions that the chunk takes up in a batch."""
        return max(self.size, self.padded_size)

    @property
    def special_mask(self) -> np.ndarray:
        """(n,) bool, True where a position is special."""
        return np.zeros(self.size, dtype=bool) if self.special is None else self.special


@dataclass(frozen=True)
class Positions:
    """The positions of one chunk that count, at one stack; everything after them is padding."""

    special: np.ndarray
    ids: np.ndarray | None = None
    start: int = 0
    ordered: bool = True
    """Whether position 0 is the beginning of something, as in text and speech; a corner of an image is not."""


@dataclass(frozen=True)
class ModelInput:
    """A batch as the model takes it."""

    arguments: dict[str, Any]
    positions: Callable[[str, int], list[Positions]]
    """`positions(stack, t)` gives the positions of each chunk at a site with t positions."""


class Reader(Protocol):
    """Cuts items into chunks and makes batches of chunks, for one loaded model."""

    unit: str
    """The unit of a chunk's size: tokens, frames or images."""
    pads: bool
    """Whether chunks of different sizes may share a batch."""
    seq_len: int
    """The largest size of a chunk."""

    @property
    def special_tokens(self) -> str:
        """The special tokens around each chunk, as in `[CLS] … [SEP]`; empty for a model that is fed no tokens."""

    def chunks(self, content: Any) -> list[Chunk]:
        """Cut the content of an item into chunks."""

    def feed(self, chunks: list[Chunk]) -> ModelInput:
        """Make a batch of chunks."""

    def probe(self, count: int, size: int) -> list[Chunk]:
        """Make up `count` chunks of at most this size, to find sites and memory use before any item is read."""


def pad_right(rows: Sequence[np.ndarray], fill: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows of ids (n, …) as one tensor (b, longest n, …), filled up on the right, and their mask (b, longest n).

    >>> pad_right([np.array([5, 6]), np.array([7])], 0, torch.device("cpu"))
    (tensor([[5, 6],
            [7, 0]]), tensor([[1, 1],
            [1, 0]]))
    """
    longest = max(len(row) for row in rows)
    ids = torch.full((len(rows), longest, *rows[0].shape[1:]), fill, dtype=torch.long)
    mask = torch.zeros((len(rows), longest), dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.from_numpy(row)
        mask[i, : len(row)] = 1
    return ids.to(device), mask.to(device)


def stack_chunks(chunks: list[Chunk], device: torch.device, dtype: torch.dtype) -> Tensor:
    """The data of chunks of one shape as a tensor (b, …)."""
    return torch.from_numpy(np.stack([chunk.data for chunk in chunks])).to(device, dtype)


def plain_positions(chunks: list[Chunk]) -> Callable[[str, int], list[Positions]]:
    """The positions of chunks without padding and without special tokens: all t of them count."""
    return lambda stack, t: [Positions(np.zeros(t, dtype=bool), start=chunk.start) for chunk in chunks]
