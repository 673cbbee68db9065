"""One sequence of a call of attention, its scores block by block, and what each block of rows may see."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from isoscope.models.attention import Attended
from isoscope.models.scores import CLOSED

FEW = 4
"""With fewer rows than keys by this factor, taking the mean off the keys costs more than taking it off the rows."""
SAFE = (-80.0, 60.0)
"""Scores within this of their row's mean have exponentials, and sums of them, that float32 holds; beyond it softmax takes its detour."""


@dataclass(frozen=True)
class Item:
    """One sequence of a call: its counted rows, and the keys that any of them may see."""

    query: Tensor  # (h, m, e)
    key: Tensor  # (h_k, n, e) about their mean, times the scale
    mean: Tensor | None  # (h_k, e) that mean, times the scale; None where few rows are wanted: then the queries are scaled
    scores: Tensor | None  # (h, t, s), of all rows and keys
    bias: Tensor | None  # (1 or h, 1 or m, n)
    open: Tensor | None  # (1 or h, m, n) bool; None where all is open
    closes: bool  # whether the bias, or the scores, close positions too
    rows: Tensor | None  # (m,) which rows these are, where some are left out
    columns: Tensor | None  # (n,) which keys

    @classmethod
    def of(cls, call: Attended, i: int, rows: Tensor | None, room: Tensor) -> Item:
        """The sequence numbered i, cut to these rows and to the keys that are open at all; its keys are put in the room."""
        query, key = (part if part.dtype == room.dtype else part.to(room.dtype) for part in (call.query[i], call.key[i]))
        query = query if rows is None else query[:, rows]
        scores = None if call.scores is None else call.scores[i]
        mask = _cut(call.mask, i, rows, key.shape[1])
        bias = _cut(call.bias, i, rows, key.shape[1]) if scores is None else None
        additive = bias if scores is None else scores
        closes = additive is not None and bool(additive.amin() <= CLOSED)
        if closes and bias is not None and len(bias) == 1:  # a float mask, as a rule: what it closes is the same for all heads
            shut = bias <= CLOSED
            mask, closes = ~shut if mask is None else mask & ~shut, False
            bias = bias.masked_fill(shut, 0.0)
            bias = bias if bool(bias.any()) else None
        columns = None
        if mask is not None:
            seen = mask.flatten(0, 1).any(0)  # a key that no row sees is left out, and what it holds with it
            columns = None if bool(seen.all()) else seen.nonzero()[:, 0]
            if columns is not None:
                key, mask = key[:, columns], mask[..., columns]
                bias = None if bias is None else bias[..., columns]
            mask = None if bool(mask.all()) else mask.expand(-1, query.shape[1], -1)
        if FEW * query.shape[1] <= key.shape[1]:
            return cls(query * call.scale, key, None, scores, bias, mask, closes, rows, columns)
        mean = key.mean(1) if key.shape[1] else key.sum(1)
        keys = torch.sub(key, mean[:, None], out=room[: key.numel()].view(key.shape)).mul_(call.scale)
        return cls(query, keys, mean * call.scale, scores, bias, mask, closes, rows, columns)

    def block(self, j: int, at: slice, between: slice, out: Tensor, offset: Tensor) -> None:
        """The scores of head j in these rows and between these keys, about `offset`, which is what the mean key adds to a row."""
        if self.scores is not None:
            out.copy_(self.given(j, at)[:, between])
            offset.zero_()
            return
        own = j // (len(self.query) // len(self.key))
        query, key, mean = self.query[j, at], self.key[own, between], None if self.mean is None else self.mean[own]
        torch.mm(query, key.T, out=out)
        if mean is None:
            offset.zero_()
        else:
            torch.mv(query, mean, out=offset)
        if self.bias is not None:
            bias = self.bias[j if len(self.bias) > 1 else 0]
            out.add_(bias[at if len(bias) > 1 else slice(None), between])

    def given(self, j: int, at: slice) -> Tensor:
        """(m, n) the scores that the model gave for these rows of head j."""
        assert self.scores is not None
        part = self.scores[j, at] if self.rows is None else self.scores[j][self.rows[at]]
        return part if self.columns is None else part[:, self.columns]

    @property
    def alike(self) -> bool:
        """Whether all heads may see the same."""
        return not self.closes and (self.open is None or len(self.open) == 1)

    def opened(self, j: int, at: slice) -> Tensor | None:
        """(m, n) bool, what these rows of head j may see; None where that is everything."""
        seen = None if self.open is None else self.open[j if len(self.open) > 1 else 0, at]
        if self.closes:
            part = (self.given(j, at) if self.bias is None else self.bias[j, at if self.bias.shape[1] > 1 else slice(None)]) > CLOSED
            seen = part.expand(at.stop - at.start, -1) if seen is None else seen & part
        return seen


def _cut(part: Tensor | None, i: int, rows: Tensor | None, keys: int) -> Tensor | None:
    """What belongs to sequence i of what broadcasts to (b, h, t, s), cut to these rows; of heads and rows that are alike only one."""
    if part is None:
        return None
    part = part.reshape((1,) * (4 - part.dim()) + part.shape)
    part = part[i if len(part) > 1 else 0]
    for axis in (0, 1):
        if part.stride(axis) == 0:
            part = part.narrow(axis, 0, 1)
    part = part if rows is None or part.shape[1] == 1 else part[:, rows]
    return part.expand(-1, -1, keys)


@dataclass(frozen=True)
class Window:
    """What the rows of a block may see: the keys from the first to the last that any of them sees, and what is closed among those."""

    seen: Tensor | None  # (m, n) bool, as it was given
    between: slice
    count: Tensor | int  # (m,) open keys of each row, or of all
    edge: slice | None = None  # the columns, from `between`'s start, in which anything is closed
    spans: tuple[np.ndarray, np.ndarray] | None = None  # (m,) from and to which column each row sees, where that is in one piece

    @classmethod
    def of(cls, seen: Tensor | None, m: int, n: int) -> Window:
        """The window of (m, n) bool, or of m rows and n keys where all is open."""
        if seen is None:
            return cls(None, slice(0, n), n, spans=(np.zeros(m, dtype=np.int64), np.full(m, n)))
        held = seen.cpu().numpy()  # numpy finds first and last in a row of bools several times quicker than torch
        columns = np.flatnonzero(held.any(0))
        if not len(columns):
            return cls(seen, slice(0, 0), 0)
        between = slice(int(columns[0]), int(columns[-1]) + 1)
        held = held[:, between]
        width = held.shape[1]
        mixed = np.flatnonzero(~held.all(0))
        if not len(mixed):
            return cls(seen, between, width, spans=(np.zeros(m, dtype=np.int64), np.full(m, width)))
        edge = slice(int(mixed[0]), int(mixed[-1]) + 1)
        count, start = held.sum(1), held.argmax(1)
        stop = np.where(count > 0, width - held[:, ::-1].argmax(1), start)
        spans = (start, stop) if bool((stop - start == count).all()) else None
        return cls(seen, between, torch.from_numpy(count).to(seen.device), edge, spans=spans)

    @cached_property
    def caps(self) -> dict[float, Tensor]:
        """(m, edge) what fills closed positions, by value."""
        assert self.seen is not None
        part = self.seen[:, self.between][:, self.edge]
        whole = torch.full(part.shape, torch.inf, device=part.device)
        return {
            0.0: part.to(torch.float32),
            SAFE[0]: whole.masked_fill(~part, SAFE[0]),
            torch.inf: (-whole).masked_fill_(~part, torch.inf),
        }

    def fill(self, s: Tensor, value: float) -> None:
        """Put a value in the place of closed scores: by products, minima and maxima, which are several times quicker than a masked fill."""
        if self.edge is None:
            return
        part, cap = s[:, self.edge], self.caps[value].to(s.dtype)
        if value == 0:
            part.mul_(cap)
        elif value < 0:
            torch.minimum(part, cap, out=part)
        else:
            torch.maximum(part, cap, out=part)
