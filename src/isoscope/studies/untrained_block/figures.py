"""Figures 6 to 10 of "Anisotropy Is Inherent to Self-Attention": an untrained block by the norm of the bias added to its input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.axes import decade_ticks, tooltips
from isoscope.charts.legends import BLUE, GREEN, INK, OCHRE, ORANGE, PINK, TEAL, VIOLET, Curve, curve_encodings, cycle_palette
from isoscope.charts.panels import arrange_panels, layer_charts
from isoscope.charts.records import json_records, label_lines, pick_evenly, round_columns
from isoscope.core.figure import Draw, Figure, figure
from isoscope.studies.untrained_block.curves import HISTOGRAM, TRAINED


@dataclass(frozen=True)
class BiasCurve:
    """A curve by the norm of the bias: its name in the series, its label in the legend, and its look."""

    name: str
    label: str
    tone: str
    dash: tuple[int, ...] = (1, 0)
    enters: bool = False
    """Whether it describes the input of the first block, and not a state inside or after a block."""


COSINES = [BiasCurve("block_cosine", "input", BLUE, enters=True), BiasCurve("block_cosine", "output", ORANGE)]
GAIN = [BiasCurve("gain", "output minus input", GREEN)]
NORMS = [
    BiasCurve("block_mean_norm", "input, mean of norms", BLUE, enters=True),
    BiasCurve("block_mean_norm", "output, mean of norms", ORANGE),
    BiasCurve("block_drift_norm", "input, norm of the mean", TEAL, (4, 2), enters=True),
    BiasCurve("block_drift_norm", "output, norm of the mean", PINK, (4, 2)),
]
QUERY_KEY_COSINES = [
    BiasCurve("block_query_cosine", "queries, by head", BLUE),
    BiasCurve("block_key_cosine", "keys, by head", ORANGE),
    BiasCurve("block_query_cosine_whole", "queries, whole", TEAL, (4, 2)),
    BiasCurve("block_key_cosine_whole", "keys, whole", PINK, (4, 2)),
]
QUERY_KEY_NORMS = [BiasCurve("block_query_norm", "queries", BLUE), BiasCurve("block_key_norm", "keys", ORANGE)]
ROWS = [
    BiasCurve("block_row_max", "maximum", ORANGE),
    BiasCurve("block_row_median", "median", GREEN),
    BiasCurve("block_row_min", "minimum", BLUE),
]
GAPS = [
    BiasCurve("block_entropy_gap", "log of open positions minus entropy", OCHRE),
    BiasCurve("block_half_row_variance", "half the variance of a row's scores", VIOLET, (2, 2)),
]
EXTREMES = [BiasCurve("block_sequence_max", "largest", ORANGE), BiasCurve("block_sequence_min", "smallest", BLUE)]

SIMILAR = 3.0
"""Values within this factor of each other are drawn on a linear axis."""
DEPTH_DASHES = [(1, 0), (7, 3), (2, 2)]
"""Dashes of the depths at which a network is measured, the least depth first."""
HISTOGRAMS = 6
BIAS_TICKS = (0, 0.5, 1, 2, 5, 10, 20, 30, 50, 100)


def declare_block_figure(order: int, title: str, caption: str) -> Callable[[Draw], Figure]:
    """Declare a figure of the untrained block."""
    return figure(title=f"An untrained block: {title}", caption=caption, topic="The untrained block", order=order)


@declare_block_figure(
    1,
    "cosine of its input and output",
    "Mean cosine over all pairs of the input and of the output of an untrained block, by the norm of the bias that all inputs share, and "
    "the difference of the two. Line: mean over draws of weights, inputs and the direction of the bias; band: their range.",
)
def block_cosine(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Figure 6a. Two panels per network: both cosines, and output minus input."""
    cosines = label_networks(series[series["name"].eq("block_cosine")])
    enters = cosines[cosines["layer"].eq(0)].drop_duplicates(["line", "seed", "x"])[["line", "seed", "x", "y"]]
    gain = cosines[cosines["layer"].gt(0)].merge(enters, on=["line", "seed", "x"], suffixes=("", "_in"))
    gain = gain.assign(y=gain["y"] - gain["y_in"], name="gain")
    points, curves = bias_points(cosines, COSINES)
    differences, more = bias_points(gain, GAIN)
    panels = []
    for network, rows in points.groupby("line", sort=False):
        panels.append(bias_panel(rows, [*curves, *more], title=str(network), y="mean cosine", small_norms=True))
        rows = differences[differences["line"].eq(network)]
        panels.append(bias_panel(rows, [*curves, *more], title=f"{network}: gain", y="difference of cosines", small_norms=True))
    return arrange_panels(panels, table)


@declare_block_figure(
    2,
    "norms of its input and output",
    "The norm of the input and of the output, read in two ways: the mean of norms, and the norm of the mean. The vertical rule marks N*, "
    "where input and output are equally long by the mean of norms (mean over draws); without a rule they never are. Grey, if a trained "
    "model was given: the range of the mean norms of its layers. Band: the range over draws.",
)
def block_norm(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Figure 6b. One panel per network."""
    points, curves = bias_points(series, NORMS)
    numbers = label_networks(table)
    fixed_points = numbers[numbers["metric"].eq("norm_fixed_point") & numbers["value"].notna()]
    trained = table.loc[table["metric"].eq(TRAINED), "value"]
    panels = []
    for network, rows in points.groupby("line", sort=False):
        panel = bias_panel(rows, curves, title=str(network), y="norm")
        marks = [_trained_norms(trained)] if len(trained) else []
        for fixed_point in fixed_points.loc[fixed_points["line"].eq(network), "value"].head(1):
            marks += _fixed_point_marks(float(fixed_point), float(rows["x"].max()))
        panels.append(layer_charts(*marks, panel, title=str(network)) if marks else panel)
    return arrange_panels(panels, table, columns=3)


def _trained_norms(norms: pd.Series) -> Any:
    """The range of the norms of a trained model, in grey."""
    ends = {"low": float(norms.min()), "high": float(norms.max())}
    return alt.Chart({"values": [ends]}).mark_rect(color=INK, opacity=0.15).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))


def _fixed_point_marks(norm: float, largest: float) -> list[Any]:
    """A rule at N*, and its value on the side that has room."""
    rule = alt.Chart({"values": [{"x": round(norm, 3), "text": f"N* = {norm:.2f}"}]}).encode(x=alt.X("x:Q"))
    side = {"align": "right", "dx": -4} if norm > largest / 3 else {"align": "left", "dx": 4}
    text = rule.mark_text(color=INK, dy=-4, baseline="bottom", **side).encode(y=alt.value(210), text=alt.Text("text:N"))
    return [rule.mark_rule(stroke=INK, strokeDash=[3, 3]), text]


@declare_block_figure(
    3,
    "scores before softmax",
    "Histograms of QKᵀ/√d_k over all heads in one draw, for several norms N of the bias, and the mean score of each draw. Every panel has "
    "its own scale; the grey rule is at zero. As N grows, each head has its own peak. Only the first network and its first depth are "
    "drawn; the series hold all of them.",
)
def block_scores(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Figure 7. One panel per norm of the bias."""
    points = series[series["name"].isin([HISTOGRAM, "block_score_mean"])]
    if not points["name"].eq(HISTOGRAM).any():
        return None
    points = label_networks(points)
    network = points["line"].iloc[0]
    points = points[points["line"].eq(network)]
    points = points[points["layer"].eq(points["layer"].min())]
    points = points.assign(curve=[f"draw {int(seed) + 1}" for seed in points["seed"]])
    bins, means = points[points["name"].eq(HISTOGRAM)], points[points["name"].ne(HISTOGRAM)]
    bins = bins[bins["seed"].eq(bins["seed"].min())]
    draws = [str(name) for name in means["curve"].drop_duplicates()]
    curves = [Curve(name, tone) for name, tone in zip(draws, cycle_palette(len(draws)), strict=True)]
    panels = [
        _histogram(bins[bins["weight"].eq(norm)], means[means["x"].eq(norm)], curves, f"{network}: N = {norm:g}")
        for norm in pick_evenly(bins["weight"], HISTOGRAMS)
    ]
    return arrange_panels(panels, table, columns=3)


def _histogram(bins: pd.DataFrame, means: pd.DataFrame, curves: list[Curve], title: str) -> Any:
    scales = curve_encodings(curves)
    x = alt.X("x:Q", title="score", axis=alt.Axis(format="~r", tickCount=5))
    area = alt.Chart({"values": json_records(round_columns(bins, "x", "y"), ["curve", "x", "y"])})
    area = area.mark_area(opacity=0.45, line=True, interpolate="step").encode(x=x, y=alt.Y("y:Q", title="density"), color=scales["color"])
    rules = alt.Chart({"values": json_records(round_columns(means.assign(x=means["y"]), "x"), ["curve", "x"])}).mark_rule(strokeWidth=2)
    zero = alt.Chart({"values": [{"x": 0}]}).mark_rule(stroke=INK, strokeDash=[3, 3]).encode(x=x)
    return layer_charts(zero, area, rules.encode(x=x, **scales, tooltip=tooltips("curve:N", "x:Q", x="mean")), title=title)


@declare_block_figure(
    4,
    "cosine of queries and keys",
    "Mean cosine over all pairs: in each head's own dimensions, averaged over heads, and (dashed) of the heads concatenated into one "
    "vector. Line: mean over draws; band: their range.",
)
def block_query_key_cosine(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Figure 8a. One panel per network."""
    return draw_by_bias(table, series, QUERY_KEY_COSINES, y="mean cosine", small_norms=True)


@declare_block_figure(
    5,
    "norms of queries and keys",
    "Mean norm of a head's queries and keys, averaged over heads. Line: mean over draws; band: their range.",
)
def block_query_key_norm(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Figure 8b. One panel per network."""
    return draw_by_bias(table, series, QUERY_KEY_NORMS, y="mean norm of a head")


@declare_block_figure(
    6,
    "rows of attention",
    "Largest, median and smallest probability of a row, averaged over rows, heads and sequences, by the norm of the bias. Second panel: "
    "how far the entropy lies below that of uniform attention, and the value that a small spread of scores predicts. Line: mean over "
    "draws; band: their range.",
)
def block_rows(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Figure 9. Two panels per network."""
    points, curves = bias_points(series, ROWS)
    gaps, more = bias_points(series, GAPS)
    panels = []
    for network, rows in points.groupby("line", sort=False):
        panels.append(bias_panel(rows, [*curves, *more], title=str(network), y="probability", log=True))
        positive = gaps[gaps["line"].eq(network) & gaps["min"].gt(0)]
        if len(positive):
            panels.append(bias_panel(positive, [*curves, *more], title=f"{network}: entropy", y="nats below uniform", log=True))
    return arrange_panels(panels, table)


@declare_block_figure(
    7,
    "extremes of attention in a sequence",
    "The largest and the smallest probability of a whole sequence, over all rows and heads, averaged over sequences, by the norm of the "
    "bias. Line: mean over draws; band: their range.",
)
def block_extremes(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Figure 10. One panel per network."""
    return draw_by_bias(table, series, EXTREMES, y="probability", log=True)


def draw_by_bias(table: pd.DataFrame, series: pd.DataFrame, curves: list[BiasCurve], *, y: str, **look: bool) -> Any:
    """One panel per network; None if the series hold none of these curves."""
    points, entries = bias_points(series, curves)
    panels = [bias_panel(rows, entries, title=str(network), y=y, **look) for network, rows in points.groupby("line", sort=False)]
    return arrange_panels(panels, table, columns=3)


def label_networks(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of untrained blocks with the `line` of their network: its draws share one line, two networks of one name do not."""
    return label_lines(frame.assign(seed=None, stack=None))[0].assign(seed=frame["seed"])


def bias_points(series: pd.DataFrame, curves: list[BiasCurve]) -> tuple[pd.DataFrame, list[Curve]]:
    """Mean, least and greatest over draws, for each network, curve and norm of the bias; and the entries of the legend."""
    parts = [pd.DataFrame(columns=["line", "x", "mean", "min", "max", "count", "curve"])]
    entries: dict[str, Curve] = {}
    series = label_networks(series)
    for curve in curves:
        points = series[series["name"].eq(curve.name) & (series["layer"].eq(0) if curve.enters else series["layer"].gt(0))]
        for depth, (layer, rows) in enumerate(points.groupby("layer")):
            label = curve.label if layer in (0, 1) else f"{curve.label}, block {layer}"
            dash = DEPTH_DASHES[min(depth, len(DEPTH_DASHES) - 1)] if curve.dash == (1, 0) else curve.dash
            entries.setdefault(label, Curve(label, curve.tone, dash))
            ranges = rows.groupby(["line", "x"], sort=False)["y"].agg(["mean", "min", "max", "count"]).reset_index()
            parts.append(ranges.assign(curve=label))
    return pd.concat(parts[1:] or parts, ignore_index=True), list(entries.values())


def bias_panel(points: pd.DataFrame, curves: list[Curve], *, title: str, y: str, log: bool = False, small_norms: bool = False) -> Any:
    """One network's curves by the norm of the bias, each with the range over draws as a band.

    `log`: the axis of values is logarithmic. `small_norms`: the axis of norms gives more room to small norms.
    """
    scales = curve_encodings(curves)
    norms, ticks = alt.Scale(nice=False, zero=True), alt.Undefined
    if small_norms:
        # The grid begins at 0, which a logarithmic axis cannot show: symlog is linear below its constant.
        norms = alt.Scale(type="symlog", constant=0.5, nice=False)
        ticks = [x for x in BIAS_TICKS if x <= float(points["x"].max())]
    x = alt.X("x:Q", title="norm of the bias, N", scale=norms, axis=alt.Axis(values=ticks, format="~r", grid=True))
    low, high = points["min"].min(), points["max"].max()
    log = log and bool(high > SIMILAR * low)  # between similar values a logarithmic axis would have no labels
    scale = alt.Scale(type="log", nice=False) if log else alt.Scale(zero=False)
    decades = log and high > 100 * low
    axis = alt.Axis(values=decade_ticks(points["mean"]), format="~e") if decades else alt.Axis(format="~r", tickCount=6)
    values = json_records(round_columns(points, "x", "mean", "min", "max"), ["curve", "x", "mean", "min", "max", "count"])
    base = alt.Chart({"values": values}).encode(x=x)
    names = {"x": "N", "min": "least of the draws", "max": "greatest", "count": "draws"}
    tooltip = tooltips("curve:N", "x:Q", "mean:Q .4g", "min:Q .4g", "max:Q .4g", "count:Q", **names)
    vertical = {"title": y, "scale": scale, "axis": axis}
    band = base.mark_area(opacity=0.2).encode(y=alt.Y("min:Q", **vertical), y2=alt.Y2("max:Q"), color=scales["color"])
    line = base.mark_line(strokeWidth=1.8).encode(y=alt.Y("mean:Q", **vertical), **scales)
    dots = base.mark_point(filled=True, size=18, opacity=1).encode(y=alt.Y("mean:Q", title=y), color=scales["color"], tooltip=tooltip)
    return layer_charts(band, line, dots, title=title)
