"""Figure 7 of "Anisotropy Is Inherent to Self-Attention": histograms of the scores of an untrained block."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.block import HISTOGRAM
from isoscope.core.figure import figure
from isoscope.drawing import INK, PALETTE, Curve, curve_scales, grid, layered, records, short
from isoscope.drawing.bias import by_network

PANELS = 6


@figure(
    title="An untrained block: scores before softmax",
    caption="Histograms of QKᵀ/√d_k over all heads in one draw, for several norms N of the bias, and the mean score of each draw; "
    "every panel has its own scale, and the grey rule is at zero. Each head has a peak of its own as N grows. Of the first network and its "
    "first depth; the series hold them all.",
)
def block_scores(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A panel a norm."""
    own = series[series["name"].isin([HISTOGRAM, "block_score_mean"])]
    if not own["name"].eq(HISTOGRAM).any():
        return None
    own = by_network(own)
    model = own["line"].iloc[0]
    own = own[own["line"].eq(model)]
    own = own[own["layer"].eq(own["layer"].min())]
    own = own.assign(curve=[f"draw {int(seed) + 1}" for seed in own["seed"]])
    shapes, means = own[own["name"].eq(HISTOGRAM)], own[own["name"].ne(HISTOGRAM)]
    shapes = shapes[shapes["seed"].eq(shapes["seed"].min())]
    known = [Curve(str(name), PALETTE[i % len(PALETTE)]) for i, name in enumerate(means["curve"].drop_duplicates())]
    panels = [
        _panel(shapes[shapes["weight"].eq(norm)], means[means["x"].eq(norm)], known, f"{model}: N = {norm:g}")
        for norm in spread(sorted(shapes["weight"].unique()))
    ]
    return grid(panels, table, columns=3)


def spread(norms: list[float]) -> list[float]:
    """At most six of them, the first and the last among them.

    >>> spread([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    [0, 2, 4, 6, 8, 10]
    """
    count = min(PANELS, len(norms))
    return [norms[round(i * (len(norms) - 1) / max(count - 1, 1))] for i in range(count)]


def _panel(shape: pd.DataFrame, means: pd.DataFrame, known: list[Curve], title: str) -> Any:
    import altair as alt

    scales = curve_scales(known)
    x = alt.X("x:Q", title="score", axis=alt.Axis(format="~r", tickCount=5))
    bars = records(shape.assign(x=short(shape["x"]), y=short(shape["y"])), ["curve", "x", "y"])
    area = alt.Chart({"values": bars}).mark_area(opacity=0.45, line=True, interpolate="step")
    marks = records(means.assign(x=short(means["y"])), ["curve", "x"])
    rules = (
        alt.Chart({"values": marks})
        .mark_rule(strokeWidth=2)
        .encode(x=x, **scales, tooltip=[alt.Tooltip("curve:N"), alt.Tooltip("x:Q", title="mean")])
    )
    zero = alt.Chart({"values": [{"x": 0}]}).mark_rule(stroke=INK, strokeDash=[3, 3]).encode(x=x)
    return layered(zero, area.encode(x=x, y=alt.Y("y:Q", title="density"), color=scales["color"]), rules, title=title)
