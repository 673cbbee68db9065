"""The norms of every layer's vectors."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import POLICY_IS_CHOSEN, decades, grid, in_layers, labelled, layer_axis, layered, lines, records

CELL, MEAN = "#3f74b5", "#e4762b"


@figure(
    title="Norms",
    caption="How the vectors' norms are spread in each layer: the stronger a cell's colour, the more points have that norm (both scales "
    "logarithmic). The orange line is the mean norm. Cells far above the rest are a few tokens of enormous norm, which are enough to make "
    "the top share large by themselves.",
)
def norms(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One panel a line: layer by norm, shaded by the share of points."""
    table, series = labelled(table, series)
    rows = in_layers(series)
    rows = rows[rows["name"].eq("norms") & rows["kind"].eq("hidden") & (rows["y"] > 0) & (rows["x"] > 0)]
    means = in_layers(table)
    means = means[means["metric"].eq("mean_norm") & means["kind"].eq("hidden") & (means["value"] > 0)]
    return grid([panel(name, rows[rows["line"] == name], means[means["line"] == name]) for name in lines(rows)], table, own_colours=True)


def panel(name: str, rows: pd.DataFrame, means: pd.DataFrame) -> Any:
    """One model's heat map; a bin that reaches down to zero is cut at half its centre, as the axis is logarithmic."""
    import altair as alt

    width = rows["weight"].fillna(0.0).clip(lower=rows["x"] * 0.03)  # after a norm all points may share one bin of no width
    bottom = (rows["x"] - width / 2).where(rows["x"] > width / 2, rows["x"] / 2)
    rows = rows.assign(bottom=[float(f"{x:.5g}") for x in bottom], top=[float(f"{x:.5g}") for x in rows["x"] + width / 2])
    ticks = [step * power for power in decades(rows["x"]) for step in (1, 2, 5)]
    y = alt.Y(
        "bottom:Q", title="norm", scale=alt.Scale(type="log", nice=False, domain=reach(rows)), axis=alt.Axis(values=ticks, format="~g")
    )
    tooltip = [
        alt.Tooltip("layer:Q"),
        alt.Tooltip("x:Q", title="norm", format=".4g"),
        alt.Tooltip("y:Q", title="share of points", format=".3g"),
    ]
    legend = alt.Legend(
        title="share", format="~g", symbolType="square", symbolFillColor=CELL, symbolStrokeWidth=0, values=[0.001, 0.01, 0.1, 1]
    )
    shade = alt.Opacity("y:Q", scale=alt.Scale(type="log", domain=[0.0005, 1], range=[0.3, 1], clamp=True), legend=legend)
    cells = alt.Chart({"values": records(rows, ["policy", "layer", "x", "y", "bottom", "top"])}).mark_rect(fill=CELL)
    cells = cells.transform_calculate(left="datum.layer - 0.5", right="datum.layer + 0.5")
    cells = cells.encode(x=layer_axis("left"), x2=alt.X2("right:Q"), y=y, y2=alt.Y2("top:Q"), opacity=shade, tooltip=tooltip)
    mean = alt.Chart({"values": records(means.sort_values("layer"), ["policy", "layer", "value"])})
    mean_tip = [alt.Tooltip("layer:Q"), alt.Tooltip("value:Q", title="mean norm", format=".6g")]
    line = mean.mark_line(stroke=MEAN, strokeWidth=1.8, point=alt.OverlayMarkDef(color=MEAN, size=22))
    line = line.encode(x=layer_axis(), y=alt.Y("value:Q"), tooltip=mean_tip)
    layers = [chart.transform_filter(POLICY_IS_CHOSEN) for chart in (cells, line)]
    return layered(*layers).properties(title=name)


def reach(rows: pd.DataFrame) -> list[float]:
    """The norms that the axis shows: all of them, and a factor of ten at least, so that nearly equal norms look nearly equal."""
    low, high = float(rows["bottom"].min()), float(rows["top"].max())
    spare = max(1.0, (10 * low / high) ** 0.5)
    return [low / spare, high * spare]
