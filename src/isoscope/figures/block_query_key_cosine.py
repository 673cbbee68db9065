"""Figure 8a of "Anisotropy Is Inherent to Self-Attention": the cosine of an untrained block's queries and keys."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import PALETTE
from isoscope.drawing.bias import BiasCurve, bias_figure

CURVES = [
    BiasCurve("block_query_cosine", "queries, by head", False, PALETTE[0]),
    BiasCurve("block_key_cosine", "keys, by head", False, PALETTE[1]),
    BiasCurve("block_query_cosine_whole", "queries, whole", False, PALETTE[5], (4, 2)),
    BiasCurve("block_key_cosine_whole", "keys, whole", False, PALETTE[3], (4, 2)),
]


@figure(
    title="An untrained block: cosine of queries and keys",
    caption="Mean cosine over all pairs, in each head's own dimensions and averaged over heads, and (dashed) with all heads side by "
    "side as one vector. Line: mean over draws; band: their range.",
)
def block_query_key_cosine(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A panel a network."""
    return bias_figure(table, series, CURVES, y="mean cosine", near_zero=True)
