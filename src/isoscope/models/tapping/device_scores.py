"""The scores of an attention, taken again where its queries and keys lie."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from isoscope.models.tapping.attention_call import AttentionCall


@dataclass(frozen=True)
class Operands:
    """The queries and keys of a call, heads first, in the type that they are multiplied in, and all that is added to their products."""

    query: Tensor  # (h, b, t, e)
    key: Tensor  # (h, b, s, e)
    scale: float
    bias: Tensor | None
    scores: Tensor | None  # (h, b, t, s), if the model writes them out

    @classmethod
    def of(cls, call: AttentionCall) -> Operands:
        """The operands of a call."""
        dtype = torch.float64 if call.query.dtype == torch.float64 else torch.float32
        scores = None if call.scores is None else call.scores.transpose(0, 1)
        query, key = call.query.transpose(0, 1), call.key.transpose(0, 1)
        shared = len(query) // len(key)
        if scores is None and query.shape[1:] == key.shape[1:] and (shared > 1 or not (query.is_contiguous() and key.is_contiguous())):
            # One copy of both, with each key head as often as query heads share it.
            keys = [key] if shared == 1 else [part for part in key[:, None] for _ in range(shared)]
            query, key = torch.cat([query, *keys]).to(dtype).chunk(2)
        elif scores is None:
            query, key = query.to(dtype), key.to(dtype).repeat_interleave(shared, 0) if shared > 1 else key.to(dtype)
        return cls(query, key, call.scale, None if call.bias is None else heads_first(call.bias), scores)

    def products(self, sequences: slice, rows: slice | Tensor) -> Tensor:
        """(h, b, r, s) the scores of these sequences and rows, which may be written to."""

        def cut(part: Tensor) -> Tensor:
            part = part if part.shape[1] == 1 else part[:, sequences]
            return part if part.shape[2] == 1 else part[:, :, rows] if isinstance(rows, slice) else part.index_select(2, rows)

        if self.scores is not None:
            return cut(self.scores).to(self.query.dtype if self.query.dtype == torch.float64 else torch.float32, copy=True)
        query, key = cut(self.query), self.key[:, sequences]
        scores = torch.baddbmm(query.new_empty(1), query.flatten(0, 1), key.flatten(0, 1).mT, beta=0, alpha=self.scale)
        scores = scores.view(*query.shape[:3], key.shape[2])
        return scores if self.bias is None else scores.add_(cut(self.bias))


def heads_first(part: Tensor) -> Tensor:
    """A tensor that broadcasts to (b, h, t, s) as one that broadcasts to (h, b, t, s)."""
    return part.reshape((1,) * (4 - part.dim()) + tuple(part.shape)).transpose(0, 1)
