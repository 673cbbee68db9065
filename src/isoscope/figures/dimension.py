"""Dimension: the intrinsic dimension over depth, scales and sample sizes, and the dimensions that carry the cosine."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.axes import tooltips
from isoscope.charts.legends import layer_colour, line_colour
from isoscope.charts.panels import POLICY_IS_CHOSEN, arrange_panels, layer_charts, title_by_policy
from isoscope.charts.records import json_records, label_lines, line_names, peak_layers, pick_evenly, round_columns, select_layers
from isoscope.core.figure import figure

TOPIC = "Shape and dimension"
LAYERS = 9
"""At most this many layers are drawn, evenly spaced: more lines would hide each other."""


@figure(
    title="Intrinsic dimension over scales",
    caption="The dimension from the distances to the m-th and the 2m-th neighbour (GRIDE), by m: neighbourhoods grow to the right; one "
    "line per layer. Noise raises the left end; a boundary or curvature lowers the right end. Where a line is flat, the cloud has a "
    "dimension at those scales.",
    topic=TOPIC,
    order=3,
)
def dimension_scales(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """GRIDE over the order of the neighbourhood, one panel per model."""
    return draw_layer_curves(table, series, "gride_scales", x="neighbourhood order m", y="intrinsic dimension")


@figure(
    title="Intrinsic dimension over sample size",
    caption="TwoNN of increasing parts of the sample, one line per layer; vertical bars: one standard deviation between parts of the same "
    "size. If a line still rises or falls at its right end, the estimate has not settled, and a sample of this size does not give the "
    "dimension of the cloud.",
    topic=TOPIC,
    order=4,
)
def dimension_sizes(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """TwoNN over the size of the sample, one panel per model."""
    return draw_layer_curves(table, series, "two_nn_sizes", x="points", y="intrinsic dimension", spread="standard deviation")


def draw_layer_curves(table: pd.DataFrame, series: pd.DataFrame, name: str, *, x: str, y: str, spread: str = "") -> Any:
    """A series over a logarithmic axis: one panel per model and stack, one line per layer; `spread` names the weight, drawn as bars."""
    _, series = label_lines(table, series)
    rows = select_layers(series)
    rows = rows[rows["name"].eq(name) & rows["kind"].eq("hidden") & (rows["x"] > 0) & rows["y"].notna()]
    panels = []
    for line in line_names(rows):
        layers = rows[rows["line"] == line]
        panels.append(_curves_panel(line, layers[layers["layer"].isin(pick_evenly(layers["layer"], LAYERS))], x, y, spread))
    return arrange_panels(panels, series, own_colours=True)


def _curves_panel(line: str, rows: pd.DataFrame, x_title: str, y_title: str, spread: str) -> Any:
    rows = round_columns(rows.assign(low=rows["y"] - rows["weight"], high=rows["y"] + rows["weight"]), "low", "high", "y")
    rows = rows.sort_values(["layer", "x"], kind="stable")
    axis = alt.Axis(format=",d", values=_distant_ticks(rows["x"]))
    x = alt.X("x:Q", title=x_title, scale=alt.Scale(type="log", nice=False, padding=10), axis=axis)
    y = alt.Y("y:Q", title=y_title, scale=alt.Scale(zero=True))
    tooltip = tooltips("layer:Q", "x:Q ,", "y:Q .4g", *(["weight:Q .3g"] if spread else []), x=x_title, y=y_title, weight=spread)
    base = alt.Chart().encode(x=x, color=layer_colour(rows["layer"]), detail=alt.Detail("layer:N"))
    bars = [base.mark_rule(opacity=0.45).encode(y=alt.Y("low:Q", title=y_title), y2=alt.Y2("high:Q"))] if spread else []
    chart = layer_charts(
        *bars,
        base.mark_line(strokeWidth=1.5).encode(y=y),
        base.mark_point(filled=True, size=22, opacity=1).encode(y=y, tooltip=tooltip),
        data={"values": json_records(rows, ["layer", "policy", "x", "y", "weight", "low", "high"])},
        title=line,
    )
    return chart.transform_filter(POLICY_IS_CHOSEN)


def _distant_ticks(values: pd.Series) -> list[float]:
    """The values themselves as ticks; of those that are close to each other, the largest."""
    ticks: list[float] = []
    # The axis is logarithmic: labels closer than a factor of 1.3 would overlap.
    for value in sorted({float(value) for value in values}, reverse=True):
        if not ticks or value < ticks[-1] / 1.3:
            ticks.append(value)
    return ticks[::-1]


@figure(
    title="Dimensions that carry the cosine",
    caption="The ten dimensions with the greatest share of the mean cosine, in each model's most anisotropic layer. One to three long bars "
    "are “rogue” dimensions: without them the layer would look isotropic. Many short bars are a drift that all dimensions share.",
    topic="Spectra, norms and tokens",
    order=2,
)
def dimension_share(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One panel per line: bars of the largest shares, in the layer with the largest cosine."""
    table, series = label_lines(table, series)
    rows = select_layers(series)
    rows = rows[rows["name"].eq("dimension_share") & rows["kind"].eq("hidden") & rows["y"].notna()]
    rows = rows.merge(peak_layers(table).astype({"layer": "Int64"}), on=["line", "policy", "layer"])
    return arrange_panels([_shares_panel(name, rows[rows["line"] == name], line_names(table)) for name in line_names(rows)], table)


def _shares_panel(name: str, rows: pd.DataFrame, names: list[str]) -> Any:
    rows = rows.assign(dimension=rows["x"].astype(int).astype(str))
    bars = alt.Chart({"values": json_records(rows, ["line", "policy", "layer", "dimension", "y"])}).transform_filter(POLICY_IS_CHOSEN)
    bars = bars.mark_bar().encode(
        x=alt.X("y:Q", title="share of the mean cosine", axis=alt.Axis(format="%", tickCount=5)),
        y=alt.Y("dimension:N", title="dimension", sort="-x"),
        color=line_colour(names, legend=False),
        tooltip=tooltips("dimension:N", "y:Q .4g", "layer:Q", "policy:N", y="share"),
    )
    peaks = rows.drop_duplicates("policy")
    titles = {str(policy): [name, f"layer {layer}"] for policy, layer in zip(peaks["policy"], peaks["layer"], strict=True)}
    return bars.properties(title=title_by_policy(titles))
