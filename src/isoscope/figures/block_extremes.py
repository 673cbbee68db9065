"""Figure 10 of "Anisotropy Is Inherent to Self-Attention": the extremes of whole sequences of attention."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import PALETTE
from isoscope.drawing.bias import BiasCurve, bias_figure

CURVES = [
    BiasCurve("block_sequence_max", "largest", False, PALETTE[1]),
    BiasCurve("block_sequence_min", "smallest", False, PALETTE[0]),
]


@figure(
    title="An untrained block: extremes of attention in a sequence",
    caption="The largest and the smallest probability of a whole sequence, over all rows and heads, averaged over sequences, by "
    "the norm of the bias. Line: mean over draws; band: their range.",
)
def block_extremes(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A panel a network."""
    return bias_figure(table, series, CURVES, y="probability", log=True)
