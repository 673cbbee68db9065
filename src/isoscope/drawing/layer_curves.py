"""A series over a logarithmic axis, one line a layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from isoscope.drawing import POLICY_IS_CHOSEN, depth_colour, grid, in_layers, labelled, layered, lines, records, short

MOST = 9
"""So many layers are drawn, evenly spaced, the first and the last among them: more lines would lie over each other."""


def layer_curves(table: pd.DataFrame, series: pd.DataFrame, name: str, *, x: str, y: str, spread: str | None = None) -> Any:
    """One panel a model and stack, one line a layer; `spread` says what the weight is, where it is a band. None without the series."""
    _, series = labelled(table, series)
    rows = in_layers(series)
    rows = rows[rows["name"].eq(name) & rows["kind"].eq("hidden") & (rows["x"] > 0) & rows["y"].notna()]
    panels = [_panel(line, _thinned(rows[rows["line"] == line]), x, y, spread) for line in lines(rows)]
    return grid(panels, series, own_colours=True)


def _thinned(rows: pd.DataFrame) -> pd.DataFrame:
    layers = sorted(rows["layer"].unique())
    kept = {layers[int(i)] for i in np.linspace(0, len(layers) - 1, min(MOST, len(layers))).round()}
    return rows[rows["layer"].isin(kept)]


def _ticks(values: pd.Series) -> list[float]:
    """The values themselves, but of those that lie close together the largest."""
    kept: list[float] = []
    for value in sorted({float(value) for value in values}, reverse=True):
        if not kept or value < kept[-1] / 1.3:
            kept.append(value)
    return kept[::-1]


def _panel(line: str, rows: pd.DataFrame, x: str, y: str, spread: str | None) -> Any:
    import altair as alt

    rows = rows.assign(low=short(rows["y"] - rows["weight"]), high=short(rows["y"] + rows["weight"]), y=short(rows["y"]))
    rows = rows.sort_values(["layer", "x"], kind="stable")
    axis = alt.Axis(format=",d", values=_ticks(rows["x"]))
    across = alt.X("x:Q", title=x, scale=alt.Scale(type="log", nice=False, padding=10), axis=axis)
    up = alt.Y("y:Q", title=y, scale=alt.Scale(zero=True))
    tooltip = [alt.Tooltip("layer:Q"), alt.Tooltip("x:Q", title=x, format=","), alt.Tooltip("y:Q", title=y, format=".4g")]
    tooltip += [alt.Tooltip("weight:Q", title=spread, format=".3g")] if spread else []
    base = alt.Chart().encode(x=across, color=depth_colour(), detail=alt.Detail("layer:N"))
    bars = [base.mark_rule(opacity=0.45).encode(y=alt.Y("low:Q", title=y), y2=alt.Y2("high:Q"))] if spread else []
    chart = layered(
        *bars,
        base.mark_line(strokeWidth=1.5).encode(y=up),
        base.mark_point(filled=True, size=22, opacity=1).encode(y=up, tooltip=tooltip),
        data={"values": records(rows, ["layer", "policy", "x", "y", "weight", "low", "high"])},
    )
    return chart.transform_filter(POLICY_IS_CHOSEN).properties(title=line)
