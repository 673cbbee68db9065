"""From tensors of attention to the statistics of heads."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from isoscope.core.site import Site
from isoscope.models.attention_rows import AttentionRows
from isoscope.models.tap import Layout, not_finite
from isoscope.statistics.attention import AttentionStatistics
from isoscope.statistics.heads import Heads


def absorb_heads(heads: Heads, tensor: Tensor, layout: Layout, site: Site, model: str) -> None:
    """Add queries or keys (b, h, t, e) to the statistics of their heads."""
    x = tensor.detach()
    x = x if x.dtype == torch.float64 else x.float()
    bad = heads.update(x, layout.codes, layout.group, unit=layout.unit, last=layout.last)
    if bad:
        code, count = next(iter(bad.items()))
        raise not_finite(model, site, f"{count} {heads.names[code]} vectors, over all heads,")
    heads.draw(x, layout.hashes, layout.item, layout.index, layout.codes)


def absorb_rows(
    statistics: AttentionStatistics, found: AttentionRows, layout: Layout, site: Site, model: str, rows: np.ndarray | None = None
) -> None:
    """Add rows of attention to the statistics of their site; `rows` are the query rows, where not all were taken."""
    codes = layout.codes if rows is None else layout.codes[:, rows]
    bad = statistics.update(found.arrays(), codes, layout.group)
    if bad:
        raise not_finite(model, site, f"{bad} rows of attention, over all heads,")
