"""Curves of the untrained block by the norm of the bias that is added to its input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from isoscope.drawing import PALETTE, Curve, curve_scales, decades, grid, labelled, layered, records, short


@dataclass(frozen=True)
class BiasCurve:
    """A curve of the untrained block by the norm of its bias: its name in the series and in a legend, whose state it is, and its look."""

    name: str
    label: str
    enters: bool = False
    """What enters the first block, not what leaves or lies within the last."""
    tone: str = PALETTE[0]
    dash: tuple[int, ...] = (1, 0)


CLOSE = 3.0
"""Values within this factor are drawn on a linear axis."""
DEEP = [(1, 0), (7, 3), (2, 2)]
"""Dashes of the depths after which a network is measured, the least first."""


def by_network(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of untrained blocks with the `line` of their network: all of its draws together, two of one name apart."""
    return labelled(frame.assign(seed=None, stack=None), frame.iloc[:0])[0].assign(seed=frame["seed"])


def bias_points(series: pd.DataFrame, drawn: list[BiasCurve]) -> tuple[pd.DataFrame, list[Curve]]:
    """The curves by network: mean, least and greatest over draws at every norm of the bias; and the entries of their legend."""
    found: list[pd.DataFrame] = []
    known: dict[str, Curve] = {}
    series = by_network(series)
    for curve in drawn:
        own = series[series["name"].eq(curve.name) & (series["layer"].eq(0) if curve.enters else series["layer"].gt(0))]
        for depth, (layer, rows) in enumerate(own.groupby("layer")):
            label = curve.label if layer in (0, 1) else f"{curve.label}, block {layer}"
            dash = DEEP[min(depth, len(DEEP) - 1)] if curve.dash == (1, 0) else curve.dash
            known.setdefault(label, Curve(label, curve.tone, dash))
            spread = rows.groupby(["line", "x"], sort=False)["y"].agg(["mean", "min", "max", "count"]).reset_index()
            found.append(spread.assign(curve=label))
    if not found:
        return pd.DataFrame(columns=["line", "x", "mean", "min", "max", "count", "curve"]), []
    return pd.concat(found, ignore_index=True), list(known.values())


def bias_panel(points: pd.DataFrame, known: list[Curve], *, title: str, y: str, log: bool = False, near_zero: bool = False) -> Any:
    """One network's curves by the norm of the bias, each with the range over draws as a band.

    `log`: a logarithmic axis of values, unless they are so close to each other that it would have no labels; `near_zero`: an axis of norms
    that gives the small ones room.
    """
    import altair as alt

    scales = curve_scales(known)
    room = alt.Scale(type="symlog", constant=0.5, nice=False) if near_zero else alt.Scale(nice=False, zero=True)
    ticks = [x for x in (0, 0.5, 1, 2, 5, 10, 20, 30, 50, 100) if x <= float(points["x"].max())] if near_zero else alt.Undefined
    x = alt.X("x:Q", title="norm of the bias, N", scale=room, axis=alt.Axis(values=ticks, format="~r", grid=True))
    log = log and bool(points["max"].max() > CLOSE * points["min"].min())
    kind = alt.Scale(type="log", nice=False) if log else alt.Scale(zero=False)
    wide = log and points["max"].max() > 100 * points["min"].min()
    marks = alt.Axis(values=decades(points["mean"]), format="~e") if wide else alt.Axis(format="~r", tickCount=6)
    values = points.assign(**{name: short(points[name]) for name in ("x", "mean", "min", "max")})
    base = alt.Chart({"values": records(values, ["curve", "x", "mean", "min", "max", "count"])}).encode(x=x)
    tooltip = [alt.Tooltip("curve:N"), alt.Tooltip("x:Q", title="N"), alt.Tooltip("mean:Q", format=".4g")]
    tooltip += [alt.Tooltip("min:Q", title="least of the draws", format=".4g"), alt.Tooltip("max:Q", title="greatest", format=".4g")]
    tooltip += [alt.Tooltip("count:Q", title="draws")]
    band = base.mark_area(opacity=0.2).encode(y=alt.Y("min:Q", title=y, scale=kind, axis=marks), y2=alt.Y2("max:Q"), color=scales["color"])
    line = base.mark_line(strokeWidth=1.8).encode(y=alt.Y("mean:Q", title=y, scale=kind, axis=marks), **scales)
    dots = base.mark_point(filled=True, size=18, opacity=1).encode(y=alt.Y("mean:Q", title=y), color=scales["color"], tooltip=tooltip)
    return layered(band, line, dots, title=title)


def bias_figure(table: pd.DataFrame, series: pd.DataFrame, drawn: list[BiasCurve], *, y: str, **look: bool) -> Any:
    """A panel a network; None where the series hold none of these curves."""
    points, known = bias_points(series, drawn)
    panels = [bias_panel(own, known, title=str(line), y=y, **look) for line, own in points.groupby("line", sort=False)]
    return grid(panels, table, columns=3)
