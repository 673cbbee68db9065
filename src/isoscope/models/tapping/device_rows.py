"""Rows of attention reduced where they are: the scores of a call are taken again, and about twelve operations of torch reduce them.

Everything is read off the logarithms of the probabilities, log p = s − logsumexp(s), which have the spread of the scores themselves. Closed
positions, and all of a row of padding, are set to a number so low that they have no probability.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from isoscope.models.tapping.attention_call import AttentionCall
from isoscope.models.tapping.batch_plan import send_integers
from isoscope.models.tapping.device_memory import DeviceMemory, HostMemory
from isoscope.models.tapping.device_scores import Operands, heads_first
from isoscope.models.tapping.layout import Layout
from isoscope.statistics.attention_statistics import EDGES, ROW_SUMS, SEQUENCE_SUMS, SINK, AttentionStatistics
from isoscope.statistics.jackknife_groups import GROUPS

LOW = -1e30
"""The score of a closed position."""
SCORES = 1 << 25
"""Scores that are reduced at a time."""
WAITING = 1 << 25
"""The most numbers of rows, keys and scores that are kept before they are added to the sums."""


@dataclass(frozen=True)
class RowPlan:
    """The rows of one layout, on the device."""

    codes: Tensor
    """(b, r) the slice of each row; −1 for padding."""
    group: Tensor
    padded: bool
    rows: Tensor | None
    """(r,) the query rows that are taken; None for all."""
    few: Tensor
    """The query rows whose scores are counted in the histogram."""
    few_codes: Tensor

    @cached_property
    def counted(self) -> Tensor:
        """(1, b, r) bool, False for padding."""
        return (self.codes >= 0)[None]

    @cached_property
    def few_padding(self) -> Tensor:
        """(1, b, few, 1) bool, True for padding."""
        return (self.few_codes < 0)[None, ..., None]


@dataclass(frozen=True)
class Closed:
    """What a mask closes to the rows of a plan, computed once for all layers that are given the same mask."""

    mask: Tensor | None
    closed: Tensor | None
    """(h or 1, b or 1, r or 1, s) bool, all of a row of padding included; None if nothing is closed."""
    few: Tensor | None
    """The same for the rows of the histogram."""
    open: Tensor
    """(h or 1, b or 1, r or 1) how many positions each row may look at."""
    sees_first: Tensor
    weights: Tensor
    """(h, b, 1, r) 1 for rows that count."""


@dataclass(frozen=True)
class Reduced:
    """The numbers of the rows of a call, (h, b, r) each."""

    top: Tensor  # the largest score
    largest: Tensor  # the largest probability
    smallest: Tensor  # the logarithm of the smallest
    total: Tensor  # Σ log p
    length: Tensor  # the square root of Σ (log p)²
    dot: Tensor  # Σ p log p, the negative entropy
    first: Tensor
    open: Tensor
    sees_first: Tensor


class RowBank:
    """The rows of attention of many heads, which see the same positions."""

    def __init__(self, memory: DeviceMemory, names: list[str]) -> None:
        self.memory, self.names, self.channels = memory, names, 0
        self._fields: dict[str, int] = {}

    def add_channels(self, count: int) -> int:
        """Make room for more heads, and return the first of them."""
        self.channels += count
        return self.channels - count

    def declare(self) -> None:
        """Declare all arrays."""
        c, s = self.channels, len(self.names)
        shapes = {"sums": (c, GROUPS, s, len(ROW_SUMS)), "sequences": (c, GROUPS, len(SEQUENCE_SUMS)), "bad": (c,)}
        self._fields = {name: self.memory.declare_sums(*shape) for name, shape in shapes.items()}
        self._fields["histogram"] = self.memory.declare(c, len(EDGES), dtype=torch.int64)

    def begin(self) -> None:
        """Start with empty statistics in memory that is zero."""
        self._sums = {name: self.memory.sums(self._fields[name]) for name in ("sums", "sequences", "bad")}
        self._histogram = self.memory.tensor(self._fields["histogram"])
        device = self.memory.device
        self._slices = torch.arange(len(self.names), device=device)[:, None]
        self._edges = torch.from_numpy(histogram_edges()).to(device)
        self._one = torch.ones((1, 1), dtype=torch.int64, device=device)
        self._plans: dict[int, tuple[Layout, RowPlan]] = {}
        self._closed: dict[tuple[int, ...], Closed] = {}
        self._plan: RowPlan | None = None
        self._first = self._stop = 0
        self._waiting: list[tuple[Reduced, Tensor, Tensor]] = []

    def end_batch(self) -> None:
        """Add everything that waits; the next layouts are those of another batch."""
        self.flush()
        self._plans.clear()
        self._closed.clear()
        self._plan = None

    def _make_plan(self, layout: Layout, rows: np.ndarray | None, few: np.ndarray) -> RowPlan:
        codes = layout.codes if rows is None else layout.codes[:, rows]
        sent = send_integers([codes, layout.group, few, layout.codes[:, few], *([] if rows is None else [rows])], self.memory.device)
        padded = bool((layout.codes < 0).any())
        return RowPlan(sent[0], sent[1], padded, None if rows is None else sent[4], sent[2], sent[3])

    def reduce(self, first: int, call: AttentionCall, layout: Layout, rows: np.ndarray | None, few: np.ndarray) -> None:
        """Add the rows of a call to its heads: all, or those numbered in `rows`; the scores of `few` rows go into the histogram."""
        if id(layout) not in self._plans:
            self._plans[id(layout)] = layout, self._make_plan(layout, rows, few)
        plan = self._plans[id(layout)][1]
        if first != self._stop or plan is not self._plan:
            self.flush()
        if not self._waiting:
            self._first = self._stop = first
        self._plan = plan
        blocks, parts = list(self._blocks(call, plan)), []
        counts_apart = len(blocks) > 1 or plan.rows is not None
        operands, closed = Operands.of(call), self._find_closed(call, plan, counts_apart)
        for sequences, block in blocks:
            scores = operands.products(sequences, block if plan.rows is None else plan.rows[block])
            parts.append(self._reduce_block(scores, closed, sequences, block))
            if not counts_apart:
                histogram = scores.index_select(2, plan.few)  # what a mask closes has the score LOW already
            del scores
        if counts_apart:
            histogram = operands.products(slice(None), plan.few)
            histogram = histogram if closed.few is None else histogram.masked_fill_(closed.few, LOW)
        self._waiting.append((*_join_blocks(parts, len(call.query)), histogram.float().flatten(1)))
        self._stop = first + call.query.shape[1]
        numbers = len(Reduced.__dataclass_fields__) * plan.codes.numel() + sum(part[0].numel() for part in self._waiting[-1][1:])
        if (self._stop - self._first) * numbers > WAITING:
            self.flush()

    def _find_closed(self, call: AttentionCall, plan: RowPlan, counts_apart: bool) -> Closed:
        """What the mask of a call closes; computed once for all layers that share it. Scores that are written out have a mask each."""
        if call.scores is not None:
            return self._close(call, plan, counts_apart)
        key = id(call.mask), id(plan), call.query.shape[1], call.key.shape[2]  # layers may differ in heads and keys
        if key not in self._closed:
            self._closed[key] = self._close(call, plan, counts_apart)
        return self._closed[key]

    def _closed_rows(self, call: AttentionCall, rows: Tensor | None, padding: Tensor | None) -> Tensor | None:
        """What a mask, and padding, close to these rows; None if nothing."""
        if call.mask is None:
            return padding
        mask = heads_first(call.mask).expand(-1, -1, -1, call.key.shape[2])
        closed = ~(mask if rows is None or mask.shape[2] == 1 else mask.index_select(2, rows))
        return closed if padding is None else closed | padding

    def _close(self, call: AttentionCall, plan: RowPlan, counts_apart: bool) -> Closed:
        """What the mask of a call closes."""
        (b, h, _, _), s, device = call.query.shape, call.key.shape[2], call.query.device
        dtype = torch.float64 if call.query.dtype == torch.float64 else torch.float32
        closed = self._closed_rows(call, plan.rows, ~plan.counted[..., None] if plan.padded else None)
        # If all rows are reduced at once, the histogram's are among them.
        few = self._closed_rows(call, plan.few, plan.few_padding if plan.padded else None) if counts_apart else None
        if closed is None:
            ones = torch.ones((h, b, 1, plan.codes.shape[1]), dtype=dtype, device=device)
            return Closed(None, None, None, torch.full((1, 1, 1), s, device=device), ones[:1, :1, 0, :1], ones)
        opened = s - closed.expand(-1, -1, -1, s).sum(-1)
        weights = ((opened > 0) & plan.counted).to(dtype).expand(h, -1, -1)[:, :, None].contiguous()
        return Closed(call.mask, closed, few, opened, (~closed[..., 0]).to(dtype), weights)

    def _blocks(self, call: AttentionCall, plan: RowPlan) -> Iterator[tuple[slice, slice]]:
        """Sequences and rows that are reduced together: all, unless these are too many scores."""
        b, h, s, r = call.query.shape[0], call.query.shape[1], call.key.shape[2], plan.codes.shape[1]
        rows = max(1, min(r, SCORES // max(h * s, 1)))
        sequences = max(1, SCORES // max(h * s * r, 1))
        for i in range(0, b, sequences):
            for j in range(0, r, rows):
                yield slice(i, min(i + sequences, b)), slice(j, min(j + rows, r))

    def _reduce_block(self, s: Tensor, closed: Closed, sequences: slice, rows: slice) -> tuple[Reduced, Tensor]:
        """The numbers of the rows (h, b, r, s), and (h, b, s) the probability that each key receives."""

        def cut(part: Tensor) -> Tensor:
            part = part if part.shape[1] == 1 else part[:, sequences]
            return part if part.shape[2] == 1 else part[:, :, rows]

        shut, wide = None if closed.closed is None else cut(closed.closed), self.memory.dtype
        if shut is not None:
            s.masked_fill_(shut, LOW)
        logs = torch.log_softmax(s, -1)
        p = logs.exp()
        if shut is not None:
            logs.masked_fill_(shut, 0.0)
        weights = closed.weights[:, sequences, :, rows]
        reduced = Reduced(
            top=s.amax(-1),
            largest=p.amax(-1),
            smallest=logs.amin(-1),
            total=logs.sum(-1, dtype=wide),
            length=torch.linalg.vector_norm(logs, dim=-1, dtype=wide),
            dot=logs.mul_(p).sum(-1, dtype=wide),
            first=p[..., 0].clone(),  # a view would keep all probabilities in memory
            open=cut(closed.open).expand(s.shape[:3]),
            sees_first=cut(closed.sees_first).expand(s.shape[:3]),
        )
        return reduced, torch.bmm(weights.flatten(0, 1), p.flatten(0, 1)).view(*s.shape[:2], -1)

    def _count(self, scores: Tensor, first: int) -> None:
        """Add the scores (h, …) to the histograms of the heads from the first on; closed ones go into a bin of their own, the first."""
        bins = torch.bucketize(scores, self._edges, right=True)
        self._histogram[first : first + len(bins)].scatter_add_(1, bins, self._one.expand_as(bins))

    def flush(self) -> None:
        """Add what waits to the sums of its heads."""
        if not self._waiting or self._plan is None:
            return
        plan, at, wide = self._plan, slice(self._first, self._stop), self.memory.dtype
        columns = {name: torch.cat([getattr(part, name) for part, *_ in self._waiting]) for name in Reduced.__dataclass_fields__}
        x = {name: column.to(wide) for name, column in columns.items()}
        counted = plan.counted & (columns["open"] > 0)
        n = x["open"].clamp_(min=1.0)
        log, offset = n.log(), x["total"] / n
        # A row's scores lie by logsumexp(s) above their logarithms; the largest of both tells by how much.
        mean, entropy = offset + x["top"] - x["largest"].log(), -x["dot"]
        variance = (x["length"] ** 2 / n - offset**2).clamp_(min=0.0)
        odd = entropy + mean + variance
        self._sums["bad"].add(at, (counted & (odd - odd != 0)).sum((1, 2)).to(wide))
        many = n > 1
        values = torch.stack(
            [
                torch.ones_like(n),
                entropy,
                many.to(wide),
                torch.where(many, entropy / log, 0.0),
                log,
                1 / n,
                x["largest"],
                x["smallest"].exp(),
                torch.zeros_like(n),
                mean,
                variance,
                n,
                n * mean,
                n * (variance + mean**2),
                x["first"],
                x["sees_first"] / n,
            ],
            -1,
        ).masked_fill_(~counted[..., None], 0.0)
        members = (plan.codes[:, None] == self._slices).to(wide)
        self._sums["sums"].index_add(at, plan.group, torch.einsum("cbtk,bst->cbsk", values, members))
        top = self._largest_mass().to(wide)
        rows, share = values[..., 0].sum(-1), values[..., 5].sum(-1)
        lowest = values[..., 7].masked_fill(~counted, torch.inf).amin(-1)
        sequences = torch.stack(
            [torch.ones_like(rows), rows, share, top, (top > SINK * rows).to(wide), values[..., 6].amax(-1), lowest], -1
        )
        self._sums["sequences"].index_add(at, plan.group, sequences.masked_fill_((rows == 0)[..., None], 0.0))
        for first, scores in self._together([scores for *_, scores in self._waiting]):
            self._count(scores, first)
        self._waiting = []

    def _largest_mass(self) -> Tensor:
        """(c, b) the probability that the most attended key of each sequence receives."""
        return torch.cat([mass.amax(-1) for _, mass in self._together([mass for _, mass, _ in self._waiting])])

    def _together(self, tensors: list[Tensor]) -> Iterator[tuple[int, Tensor]]:
        """Tensors that wait, joined where layers have as many keys, and the first head of each."""
        first = self._first
        for _, parts in groupby(tensors, key=lambda part: part.shape[-1]):
            joined = torch.cat(list(parts))
            yield first, joined
            first += len(joined)

    def bad(self, memory: HostMemory, channels: slice) -> int:
        """How many rows of these heads held NaN or infinity."""
        return round(float(memory.sums(self._fields["bad"])[channels].sum()))

    def statistics(self, memory: HostMemory, channels: slice, empty: AttentionStatistics) -> AttentionStatistics:
        """The statistics of these heads, on the host; `empty` are those of their site."""
        made = AttentionStatistics(empty.h, empty.e, empty.names, scale=empty.scale, median=empty.median)
        made.sums = memory.sums(self._fields["sums"])[channels].swapaxes(1, 2).copy()
        made.sequences = memory.sums(self._fields["sequences"])[channels]
        made.histogram = memory.array(self._fields["histogram"])[channels, 1:].copy() if empty.histogram is not None else None
        return made


def _join_blocks(parts: list[tuple[Reduced, Tensor]], b: int) -> tuple[Reduced, Tensor]:
    """The numbers of all rows, and the mass on each key, from blocks, each of some sequences and some rows."""
    if len(parts) == 1:
        return parts[0]
    each = len(parts) // -(-b // parts[0][1].shape[1])  # blocks of rows of the same sequences
    starts = range(0, len(parts), each)

    def join(name: str) -> Tensor:
        return torch.cat([torch.cat([getattr(part, name) for part, _ in parts[i : i + each]], 2) for i in starts], 1)

    mass = torch.cat([torch.stack([received for _, received in parts[i : i + each]]).sum(0) for i in starts], 1)
    return Reduced(**{name: join(name) for name in Reduced.__dataclass_fields__}), mass


def histogram_edges() -> np.ndarray:
    """The inner edges of the histogram's bins for `torch.bucketize`, and one before them that sets closed positions apart.

    A bin of negative scores holds its lower edge's mirror image, so its edges are moved by one step of float32.
    """
    inner = EDGES[1:-1].astype(np.float32)
    inner = np.where(inner < 0, np.nextafter(inner, np.float32(np.inf)), inner)
    return np.concatenate([[np.float32(LOW / 2)], inner]).astype(np.float32)
