"""Figure 6a of "Anisotropy Is Inherent to Self-Attention": the cosine that enters an untrained block and the one that leaves it."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import PALETTE, grid
from isoscope.drawing.bias import BiasCurve, bias_panel, bias_points, by_network

STATES = [BiasCurve("block_cosine", "input", True, PALETTE[0]), BiasCurve("block_cosine", "output", False, PALETTE[1])]


@figure(
    title="An untrained block: cosine of its input and output",
    caption="Mean cosine over all pairs of what enters and of what leaves an untrained block, by the norm of the bias that its inputs "
    "share, and the difference of the two beside it. Line: mean over draws of weights, inputs and the direction of the bias; "
    "band: their range.",
)
def block_cosine(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Two panels a network: both cosines, and output minus input."""
    own = by_network(series[series["name"].eq("block_cosine")])
    enters = own[own["layer"].eq(0)].drop_duplicates(["line", "seed", "x"])[["line", "seed", "x", "y"]]
    gain = own[own["layer"].gt(0)].merge(enters, on=["line", "seed", "x"], suffixes=("", "_in"))
    gain = gain.assign(y=gain["y"] - gain["y_in"], name="gain")
    both, known = bias_points(own, STATES)
    more, also = bias_points(gain, [BiasCurve("gain", "output minus input", False, PALETTE[2])])
    panels = []
    for model, points in both.groupby("line", sort=False):
        panels.append(bias_panel(points, [*known, *also], title=str(model), y="mean cosine", near_zero=True))
        rest = more[more["line"].eq(model)]
        panels.append(bias_panel(rest, [*known, *also], title=f"{model}: gain", y="difference of cosines", near_zero=True))
    return grid(panels, table)
