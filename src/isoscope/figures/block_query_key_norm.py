"""Figure 8b of "Anisotropy Is Inherent to Self-Attention": the norm of an untrained block's queries and keys."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import PALETTE
from isoscope.drawing.bias import BiasCurve, bias_figure

CURVES = [
    BiasCurve("block_query_norm", "queries", False, PALETTE[0]),
    BiasCurve("block_key_norm", "keys", False, PALETTE[1]),
]


@figure(
    title="An untrained block: norms of queries and keys",
    caption="Mean norm of a head's queries and keys, averaged over heads. Line: mean over draws; band: their range.",
)
def block_query_key_norm(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A panel a network."""
    return bias_figure(table, series, CURVES, y="mean norm of a head", near_zero=False)
