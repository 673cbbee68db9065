"""Helpers of readers: batches of chunks as tensors, and positions that all count."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from isoscope.models.loading.chunk import Chunk, Positions
from isoscope.models.loading.family import LoadedModel


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


def stack_chunks(chunks: list[Chunk], model: LoadedModel) -> Tensor:
    """The data of chunks of one shape as a tensor (b, …), on the model's device and in its type."""
    return torch.from_numpy(np.stack([chunk.data for chunk in chunks])).to(model.device, model.base.dtype)


def plain_positions(chunks: list[Chunk]) -> Callable[[str, int], list[Positions]]:
    """The positions of chunks without padding and without special tokens: all t of them count."""
    return lambda stack, t: [Positions(np.zeros(t, dtype=bool), start=chunk.start) for chunk in chunks]
