"""Figures 17 and 18 of "Anisotropy Is Inherent to Self-Attention": the cosine of isotropic vectors, and the models compared with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.axes import tooltips
from isoscope.charts.different_n import COSINES, Title, choose_cosine, split_by_n
from isoscope.charts.legends import AVERAGE, INK, PAIR, PALETTE, Curve, add_curves, curve_encodings, model_curves
from isoscope.charts.panels import POLICY_IS_CHOSEN, arrange_panels, layer_charts
from isoscope.charts.records import json_records, round_columns
from isoscope.core.figure import figure
from isoscope.core.model_groups import GROUPS, add_groups
from isoscope.estimation.isotropic_quantiles import one_pair

TOPIC = "Drift and chance"
DENSITIES = 6
"""The number of densities that can be told apart."""
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross"]


@figure(
    title="The cosine of one isotropic pair",
    caption="The density of the cosine of two isotropic Gaussian vectors in d dimensions, in closed form. It has standard deviation 1/√d: "
    "the larger d, the closer to 0. This is a single pair. The average over all pairs of n points is narrower by a factor of about n/√2.",
    topic=TOPIC,
    order=5,
)
def cosine_density(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Figure 17: one curve per dimension, from the smallest d to the largest."""
    rows = series[series["name"].eq("cosine_density").fillna(False).astype(bool)]
    if rows.empty:
        return None
    dimensions = _pick_dimensions(sorted({int(d) for d in rows["weight"]}))
    # Three standard deviations of the widest density; the narrow ones would be needles on an axis from -1 to 1.
    reach = min(1.0, 3 * dimensions[0] ** -0.5)
    rows = rows[rows["weight"].isin(dimensions) & rows["x"].abs().le(reach)]
    rows = round_columns(rows.assign(d=[str(int(d)) for d in rows["weight"]]), "x", "y")
    names = [str(d) for d in dimensions]
    legend = alt.Legend(title="d", orient="right", symbolType="stroke", symbolOpacity=1)
    curves = alt.Chart({"values": json_records(rows, ["d", "x", "y"])}).mark_line(strokeWidth=1.8)
    curves = curves.encode(
        x=alt.X("x:Q", title="cosine of one pair", scale=alt.Scale(domain=[-reach, reach], nice=False)),
        y=alt.Y("y:Q", title="density"),
        color=alt.Color("d:N", scale=alt.Scale(domain=names, range=PALETTE[: len(names)]), legend=legend),
        tooltip=tooltips("d:N", "x:Q .3f", "y:Q .3g", x="cosine", y="density"),
    )
    return arrange_panels([curves], table)


def _pick_dimensions(dimensions: list[int]) -> list[int]:
    """At most `DENSITIES` of them, from the first to the last in steps of about equal factors.

    >>> _pick_dimensions([16, 64, 128, 256, 512, 768, 1024, 2048, 4096, 8192])
    [16, 64, 256, 768, 2048, 8192]
    """
    if len(dimensions) <= DENSITIES:
        return dimensions
    steps = np.geomspace(dimensions[0], dimensions[-1], DENSITIES)
    return sorted({min(dimensions, key=lambda d: abs(np.log(d / step))) for step in steps})


@figure(
    title="Average cosine and the isotropic level",
    caption="The curve is the 95th percentile of the cosine of one pair of isotropic vectors in d dimensions. A point is a model’s mean "
    "cosine averaged over its layers (over those of one d, if d changes with depth). A percentile of single pairs is a lenient level for "
    "an average, which under isotropy would be 0, give or take √(2/(d·n(n−1))).",
    topic=TOPIC,
    order=4,
)
def isotropic_level(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Figure 18: mean cosine over dimension; the percentile of one pair is a curve, each model a point."""
    closed_form = table["kind"].eq("isotropic").fillna(False).astype(bool)
    rows = add_groups(add_curves(table[~closed_form]))
    rows = rows[rows["metric"].isin(list(COSINES)) & rows["kind"].eq("hidden") & rows["head"].isna()]
    rows = rows[rows["value"].notna() & rows["d"].ge(2).fillna(False).astype(bool)]
    metric = choose_cosine(rows, "curve")
    rows = rows[rows["metric"].eq(metric)]
    if rows.empty and not closed_form.any():
        return None
    models = [curve for group in GROUPS for curve in model_curves(rows[rows["group"] == group])]
    dimensions = [int(d) for d in table.loc[closed_form, "d"]]
    parts = split_by_n(rows, "curve", "average cosine") or [(rows, "")]
    # A single panel needs no title in addition to that of the figure.
    panels = [_level_panel(part, models, dimensions, COSINES[metric], title if len(parts) > 1 else "") for part, title in parts]
    return arrange_panels(panels, table)


def _level_panel(rows: pd.DataFrame, models: list[Curve], dimensions: list[int], y_title: str, title: Title) -> Any:
    """The models that may be compared, and the level of one pair over their dimensions and these."""
    points = rows.groupby(["curve", "group", "policy", "d"], sort=False)["value"].agg(["mean", "count"]).reset_index()
    points = points.assign(value=points["mean"], group=points["group"].map(GROUPS), pair=[one_pair(int(d)) for d in points["d"]])
    points = round_columns(points, "value")
    drawn = [*map(int, points["d"]), *dimensions]
    ends = min(16, *drawn, 4096), max(4096, *drawn)
    curve = [{"curve": PAIR.name, "d": int(d), "value": one_pair(int(d))} for d in np.unique(np.geomspace(*ends, 80).astype(int))]
    ticks = [2**k for k in range(2, 18) if ends[0] <= 2**k <= ends[1]]
    x = alt.X("d:Q", title="dimension d", scale=alt.Scale(type="log", nice=False, padding=8), axis=alt.Axis(values=ticks, format="d"))
    y = alt.Y("value:Q", title=y_title, scale=alt.Scale(zero=True, padding=6))
    legend = alt.Legend(title=None, orient="bottom", columns=2)
    shape = alt.Shape("group:N", scale=alt.Scale(domain=[*GROUPS.values()], range=SHAPES), legend=legend)
    tooltip = tooltips(
        *("curve:N", "group:N", "d:Q", "count:Q", "value:Q .4g", "pair:Q .3g", "policy:N"),
        curve="model",
        count="layers",
        value="average cosine",
        pair="one pair, 95 %",
    )
    scales = curve_encodings([*models, AVERAGE, PAIR])
    level = alt.Chart({"values": curve}).mark_line(strokeWidth=1.5).encode(x=x, y=y, **scales)
    zero = alt.Chart({"values": [{"value": 0}]}).mark_rule(stroke=INK).encode(y=y)
    marks = alt.Chart({"values": json_records(points, ["curve", "group", "policy", "d", "count", "value", "pair"])})
    marks = marks.transform_filter(POLICY_IS_CHOSEN).mark_point(size=70, strokeWidth=1.8, opacity=1)
    marks = marks.encode(x=x, y=y, **scales, shape=shape, tooltip=tooltip)
    return layer_charts(zero, level, *([marks] if len(rows) else []), **({"title": title} if title else {}))
