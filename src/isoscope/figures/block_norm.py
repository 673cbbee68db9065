"""Figure 6b of "Anisotropy Is Inherent to Self-Attention": the lengths of an untrained block's input and output, and where they cross."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.block import TRAINED
from isoscope.core.figure import figure
from isoscope.drawing import INK, PALETTE, grid, layered
from isoscope.drawing.bias import BiasCurve, bias_panel, bias_points, by_network

STATES = [
    BiasCurve("block_mean_norm", "input, mean of norms", True, PALETTE[0]),
    BiasCurve("block_mean_norm", "output, mean of norms", False, PALETTE[1]),
    BiasCurve("block_drift_norm", "input, norm of the mean", True, PALETTE[5], (4, 2)),
    BiasCurve("block_drift_norm", "output, norm of the mean", False, PALETTE[3], (4, 2)),
]


@figure(
    title="An untrained block: norms of its input and output",
    caption="Both readings of the norm, the mean of norms and the norm of the mean, of what enters and of what leaves. The rule marks "
    "N*, where input and output are equally long by the mean of norms (mean over draws); without one they never are. Grey, "
    "where a trained model was given: the range of the mean norms of its layers. Band: the range over draws.",
)
def block_norm(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A panel a network."""
    import altair as alt

    points, known = bias_points(series, STATES)
    numbers = by_network(table)
    trained = table.loc[table["metric"].eq(TRAINED), "value"]
    panels = []
    for model, own in points.groupby("line", sort=False):
        panel = bias_panel(own, known, title=str(model), y="norm")
        marks = numbers[numbers["line"].eq(model) & numbers["metric"].eq("norm_fixed_point") & numbers["value"].notna()]
        under = []
        if len(trained):
            reach = {"low": float(trained.min()), "high": float(trained.max())}
            under.append(alt.Chart({"values": [reach]}).mark_rect(color=INK, opacity=0.15).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q")))
        for value in marks["value"].head(1):
            at = {"x": round(float(value), 3), "text": f"N* = {value:.2f}"}
            rule = alt.Chart({"values": [at]}).encode(x=alt.X("x:Q"))
            under.append(rule.mark_rule(stroke=INK, strokeDash=[3, 3]))
            side = {"align": "right", "dx": -4} if value > own["x"].max() / 3 else {"align": "left", "dx": 4}
            under.append(rule.mark_text(color=INK, dy=-4, baseline="bottom", **side).encode(y=alt.value(210), text=alt.Text("text:N")))
        panels.append(layered(*under, panel, title=str(model)) if under else panel)
    return grid(panels, table, columns=3)
