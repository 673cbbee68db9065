"""Figure 9 of "Anisotropy Is Inherent to Self-Attention": rows of attention of an untrained block, and how far they are from uniform."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import PALETTE, grid
from isoscope.drawing.bias import BiasCurve, bias_panel, bias_points

CURVES = [
    BiasCurve("block_row_max", "maximum", False, PALETTE[1]),
    BiasCurve("block_row_median", "median", False, PALETTE[2]),
    BiasCurve("block_row_min", "minimum", False, PALETTE[0]),
]
GAP = [
    BiasCurve("block_entropy_gap", "log of open positions minus entropy", False, PALETTE[4]),
    BiasCurve("block_half_row_variance", "half the variance of a row's scores", False, PALETTE[7], (2, 2)),
]


@figure(
    title="An untrained block: rows of attention",
    caption="Largest, median and smallest probability of a row, averaged over rows, heads and sequences, by the norm of the bias; "
    "beside it how far the entropy lies below that of uniform attention, with what a small spread of scores predicts. Line: "
    "mean over draws; band: their range.",
)
def block_rows(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Two panels a network."""
    points, known = bias_points(series, CURVES)
    gaps, also = bias_points(series, GAP)
    panels = []
    for model, own in points.groupby("line", sort=False):
        panels.append(bias_panel(own, [*known, *also], title=str(model), y="probability", log=True))
        rest = gaps[gaps["line"].eq(model) & gaps["min"].gt(0)]
        if len(rest):
            panels.append(bias_panel(rest, [*known, *also], title=f"{model}: entropy", y="nats below uniform", log=True))
    return grid(panels, table)
