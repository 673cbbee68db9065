"""Rows of attention reduced to numbers, block by block: the B × H × L × L tensor of probabilities is never held.

A row of scores s gives its entropy as logsumexp(s) − Σ p·s; its largest, median and smallest probability are those of its scores, as
exp(s − logsumexp(s)). What all scores of a row share changes no probability, so that every row is reduced about its own mean, which
keeps the digits, and the mean is added again to what is said of the scores themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isoscope.core.compiled import compiled
from isoscope.models.attention import Attended
from isoscope.models.attention_blocks import SAFE, Item, Window
from isoscope.models.scores import CLOSED
from isoscope.statistics.attention import score_counts

BLOCK = 1 << 17
"""Scores reduced at a time by one thread: with their exponentials they stay in its second-level cache."""
LARGE_BLOCK = 1 << 21
"""On an accelerator, which has no such cache to keep to."""
_VALUES = _OFFSET, _SQUARES, _LOW, _HIGH, _SHIFT, _TOTAL, _DOT, _FIRST, _LOWER, _UPPER = tuple(range(10))
"""What a row gives: its mean; about the mean Σs², the smallest and the largest score; what was taken off before exponentials, their sum,
their sum times the scores less that, the first of them; the two scores in the middle."""


@dataclass(frozen=True)
class AttentionRows:
    """What is kept of each row of attention: float64 (b, h, r) unless said otherwise, NaN where a row does not count or sees nothing."""

    entropy: Tensor
    maximum: Tensor
    minimum: Tensor
    median: Tensor | None
    """Probabilities. The median of an even number of positions is the mean of the two in the middle."""
    open: Tensor
    """int64, how many positions the row may look at; 0 where the row does not count."""
    mean: Tensor
    sd: Tensor
    """Of the row's scores over its open positions (divided by their number)."""
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
        """What was found as numpy arrays, by name: what `AttentionStatistics.update` takes."""
        return {name: value.cpu().numpy() for name, value in vars(self).items() if value is not None}


def attention_rows(call: Attended, *, counted: Tensor | None = None, rows: Tensor | None = None, median: bool = False) -> AttentionRows:
    """The rows of one call of attention.

    Args:
        call: what the tap saw.
        counted: (b, t) bool, False where a row is padding; all rows if None.
        rows: (r,) the query rows to use; all if None.
        median: also the median of each row, which costs as much as all the rest.
    """
    with torch.inference_mode():
        kept = _Kept(call, len(rows) if rows is not None else call.query.shape[2], median)
        for i in range(call.query.shape[0]):
            chosen = torch.arange(call.query.shape[2], device=call.query.device) if rows is None else rows.to(call.query.device)
            place = None
            if counted is not None and not bool((here := counted[i].to(chosen.device)[chosen]).all()):
                place = here.nonzero()[:, 0]
                chosen = chosen[place]
            if len(chosen):
                kept.add(i, place, Item.of(call, i, None if rows is None and place is None else chosen, kept.keys))
        return kept.rows()


def scores_of(call: Attended, rows: Tensor) -> tuple[Tensor, Tensor]:
    """(b, h, r, s) the scores of a few query rows, and which of them are open."""
    h, rows = call.query.shape[1], rows.to(call.query.device)

    def cut(part: Tensor) -> Tensor:
        part = part.reshape((1,) * (4 - part.dim()) + part.shape)
        return part[:, :, rows] if part.shape[2] > 1 else part

    if call.scores is not None:
        scores = cut(call.scores).float()
    else:
        key = call.key.repeat_interleave(h // call.key.shape[1], 1) if call.key.shape[1] < h else call.key
        scores = (call.query[:, :, rows].float() @ key.float().mT) * call.scale
        scores = scores if call.bias is None else scores + cut(call.bias)
    is_open = scores > CLOSED
    return scores, is_open if call.mask is None else is_open & cut(call.mask)


def count_scores(call: Attended, rows: Tensor, counted: Tensor) -> np.ndarray:
    """(h, bins) the open scores of a few query rows, counted between `isoscope.statistics.attention.EDGES`.

    `counted` (b, t) is False where a row is padding.
    """
    scores, is_open = (part.cpu().numpy() for part in scores_of(call, rows))
    seen = is_open & counted.cpu().numpy()[:, None, rows.cpu().numpy(), None]
    return np.stack([score_counts(scores[:, j][seen[:, j]]) for j in range(scores.shape[1])])


def without(call: Attended, *, mean_query: Tensor | None = None, dimensions: Tensor | None = None) -> Attended:
    """The same attention with a part of its queries removed: how sharp it would be without that part.

    Args:
        call: what the tap saw. Its bias and its mask stay; scores that the model wrote out do not.
        mean_query: (h, e) the mean query of each head, which is subtracted.
        dimensions: (h, n) the dimensions of each head that are set to zero.
    """
    query = call.query
    if mean_query is not None:
        query = query - mean_query.to(query)[None, :, None]
    if dimensions is not None:
        stays = query.new_ones(query.shape[1], query.shape[3]).scatter_(1, dimensions.to(query.device), 0.0)
        query = query * stays[None, :, None]
    return replace(call, query=query, scores=None)


class _Kept:
    """What is found of the rows of a call, and room for one block of scores and one of exponentials."""

    def __init__(self, call: Attended, r: int, median: bool) -> None:
        b, h, _, _ = call.query.shape
        s, device = call.key.shape[2], call.query.device
        like: dict[str, Any] = {"dtype": torch.float64 if call.query.dtype == torch.float64 else torch.float32, "device": device}
        own = device.type == "cpu" and like["dtype"] == torch.float32
        self.fused = compiled("isoscope.models.attention_fused") if own else None
        size = BLOCK * (torch.get_num_threads() if self.fused is None else 1) if device.type == "cpu" else LARGE_BLOCK
        self.step = max(size // max(s, 1), 1)
        self.room = torch.empty((2, min(self.step, r) * s), **like)
        self.keys = torch.empty(call.key[0].numel(), **like)
        self.ones = torch.ones(s, **like)
        self.values = torch.full((len(_VALUES) if median else _LOWER, b, h, r), torch.nan, **like)
        self.open = torch.zeros((b, h, r), dtype=torch.int64, device=device)
        self.sees_first = torch.zeros((b, h, r), dtype=torch.bool, device=device)
        self.received = torch.zeros((b, h, s), **like)

    def add(self, i: int, place: Tensor | None, item: Item) -> None:
        """Reduce the rows of sequence i; `place` says which of the rows they are, where they are not all."""
        h, m, _ = item.query.shape
        n = item.key.shape[1]
        values, is_open, sees_first = self.values[:, i], self.open[i], self.sees_first[i]
        if place is not None:
            values, is_open = values.new_full((len(values), h, m), torch.nan), is_open.new_zeros((h, m))
            sees_first = sees_first.new_zeros((h, m))
        received = self.received[i] if item.columns is None else self.received.new_zeros((h, n))
        blocks = [slice(start, min(start + self.step, m)) for start in range(0, m, self.step)]
        shared = [Window.of(item.opened(0, at), at.stop - at.start, n) for at in blocks] if item.alike else None
        leads = n > 0 and (item.columns is None or int(item.columns[0]) == 0)
        for j in range(h):
            for number, at in enumerate(blocks):
                window = shared[number] if shared is not None else Window.of(item.opened(j, at), at.stop - at.start, n)
                is_open[j, at] = window.count
                sees_first[j, at] = leads if window.seen is None or not leads else window.seen[:, 0]
                if window.between.stop > window.between.start:
                    self.block(item, j, at, window, values[:, j, at], received[j, window.between])
                    if not leads or window.between.start:
                        values[_FIRST, j, at] = 0.0
        if place is not None:
            self.values[:, i, :, place], self.open[i, :, place], self.sees_first[i, :, place] = values, is_open, sees_first
        if item.columns is not None:
            self.received[i, :, item.columns] = received

    def block(self, item: Item, j: int, at: slice, window: Window, values: Tensor, received: Tensor) -> None:
        """One block of rows of head j: its scores, what is found of them, and what its keys receive."""
        m, width = at.stop - at.start, window.between.stop - window.between.start
        s, e = self.room[:, : m * width].view(2, m, width).unbind()
        found = values.new_empty((len(values), m))
        item.block(j, at, window.between, s, found[_OFFSET])
        # With all keys before it and no bias, a row about the mean key has mean zero already.
        plain = item.mean is not None and item.scores is None and item.bias is None
        centred = plain and window.edge is None and width == item.key.shape[1]
        if self.fused is not None and window.spans is not None:
            mass = np.zeros(width, dtype=np.float32)
            self.fused.fused(s.numpy(), *window.spans, centred, found.numpy(), mass)
            received += torch.from_numpy(mass)
        else:
            self.reduce(s, e, found, window, centred=centred)
            weights = found[_TOTAL].reciprocal()
            received += torch.mv(e.T, weights if window.edge is None else weights.nan_to_num_(posinf=0.0))
        if len(found) > _LOWER:
            window.fill(s, torch.inf)
            _middle(s, found[_LOWER], found[_UPPER], window.count)
        values.copy_(found)

    def reduce(self, s: Tensor, e: Tensor, out: Tensor, window: Window, *, centred: bool) -> None:
        """One block of scores: `s` becomes the scores about their mean, `e` their exponentials.

        Args:
            s: (m, n) scores; 0 where closed, in the end.
            e: (m, n) room; 0 where closed.
            out: (values, m) what is found.
            window: what is open.
            centred: whether the scores of each row have mean zero.
        """
        if not centred:
            window.fill(s, 0.0)
            mean = s.sum(1) / (window.count if isinstance(window.count, int) else window.count.clamp(min=1))
            s -= mean[:, None]
            out[_OFFSET].add_(mean)
        window.fill(s, torch.inf)
        torch.amin(s, 1, out=out[_LOW])
        window.fill(s, SAFE[0])
        torch.amax(s, 1, out=out[_HIGH])
        if float(out[_HIGH].max()) <= SAFE[1] and float(out[_LOW].min()) >= SAFE[0]:
            out[_SHIFT].zero_()
            torch.exp(s, out=e)
            window.fill(e, 0.0)
            torch.mv(e, self.ones[: e.shape[1]], out=out[_TOTAL])
        else:
            torch.softmax(s, 1, out=e)
            window.fill(e, 0.0)
            torch.sub(out[_HIGH], e.amax(1).log_(), out=out[_SHIFT])
            out[_TOTAL].fill_(1.0)
        window.fill(s, 0.0)
        out[_FIRST] = e[:, 0]
        _dot(e, s if not bool(out[_SHIFT].any()) else s - out[_SHIFT][:, None], out[_DOT])
        _dot(s, s, out[_SQUARES])

    def rows(self) -> AttentionRows:
        """What was found, as the numbers that are wanted."""
        values = self.values.double()
        offset, squares, low, high, shift, total, dot, first = values[:_LOWER]
        values = values.masked_fill_(self.open == 0, torch.nan)
        lse = shift + total.log()
        median = torch.exp(values[_LOWER:] - lse).mean(0) if len(values) > _LOWER else None
        return AttentionRows(
            entropy=(total.log() - dot / total).clamp_(min=0.0),
            maximum=torch.exp(high - lse).clamp_(max=1.0),
            minimum=torch.exp(low - lse).clamp_(max=1.0),
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


def _dot(a: Tensor, b: Tensor, out: Tensor) -> None:
    """Σ a·b by row; numpy needs no room for the products."""
    if a.device.type == "cpu":
        np.vecdot(a.numpy(), b.numpy(), out=out.numpy())
    else:
        torch.linalg.vecdot(a, b, out=out)


def _middle(s: Tensor, lower: Tensor, upper: Tensor, count: Tensor | int) -> None:
    """The two scores in the middle of each row's open ones, the closed ones being infinite. The rows are put in order."""
    if s.device.type == "cpu":
        s.numpy().sort(1)
    else:
        s.copy_(s.sort(1).values)
    if isinstance(count, int):
        lower.copy_(s[:, (count - 1) // 2])
        upper.copy_(s[:, count // 2])
    else:
        for out, k in ((lower, (count - 1) // 2), (upper, count // 2)):
            out.copy_(s.gather(1, k.clamp(0, s.shape[1] - 1)[:, None])[:, 0])
