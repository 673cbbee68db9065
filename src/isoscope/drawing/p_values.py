"""Whether drift and cosine go together: the published p-value of each model, and a valid one."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from isoscope.core.group import GROUPS
from isoscope.core.student import LEVEL
from isoscope.drawing import INK, PALETTE, POLICY_IS_CHOSEN, grid, labelled, layered, records, short
from isoscope.statistics.association import FEWEST_LAYERS, PREDICTORS, associations

TESTS = {"as published": ("circle", INK), "differences, permuted": ("square", PALETTE[0]), "pooled over the group": ("diamond", PALETTE[1])}
LEAST_P = 1e-6
"""Smaller p-values are drawn at the edge: the published ones reach 10⁻²⁰, the permuted ones end at 10⁻⁴."""


def p_values(table: pd.DataFrame, published_p: str) -> Any:
    """Two p-values a model, a panel a predictor: `published_p` (a column of the associations) and that of permuted differences."""
    found = associations(table)
    if found.empty:
        return None
    models = found["model"].notna()
    label = labelled(found[models].assign(stack=""), found.iloc[:0].assign(stack=""))[0]["line"]
    found = found.assign(row=label.reindex(found.index).fillna(found["group"].map(GROUPS)))
    rows: list[str] = []
    for group, title in GROUPS.items():
        own = found.loc[models & found["group"].eq(group), "row"].drop_duplicates()
        rows += [title, *own] if len(own) else []
    parts = [
        found[models].assign(test="as published", p=found[published_p], solid=True),
        found[models].assign(test="differences, permuted", solid=found["layers"] >= FEWEST_LAYERS),
        found[~models].assign(test="pooled over the group", solid=~found["verdict"].str.startswith("no verdict")),
    ]
    marks = pd.concat([part[part["p"].notna()] for part in parts])
    marks = marks.assign(shown=short(marks["p"].clip(lower=LEAST_P)), solid=marks["solid"].astype(bool))
    marks = marks.assign(**{name: short(marks[name]) for name in ("p", "difference", published_p.removesuffix("_p"))})
    panels = [_panel_of_p(marks[marks["predictor"] == name], rows, published_p, name) for name in PREDICTORS]
    return grid([panel for panel in panels if panel is not None], table, height=18 * len(rows))


def _panel_of_p(marks: pd.DataFrame, rows: list[str], published_p: str, predictor: str) -> Any:
    """The p-values of one predictor, a row a model below its group's title; hollow where no verdict is given. None without any."""
    import altair as alt

    if marks.empty:
        return None
    titles = [title for title in GROUPS.values() if title in rows]
    bold = alt.condition(f"indexof({json.dumps(titles)}, datum.value) >= 0", alt.value("bold"), alt.value("normal"))
    y = alt.Y("row:N", title=None, scale=alt.Scale(domain=rows), axis=alt.Axis(labelLimit=170, labelFontWeight=bold, grid=True))
    ticks = [10.0**k for k in range(-6, 1)]
    axis = alt.Axis(values=ticks, labelExpr="datum.value == 1 ? '1' : format(datum.value, '~e')")
    x = alt.X("shown:Q", title="p-value", scale=alt.Scale(type="log", domain=[LEAST_P, 1], nice=False), axis=axis)
    key = alt.Legend(orient="top", title=None, columns=1, labelLimit=180)
    scale = alt.Scale(domain=list(TESTS), range=[tone for _, tone in TESTS.values()])
    shape = alt.Shape("test:N", scale=alt.Scale(domain=list(TESTS), range=[shape for shape, _ in TESTS.values()]), legend=key)
    statistic = published_p.removesuffix("_p")
    tooltip = [
        alt.Tooltip("row:N", title="model"),
        alt.Tooltip("test:N"),
        alt.Tooltip("p:Q", format=".3g"),
        alt.Tooltip("layers:Q"),
        alt.Tooltip("models:Q"),
    ]
    tooltip += [alt.Tooltip(f"{statistic}:Q", format=".3f"), alt.Tooltip("difference:Q", title="ρ of differences", format=".3f")]
    tooltip += [alt.Tooltip("verdict:N"), alt.Tooltip("policy:N", title="tokens")]
    columns = ["row", "test", "policy", "p", "shown", "solid", "layers", "models", statistic, "difference", "verdict"]
    base = alt.Chart().encode(x=x, y=y)
    points = base.mark_point(size=60, strokeWidth=1.6, opacity=1).encode(
        stroke=alt.Stroke("test:N", scale=scale, legend=key),
        fill=alt.Fill("test:N", scale=scale, legend=key),
        fillOpacity=alt.condition("datum.solid", alt.value(1), alt.value(0)),
        shape=shape,
        tooltip=tooltip,
    )
    pairs = base.mark_line(stroke=INK, strokeWidth=1, opacity=0.4).encode(detail=alt.Detail("row:N"))
    rule = alt.Chart({"values": [{"shown": LEVEL}]}).mark_rule(stroke=PALETTE[6], strokeDash=[5, 3], strokeWidth=1.4).encode(x=x)
    drawn = layered(pairs, points, data={"values": records(marks, columns)}).transform_filter(POLICY_IS_CHOSEN)
    return layered(rule, drawn, title=f"{predictor} and mean_cosine")
