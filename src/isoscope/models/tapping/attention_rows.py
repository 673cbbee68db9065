"""Rows of attention reduced to numbers on the host, block by block: the B × H × L × L tensor of probabilities is never held.

A row of scores s has the entropy logsumexp(s) − Σ p·s. Its largest, median and smallest probabilities are those of its scores, as
exp(s − logsumexp(s)). A number added to all scores of a row changes no probability. So every row is reduced about its own mean, which
keeps digits, and the mean is added again where the scores themselves are reported.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isoscope.core.numerics import load_compiled
from isoscope.models.tapping.attention_call import SAFE, AttentionCall, SequenceScores, Window
from isoscope.models.tapping.written_scores import CLOSED
from isoscope.statistics.attention_statistics import BINS, LOWEST_CODE, score_counts

BLOCK = 1 << 17
"""Scores that one thread reduces at a time: with their exponentials they stay in its second-level cache."""
_VALUES = _OFFSET, _SQUARES, _LOW, _HIGH, _SHIFT, _TOTAL, _DOT, _FIRST, _LOWER, _UPPER = tuple(range(10))
"""The values of each row. _OFFSET is its mean. About the mean: _SQUARES is Σs², _LOW and _HIGH its smallest and largest score. _SHIFT is
subtracted before exponentials; _TOTAL is their sum, _DOT their sum times the shifted scores, _FIRST the first one. _LOWER and _UPPER are
the two scores in the middle, for the median."""


@dataclass(frozen=True)
class AttentionRows:
    """The numbers of each row of attention: float64 (b, h, r) unless noted, NaN for a row that does not count or sees nothing."""

    entropy: Tensor
    maximum: Tensor
    minimum: Tensor
    median: Tensor | None
    """Probabilities. The median of an even number of positions is the mean of the two in the middle."""
    open: Tensor
    """int64, how many positions the row may look at; 0 for a row that does not count."""
    mean: Tensor
    sd: Tensor
    """Mean and standard deviation of the row's scores over its open positions (divided by their number)."""
    first: Tensor
    """The probability on position 0."""
    sees_first: Tensor
    """bool, whether the row may look at position 0; a sliding window or padding can hide it."""
    received: Tensor
    """(b, h, s) Σ over the rows of the probability on each key."""
    low: Tensor
    high: Tensor
    """The smallest and the largest open score."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The fields as numpy arrays by name, as `AttentionStatistics.update` takes them."""
        return {name: value.numpy() for name, value in vars(self).items() if value is not None}


def attention_rows(
    call: AttentionCall, *, counted: Tensor | None = None, rows: Tensor | None = None, median: bool = False
) -> AttentionRows:
    """Reduce the rows of one attention.

    Args:
        call: the attention that the tap saw.
        counted: (b, t) bool, False where a row is padding; all rows count if None.
        rows: (r,) the query rows to use; all if None.
        median: also compute the median of each row, which costs as much as everything else.
    """
    with torch.inference_mode():
        reducer = _RowReducer(call, len(rows) if rows is not None else call.query.shape[2], median)
        for i in range(call.query.shape[0]):
            chosen = torch.arange(call.query.shape[2]) if rows is None else rows
            places = None
            if counted is not None and not bool((counts := counted[i][chosen]).all()):
                places = counts.nonzero()[:, 0]
                chosen = chosen[places]
            if len(chosen):
                every_row = rows is None and places is None
                reducer.add_sequence(i, places, SequenceScores.from_call(call, i, None if every_row else chosen, reducer.dtype))
        return reducer.finish()


def query_row_scores(call: AttentionCall, rows: Tensor) -> tuple[Tensor, Tensor]:
    """(b, h, r, s) the scores of a few query rows, and which of them are open."""
    (b, h, _, _), s = call.query.shape, call.key.shape[2]

    def select_rows(part: Tensor) -> Tensor:
        part = part.reshape((1,) * (4 - part.dim()) + part.shape)
        return part[:, :, rows] if part.shape[2] > 1 else part

    if call.scores is not None:
        scores = select_rows(call.scores).float()
    else:
        scores, shared = torch.empty((b, h, len(rows), s)), h // call.key.shape[1]
        for query, key, out in zip(call.query, call.key, scores, strict=True):  # a product of the whole batch would copy all keys
            key = key.float().repeat_interleave(shared, 0) if shared > 1 else key.float()
            torch.bmm(query[:, rows].float(), key.mT, out=out)
        scores *= call.scale
        scores = scores if call.bias is None else scores + select_rows(call.bias)
    is_open = scores > CLOSED
    return scores, is_open if call.mask is None else is_open & select_rows(call.mask)


def count_scores(call: AttentionCall, rows: Tensor, counted: Tensor) -> np.ndarray:
    """(h, bins) the open scores of a few query rows, counted between `isoscope.statistics.attention_statistics.EDGES`.

    `counted` (b, t) is False where a row is padding.
    """
    scores, is_open = (part.numpy() for part in query_row_scores(call, rows))
    seen = is_open & counted.numpy()[:, None, rows.numpy(), None]
    if scores.dtype == np.float32 and (compiled := load_compiled("isoscope.models.tapping.attention_fused")) is not None:
        return np.asarray(compiled.count_scores(np.ascontiguousarray(scores), np.ascontiguousarray(seen), LOWEST_CODE, BINS))
    return np.stack([score_counts(scores[:, j][seen[:, j]]) for j in range(scores.shape[1])])


def ablate_queries(call: AttentionCall, *, mean_query: Tensor | None = None, dimensions: Tensor | None = None) -> AttentionCall:
    """The same attention with a part of its queries removed, to see how sharp it is without that part.

    Args:
        call: the attention that the tap saw. Its bias and its mask stay; scores that the model wrote out are dropped.
        mean_query: (h, e) the mean query of each head, which is subtracted.
        dimensions: (h, n) the dimensions of each head that are set to zero.
    """
    query = call.query
    if mean_query is not None:
        query = query - mean_query.to(query)[None, :, None]
    if dimensions is not None:
        stays = query.new_ones(query.shape[1], query.shape[3]).scatter_(1, dimensions, 0.0)
        query = query * stays[None, :, None]
    return replace(call, query=query, scores=None)


class _RowReducer:
    """The values of every row of a call, and room for one block of scores and one of exponentials."""

    def __init__(self, call: AttentionCall, r: int, median: bool) -> None:
        b, h = call.query.shape[:2]
        s = call.key.shape[2]
        self.dtype = torch.float64 if call.query.dtype == torch.float64 else torch.float32
        like: dict[str, Any] = {"dtype": self.dtype}
        self.compiled = load_compiled("isoscope.models.tapping.attention_fused") if self.dtype == torch.float32 else None
        # The compiled reduction runs in one thread; torch divides a block among all of its own.
        self.step = max(BLOCK * (torch.get_num_threads() if self.compiled is None else 1) // max(s, 1), 1)
        self.rows, self.width = min(self.step, r), s
        self.values = torch.full((len(_VALUES) if median else _LOWER, b, h, r), torch.nan, **like)
        self.open = torch.zeros((b, h, r), dtype=torch.int64)
        self.sees_first = torch.zeros((b, h, r), dtype=torch.bool)
        self.received = torch.zeros((b, h, s), **like)

    @cached_property
    def room(self) -> Tensor:
        """Room for a block of scores and one of exponentials."""
        return torch.empty((2, self.rows * self.width), dtype=self.dtype)

    def add_sequence(self, i: int, places: Tensor | None, item: SequenceScores) -> None:
        """Reduce the rows of sequence i; `places` are their indices among all rows, if some are left out."""
        h, m, _ = item.query.shape
        n = item.key.shape[1]
        values, is_open, sees_first = self.values[:, i], self.open[i], self.sees_first[i]
        if places is not None:  # these rows do not lie together, so they are reduced apart and copied to their places at the end
            values, is_open = values.new_full((len(values), h, m), torch.nan), is_open.new_zeros((h, m))
            sees_first = sees_first.new_zeros((h, m))
        received = self.received[i] if item.columns is None else self.received.new_zeros((h, n))
        has_first = n > 0 and (item.columns is None or int(item.columns[0]) == 0)
        self._reduce_blocks(item, values, is_open, sees_first, received, has_first=has_first)
        if places is not None:
            self.values[:, i, :, places], self.open[i, :, places], self.sees_first[i, :, places] = values, is_open, sees_first
        if item.columns is not None:
            self.received[i, :, item.columns] = received

    def _reduce_blocks(
        self, item: SequenceScores, values: Tensor, is_open: Tensor, sees_first: Tensor, received: Tensor, *, has_first: bool
    ) -> None:
        """Reduce one head after the other, block by block."""
        (h, m, _), n = item.query.shape, item.key.shape[1]
        blocks = [slice(start, min(start + self.step, m)) for start in range(0, m, self.step)]
        # Masks rarely differ by head: then the window of each block is computed once for all heads.
        shared = [Window.from_mask(item.open_keys(0, at), at.stop - at.start, n) for at in blocks] if item.heads_see_alike else None
        for j in range(h):
            for index, at in enumerate(blocks):
                window = shared[index] if shared is not None else Window.from_mask(item.open_keys(j, at), at.stop - at.start, n)
                is_open[j, at] = window.count
                sees_first[j, at] = has_first if window.seen is None or not has_first else window.seen[:, 0]
                if window.between.stop > window.between.start:
                    self.reduce_block(item, j, at, window, values[:, j, at], received[j, window.between])
                    if not has_first or window.between.start:
                        values[_FIRST, j, at] = 0.0

    def reduce_block(self, item: SequenceScores, j: int, at: slice, window: Window, values: Tensor, received: Tensor) -> None:
        """Compute one block of rows of head j, write its values, and add what its keys receive."""
        m, width = at.stop - at.start, window.between.stop - window.between.start
        s, e = self.room[:, : m * width].view(2, m, width).unbind()
        block_values = values.new_empty((len(values), m))
        item.write_block(j, at, window.between, s, block_values[_OFFSET])
        # With all keys, no mask and no bias, scores about the mean key have mean zero already.
        is_product = item.is_centred and item.scores is None and item.bias is None
        centred = is_product and window.edge is None and width == item.key.shape[1]
        if self.compiled is not None and window.spans is not None:
            mass = np.zeros(width, dtype=np.float32)
            self.compiled.reduce_rows(s.numpy(), *window.spans, centred, block_values.numpy(), mass)
            received += torch.from_numpy(mass)
        else:
            self._reduce_with_torch(s, e, block_values, window, centred=centred)
            weights = block_values[_TOTAL].reciprocal()
            received += torch.mv(e.T, weights if window.edge is None else weights.nan_to_num_(posinf=0.0))
        if len(block_values) > _LOWER:
            window.fill_closed(s, torch.inf)
            _middle_scores(s, block_values[_LOWER], block_values[_UPPER], window.count)
        values.copy_(block_values)

    def _reduce_with_torch(self, s: Tensor, e: Tensor, out: Tensor, window: Window, *, centred: bool) -> None:
        """Reduce one block of scores: `s` becomes the scores about their mean, `e` their exponentials.

        Args:
            s: (m, n) scores; 0 where closed, in the end.
            e: (m, n) room; 0 where closed.
            out: (values, m) the values of each row.
            window: the open positions.
            centred: whether the scores of each row have mean zero.
        """
        if not centred:
            window.fill_closed(s, 0.0)
            mean = s.sum(1) / (window.count if isinstance(window.count, int) else window.count.clamp(min=1))
            s -= mean[:, None]
            out[_OFFSET].add_(mean)
        # Closed scores must not be the smallest, nor the largest. A finite filler for the latter keeps exponentials from being NaN.
        window.fill_closed(s, torch.inf)
        torch.amin(s, 1, out=out[_LOW])
        window.fill_closed(s, SAFE[0])
        torch.amax(s, 1, out=out[_HIGH])
        if float(out[_HIGH].max()) <= SAFE[1] and float(out[_LOW].min()) >= SAFE[0]:
            # No exponential overflows, so none needs a shift: this saves one pass over the block.
            out[_SHIFT].zero_()
            torch.exp(s, out=e)
            window.fill_closed(e, 0.0)
            torch.sum(e, 1, out=out[_TOTAL])
        else:
            # softmax shifts by the largest score itself. The shift that makes its total 1 is read off the largest probability.
            torch.softmax(s, 1, out=e)
            window.fill_closed(e, 0.0)
            torch.sub(out[_HIGH], e.amax(1).log_(), out=out[_SHIFT])
            out[_TOTAL].fill_(1.0)
        window.fill_closed(s, 0.0)
        out[_FIRST] = e[:, 0]
        _row_dots(e, s if not bool(out[_SHIFT].any()) else s - out[_SHIFT][:, None], out[_DOT])
        _row_dots(s, s, out[_SQUARES])

    def finish(self) -> AttentionRows:
        """The numbers of each row, from its values."""
        # Rows were summed in float32 within a block. What follows takes differences of logarithms, so it needs float64.
        values = self.values.double()
        offset, squares, low, high, shift, total, dot, first = values[:_LOWER]
        values = values.masked_fill_(self.open == 0, torch.nan)
        log_sum_exp = shift + total.log()
        median = torch.exp(values[_LOWER:] - log_sum_exp).mean(0) if len(values) > _LOWER else None
        return AttentionRows(
            entropy=(total.log() - dot / total).clamp_(min=0.0),
            maximum=torch.exp(high - log_sum_exp).clamp_(max=1.0),
            minimum=torch.exp(low - log_sum_exp).clamp_(max=1.0),
            median=median,
            open=self.open,
            mean=offset,
            sd=(squares / self.open).sqrt_(),
            first=first / total,
            sees_first=self.sees_first,
            received=self.received.double(),
            low=low + offset,
            high=high + offset,
        )


def _row_dots(a: Tensor, b: Tensor, out: Tensor) -> None:
    """Σ a·b by row. numpy needs no room for the products, torch does."""
    np.vecdot(a.numpy(), b.numpy(), out=out.numpy())


def _middle_scores(s: Tensor, lower: Tensor, upper: Tensor, count: Tensor | int) -> None:
    """Write the two middle ones of each row's open scores; closed ones must be infinite. The rows are sorted in place."""
    s.numpy().sort(1)
    if isinstance(count, int):
        lower.copy_(s[:, (count - 1) // 2])
        upper.copy_(s[:, count // 2])
    else:
        for out, k in ((lower, (count - 1) // 2), (upper, count // 2)):
            out.copy_(s.gather(1, k.clamp(0, s.shape[1] - 1)[:, None])[:, 0])
