"""From the tensors of a forward pass to the statistics of their sites."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.models.tapping.attention_rows import AttentionRows
from isoscope.models.tapping.layout import Layout
from isoscope.statistics.attention_statistics import AttentionStatistics
from isoscope.statistics.head_statistics import Heads
from isoscope.statistics.kernel import DENSE, Sums, as_block, as_float64, block_sums
from isoscope.statistics.site_statistics import SiteStatistics

SMALL_D = 256
"""Up to this dimension products are taken in float64: such models are quick anyway, and their small spectra show every rounding."""


def reduce_state(statistics: SiteStatistics, points: Tensor, layout: Layout, site: Site, model: str) -> None:
    """Add one hidden state (b, t, d) to the statistics of its site."""
    b, t, d = points.shape
    x = as_block(points)
    if layout.sink_codes is not None:
        layout = layout.with_sinks(np.sqrt(as_float64((x * x).sum(-1))))
    # torch takes the products of second moments even if numpy takes the sums: otherwise both would keep threads of their own awake.
    rows = points.detach().reshape(b * t, d)
    rows = rows.double() if d <= SMALL_D else rows if rows.dtype == torch.float64 else rows.float()
    parts: list[Sums | None] = [None] * len(statistics.names)
    for code, mask, positions, rest in layout.slices():
        # A slice that fills most of the batch is summed in place, with a mask. The rows of a sparse one are gathered first.
        if len(positions) > DENSE * b * t:
            sums = block_sums(x, mask)
            chosen, drop = rows, rest
        else:
            chosen, drop = rows[torch.as_tensor(positions)], None
            sums = _sums_by_sequence(as_block(chosen), positions // t, b)
        if sums.nonfinite:
            raise not_finite(model, site, f"{sums.nonfinite} of {len(positions)} {statistics.names[code]} vectors of one batch")
        statistics.moments[code].add(sums, chosen, drop)
        parts[code] = sums
    if statistics.groups is not None:
        statistics.groups.update(layout.group, parts, unit=layout.unit, last=layout.last)
    if statistics.sample is not None:
        statistics.sample.update(rows, layout.hashes.ravel(), np.repeat(layout.item, t), layout.index.ravel(), layout.codes.ravel())


def reduce_heads(heads: Heads, tensor: Tensor, layout: Layout, site: Site, model: str) -> None:
    """Add queries or keys (b, h, t, e) to the statistics of their heads."""
    x = tensor.detach()
    x = x if x.dtype == torch.float64 else x.float()
    bad = heads.update(x, layout.codes, layout.group, unit=layout.unit, last=layout.last)
    if bad:
        code, count = next(iter(bad.items()))
        raise not_finite(model, site, f"{count} {heads.names[code]} vectors of one batch, over all heads")
    heads.draw(x, layout.hashes, layout.item, layout.index, layout.codes)


def reduce_rows(
    statistics: AttentionStatistics, attention: AttentionRows, layout: Layout, site: Site, model: str, rows: np.ndarray | None = None
) -> None:
    """Add rows of attention to the statistics of their site; `rows` numbers the query rows that were taken, None says all."""
    codes = layout.codes if rows is None else layout.codes[:, rows]
    bad = statistics.update(attention.arrays(), codes, layout.group)
    if bad:
        raise not_finite(model, site, f"{bad} rows of attention of one batch, over all heads")


def _sums_by_sequence(rows: Any, owner: np.ndarray, b: int) -> Sums:
    """The sums of gathered rows, each added to the sequence that owns it."""
    each = block_sums(rows[:, None, :])
    sums = Sums.nothing(b, rows.shape[-1])
    starts = np.flatnonzero(np.diff(owner, prepend=-1))  # positions come in order, so the rows of a sequence are adjacent
    for name in ("n", "zeros", "total", "directions", "squared", "norm", "norm2"):
        getattr(sums, name)[owner[starts]] = np.add.reduceat(getattr(each, name), starts)
    sums.nonfinite = each.nonfinite
    return sums


def not_finite(model: str, site: Site, which: str) -> IsoscopeError:
    """The error for NaN or infinity in a state: `which` vectors or rows, and how many."""
    return IsoscopeError(
        f"{model} gives NaN or infinity at {site.label}: {which}. Nothing was averaged; look at the weights and the inputs, "
        "or measure in float32 if it ran in a shorter type."
    )
