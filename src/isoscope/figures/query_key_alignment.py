"""Whether mean query and mean key of a head point the same way."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import INK, POLICY_IS_CHOSEN, colour, grid, labelled, layer_axis, layered, lines, records
from isoscope.drawing.different_n import interval_words, split_by_n, title_at_n
from isoscope.statistics.chance import head_threshold

SHOWN = {
    "qk_cosine": "cosine of the mean query and the mean key",
    "drift_sharpening": "row variance made by the mean query",
}


@figure(
    title="Queries and keys by head",
    caption="A point is a head. Left: the cosine of its mean query and its mean key, after a norm of queries and keys, if there is one, "
    "and before rotary; the dotted lines are the levels that the largest of all heads stays within in 95 % of cases by chance "
    "(Bonferroni over the line’s heads). Right: the part of the variance of scores within rows that is there because queries have a "
    "mean; the rest would be there without any drift of queries.",
)
def query_key_alignment(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A panel a metric, a point a head."""
    table, _ = labelled(table, series)
    rows = table[table["kind"].isin(["attention", "cross_attention"]) & table["head"].notna() & table["value"].notna()]
    panels = [
        panel(part, metric, title_at_n(title, words), lines(rows))
        for metric, title in SHOWN.items()
        for part, words in split_by_n(rows[rows["metric"] == metric], "line")
        if len(part)
    ]
    return grid(panels, table) if panels else None


def panel(rows: pd.DataFrame, metric: str, title: Any, names: list[str]) -> Any:
    """One metric over the layers."""
    import altair as alt

    tooltip = [alt.Tooltip("line:N", title="model"), alt.Tooltip("kind:N"), alt.Tooltip("layer:Q"), alt.Tooltip("head:O")]
    tooltip += [alt.Tooltip("value:Q", format=".4g"), alt.Tooltip("interval:N", title="95 % interval")]
    y = alt.Y("value:Q", title=None, scale=alt.Scale(domain=[-1, 1] if metric == "qk_cosine" else [0, 1]))
    base = alt.Chart({"values": records(rows, ["line", "kind", "layer", "head", "policy", "value", "low", "high"])}).encode(x=layer_axis())
    shape = alt.Shape("kind:N", scale=alt.Scale(domain=["attention", "cross_attention"], range=["circle", "diamond"]), legend=None)
    points = base.mark_point(size=26, strokeWidth=1.4, opacity=0.8).encode(y=y, color=colour(names), shape=shape, tooltip=tooltip)
    drawn = [points.transform_filter(POLICY_IS_CHOSEN).transform_calculate(interval=interval_words(rows))]
    if metric == "qk_cosine":
        drawn = [*(chance(level) for level in levels(rows)), *drawn]
    return layered(*drawn).properties(title=title)


def levels(rows: pd.DataFrame) -> list[float]:
    """Both ends of what chance gives the largest of a line's heads, the widest of all lines."""
    heads = rows.drop_duplicates(["line", "kind", "layer", "head"]).groupby("line").agg(count=("head", "size"), d=("d", "min"))
    widest = max(head_threshold(int(d), int(count)) for count, d in heads.itertuples(index=False))
    return [-widest, widest]


def chance(level: float) -> Any:
    """A level as a rule."""
    import altair as alt

    return alt.Chart({"values": [{"value": level}]}).mark_rule(stroke=INK, strokeDash=[2, 3]).encode(y=alt.Y("value:Q"))
