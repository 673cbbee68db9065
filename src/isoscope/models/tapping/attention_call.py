"""One attention of a forward pass, and its scores, sequence by sequence and block of rows by block of rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from isoscope.core.site import Site
from isoscope.models.tapping.written_scores import CLOSED

FEW = 4
"""If there are this many times fewer rows than keys, taking the mean off the keys costs more than taking it off the rows."""
SAFE = (-80.0, 60.0)
"""Within these bounds around its row's mean, a score has an exponential that float32 holds, and so have sums; beyond them use softmax."""


@dataclass(frozen=True)
class AttentionCall:
    """One attention of a forward pass: softmax(scale · q kᵀ + bias), row by row."""

    site: Site
    """`attention` or `cross_attention` of a stack's layer; no head."""
    query: Tensor
    """(b, h, t, e) as attention takes it, after rotary."""
    key: Tensor
    """(b, h_k, s, e); h is a multiple of h_k, and query head i uses key head i // (h // h_k)."""
    scale: float
    """Scores are scale · q kᵀ (+ bias)."""
    bias: Tensor | None
    """The additive part, which broadcasts to (b, h, t, s): a relative bias or a float mask; None if nothing is added."""
    mask: Tensor | None
    """bool, broadcasts to (b, h, t, s), True where a key is open; None if all are. A causal flag becomes a mask here."""
    scores: Tensor | None
    """(b, h, t, s), the input of softmax, mask and bias included, if the model writes attention out; else None."""
    plain_query: Tensor
    """As `query`, but before rotary. If queries are normalised, after the norm. The same tensor if there is no rotary."""
    plain_key: Tensor
    """As `key`, at the same point."""

    def on_host(self) -> AttentionCall:
        """The same call with its tensors in the memory of the host; the call itself if they lie there."""
        if self.query.device.type == "cpu":
            return self
        moved = {name: part.cpu() if isinstance(part, Tensor) else part for name, part in vars(self).items()}
        return AttentionCall(**moved)


@dataclass(frozen=True)
class SequenceScores:
    """One sequence of a call: the rows that count, and the keys that any of them may see."""

    query: Tensor  # (h, m, e)
    key: Tensor  # (h_k, n, e)
    scale: float
    scores: Tensor | None  # (h, t, s), of all rows and keys
    bias: Tensor | None  # (1 or h, 1 or m, n)
    open: Tensor | None  # (1 or h, m, n) bool; None if everything is open
    closes: bool  # whether the bias, or the scores, close positions too
    rows: Tensor | None  # (m,) which rows these are, if some are left out
    columns: Tensor | None  # (n,) which keys these are, if some are left out

    @classmethod
    def from_call(cls, call: AttentionCall, i: int, rows: Tensor | None, dtype: torch.dtype) -> SequenceScores:
        """Sequence i of a call, cut to these rows and to the keys that any row sees."""
        query, key = (part if part.dtype == dtype else part.to(dtype) for part in (call.query[i], call.key[i]))
        query = query if rows is None else query[:, rows]
        scores = None if call.scores is None else call.scores[i]
        mask = _select_sequence(call.mask, i, rows, key.shape[1])
        bias = _select_sequence(call.bias, i, rows, key.shape[1]) if scores is None else None
        additive = bias if scores is None else scores
        closes = additive is not None and bool(additive.amin() <= CLOSED)
        if closes and bias is not None and len(bias) == 1:
            # A float mask that all heads share. As a bool mask its windows are computed once, not once per head.
            closed = bias <= CLOSED
            mask, closes = ~closed if mask is None else mask & ~closed, False
            bias = bias.masked_fill(closed, 0.0)
            bias = bias if bool(bias.any()) else None
        columns = None
        if mask is not None:
            seen = mask.flatten(0, 1).any(0)  # a key that no row sees is left out: it may be padding, and hold anything
            columns = None if bool(seen.all()) else seen.nonzero()[:, 0]
            if columns is not None:
                key, mask = key[:, columns], mask[..., columns]
                bias = None if bias is None else bias[..., columns]
            mask = None if bool(mask.all()) else mask.expand(-1, query.shape[1], -1)
        return cls(query, key, call.scale, scores, bias, mask, closes, rows, columns)

    @property
    def is_centred(self) -> bool:
        """Whether keys are taken about their mean.

        This shifts all scores of a row alike, changes no probability, and keeps digits if all keys share a large part, as anisotropic
        keys do. With few rows it costs more than taking the mean off the scores.
        """
        return bool(FEW * self.query.shape[1] > self.key.shape[1])

    @cached_property
    def _operands(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Queries (h, m, e), keys (h_k, n, e) and the mean key (h_k, e); scores are q·(k + mean)."""
        if not self.is_centred:
            return self.query * self.scale, self.key, None
        mean = self.key.mean(1) if self.key.shape[1] else self.key.sum(1)
        return self.query, torch.sub(self.key, mean[:, None]).mul_(self.scale), mean * self.scale

    def write_block(self, j: int, at: slice, between: slice, out: Tensor, offset: Tensor) -> None:
        """Write the scores of head j in these rows and between these keys to `out`, and what the mean key adds to a row to `offset`."""
        if self.scores is not None:
            out.copy_(self._model_scores(j, at)[:, between])
            offset.zero_()
            return
        queries, keys, means = self._operands
        key_head = j // (len(queries) // len(keys))
        query, key, mean = queries[j, at], keys[key_head, between], None if means is None else means[key_head]
        torch.mm(query, key.T, out=out)
        if mean is None:
            offset.zero_()
        else:
            torch.mv(query, mean, out=offset)
        if self.bias is not None:
            bias = self.bias[j if len(self.bias) > 1 else 0]
            out.add_(bias[at if len(bias) > 1 else slice(None), between])

    def _model_scores(self, j: int, at: slice) -> Tensor:
        """(m, n) the scores that the model itself computed for these rows of head j."""
        assert self.scores is not None
        part = self.scores[j, at] if self.rows is None else self.scores[j][self.rows[at]]
        return part if self.columns is None else part[:, self.columns]

    @property
    def heads_see_alike(self) -> bool:
        """Whether all heads may see the same keys."""
        return not self.closes and (self.open is None or len(self.open) == 1)

    def open_keys(self, j: int, at: slice) -> Tensor | None:
        """(m, n) bool, which keys these rows of head j may see; None if they may see all."""
        seen = None if self.open is None else self.open[j if len(self.open) > 1 else 0, at]
        if self.closes:
            added = self._model_scores(j, at) if self.bias is None else self.bias[j, at if self.bias.shape[1] > 1 else slice(None)]
            part = added > CLOSED
            seen = part.expand(at.stop - at.start, -1) if seen is None else seen & part
        return seen


def _select_sequence(part: Tensor | None, i: int, rows: Tensor | None, keys: int) -> Tensor | None:
    """The part for sequence i of a tensor that broadcasts to (b, h, t, s), cut to these rows; equal heads or rows are kept once."""
    if part is None:
        return None
    part = part.reshape((1,) * (4 - part.dim()) + part.shape)
    part = part[i if len(part) > 1 else 0]
    for axis in (0, 1):
        if part.stride(axis) == 0:  # an expanded axis repeats the same memory
            part = part.narrow(axis, 0, 1)
    part = part if rows is None or part.shape[1] == 1 else part[:, rows]
    return part.expand(-1, -1, keys)


@dataclass(frozen=True)
class Window:
    """The keys that the rows of a block may see, from the first to the last that any of them sees, and which of those are closed."""

    seen: Tensor | None  # (m, n) bool, as it was given
    between: slice
    count: Tensor | int  # (m,) open keys of each row, or of all
    edge: slice | None = None  # the columns, counted from the start of `between`, in which anything is closed
    spans: tuple[np.ndarray, np.ndarray] | None = None  # (m,) first and last column that each row sees, if there are no gaps

    @classmethod
    def from_mask(cls, seen: Tensor | None, m: int, n: int) -> Window:
        """The window of a mask (m, n), or of m rows and n keys if everything is open."""
        if seen is None:
            return cls(None, slice(0, n), n, spans=(np.zeros(m, dtype=np.int64), np.full(m, n)))
        mask = seen.numpy()  # numpy finds first and last in a row of bools several times faster than torch
        columns = np.flatnonzero(mask.any(0))
        if not len(columns):
            return cls(seen, slice(0, 0), 0)
        between = slice(int(columns[0]), int(columns[-1]) + 1)
        mask = mask[:, between]
        width = mask.shape[1]
        mixed = np.flatnonzero(~mask.all(0))
        if not len(mixed):
            return cls(seen, between, width, spans=(np.zeros(m, dtype=np.int64), np.full(m, width)))
        edge = slice(int(mixed[0]), int(mixed[-1]) + 1)
        count, start = mask.sum(1), mask.argmax(1)
        stop = np.where(count > 0, width - mask[:, ::-1].argmax(1), start)
        spans = (start, stop) if bool((stop - start == count).all()) else None
        return cls(seen, between, torch.from_numpy(count), edge, spans=spans)

    @cached_property
    def _caps(self) -> dict[float, Tensor]:
        """(m, edge) the factor, minimum or maximum that writes each value to closed positions and leaves open ones alone."""
        assert self.seen is not None
        part = self.seen[:, self.between][:, self.edge]
        infinite = torch.full(part.shape, torch.inf)
        return {
            0.0: part.to(torch.float32),
            SAFE[0]: infinite.masked_fill(~part, SAFE[0]),
            torch.inf: (-infinite).masked_fill_(~part, torch.inf),
        }

    def fill_closed(self, s: Tensor, value: float) -> None:
        """Write a value to closed positions, by products, minima and maxima: these are several times faster than a masked fill."""
        if self.edge is None:
            return
        part, cap = s[:, self.edge], self._caps[value].to(s.dtype)
        if value == 0:
            part.mul_(cap)
        elif value < 0:
            torch.minimum(part, cap, out=part)
        else:
            torch.maximum(part, cap, out=part)
