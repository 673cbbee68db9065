"""The norms of the vectors in every layer."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.axes import decade_ticks, layer_axis, tooltips
from isoscope.charts.legends import ORANGE
from isoscope.charts.panels import POLICY_IS_CHOSEN, arrange_panels, layer_charts
from isoscope.charts.records import json_records, label_lines, line_names, round_columns, select_layers
from isoscope.core.figure import figure

CELL = "#3f74b5"


@figure(
    title="Norms",
    caption="The distribution of norms in each layer: the stronger the colour of a cell, the more points have that norm (both scales are "
    "logarithmic). The orange line is the mean norm. Cells far above the rest are a few tokens of enormous norm, which are enough to make "
    "the top share large.",
    topic="Spectra, norms and tokens",
    order=3,
)
def norms(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One panel per line: layer by norm, shaded by the share of points."""
    table, series = label_lines(table, series)
    bins = select_layers(series)
    bins = bins[bins["name"].eq("norms") & bins["kind"].eq("hidden") & (bins["y"] > 0) & (bins["x"] > 0)]
    means = select_layers(table)
    means = means[means["metric"].eq("mean_norm") & means["kind"].eq("hidden") & (means["value"] > 0)]
    panels = [_norms_panel(name, bins[bins["line"] == name], means[means["line"] == name]) for name in line_names(bins)]
    return arrange_panels(panels, table, own_colours=True)


def _norms_panel(name: str, bins: pd.DataFrame, means: pd.DataFrame) -> Any:
    # After a norm all points may share one bin of no width, which would be invisible.
    width = bins["weight"].fillna(0.0).clip(lower=bins["x"] * 0.03)
    # A bin that reaches down to zero has no lower end on a logarithmic axis: it is cut at half its centre.
    bottom = (bins["x"] - width / 2).where(bins["x"] > width / 2, bins["x"] / 2)
    bins = round_columns(bins.assign(bottom=bottom, top=bins["x"] + width / 2), "bottom", "top")
    ticks = [step * power for power in decade_ticks(bins["x"]) for step in (1, 2, 5)]
    scale = alt.Scale(type="log", nice=False, domain=norm_domain(bins))
    y = alt.Y("bottom:Q", title="norm", scale=scale, axis=alt.Axis(values=ticks, format="~g"))
    symbol = {"symbolType": "square", "symbolFillColor": CELL, "symbolStrokeWidth": 0}
    legend = alt.Legend(title="share", format="~g", values=[0.001, 0.01, 0.1, 1], **symbol)
    shade = alt.Opacity("y:Q", scale=alt.Scale(type="log", domain=[0.0005, 1], range=[0.3, 1], clamp=True), legend=legend)
    tooltip = tooltips("layer:Q", "x:Q .4g", "y:Q .3g", x="norm", y="share of points")
    cells = alt.Chart({"values": json_records(bins, ["policy", "layer", "x", "y", "bottom", "top"])}).mark_rect(fill=CELL)
    cells = cells.transform_calculate(left="datum.layer - 0.5", right="datum.layer + 0.5")
    cells = cells.encode(x=layer_axis("left"), x2=alt.X2("right:Q"), y=y, y2=alt.Y2("top:Q"), opacity=shade, tooltip=tooltip)
    line = alt.Chart({"values": json_records(means.sort_values("layer"), ["policy", "layer", "value"])})
    line = line.mark_line(stroke=ORANGE, strokeWidth=1.8, point=alt.OverlayMarkDef(color=ORANGE, size=22))
    line = line.encode(x=layer_axis(), y=alt.Y("value:Q"), tooltip=tooltips("layer:Q", "value:Q .6g", value="mean norm"))
    return layer_charts(*(chart.transform_filter(POLICY_IS_CHOSEN) for chart in (cells, line)), title=name)


def norm_domain(bins: pd.DataFrame) -> list[float]:
    """The ends of the axis: all norms, and at least a factor of ten, so that nearly equal norms look nearly equal."""
    low, high = float(bins["bottom"].min()), float(bins["top"].max())
    margin = max(1.0, (10 * low / high) ** 0.5)
    return [low / margin, high * margin]
