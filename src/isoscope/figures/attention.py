"""Attention head by head: how sharp each head is, how much it attends to one position, and whether its queries and keys align."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.axes import INTERVAL, interval_expression, layer_axis, tooltips
from isoscope.charts.different_n import Title, split_by_n
from isoscope.charts.legends import INK, line_colour
from isoscope.charts.panels import POLICY_IS_CHOSEN, arrange_panels, layer_charts
from isoscope.charts.records import json_records, label_lines, line_names
from isoscope.core.figure import figure
from isoscope.estimation.isotropic_quantiles import head_threshold

TOPIC = "Attention"
KINDS = {"attention": "", "cross_attention": "cross-attention, "}
MAPS = {
    "attention_entropy_normalised": ("entropy, as a part of uniform", "viridis"),
    "sink_mass": ("attention on the first position", "inferno"),
}
"""The metrics of the maps, with their titles and colour schemes."""
POINTS = {
    "qk_cosine": "cosine of the mean query and the mean key",
    "drift_sharpening": "row variance made by the mean query",
}


@figure(
    title="Attention by layer and head",
    caption="Left: the entropy of a row of attention, divided by the logarithm of its number of open positions and averaged over rows: 1 "
    "is uniform, 0 attends to one position. Right: the part of attention on the first position of the sequence; uniform rows give one "
    "divided by their length. A head with most of its attention there is a sink. Rows belong to the queries of the chosen tokens.",
    topic=TOPIC,
    order=1,
)
def attention_heads(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One map of layers and heads per line and metric."""
    table, _ = label_lines(table, series)
    rows = _head_rows(table)
    panels = []
    for line in line_names(rows):
        for kind, prefix in KINDS.items():
            for metric, (title, scheme) in MAPS.items():
                heads = rows[(rows["line"] == line) & (rows["kind"] == kind) & (rows["metric"] == metric)]
                if len(heads):
                    panels.append(_map_panel(heads, [line, prefix + title], scheme))
    return arrange_panels(panels, table, own_colours=True)


def _head_rows(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["kind"].isin(list(KINDS)) & table["head"].notna() & table["value"].notna()]


def _map_panel(rows: pd.DataFrame, title: list[str], scheme: str) -> Any:
    layers = sorted(int(layer) for layer in rows["layer"].unique())
    tiles = alt.Chart({"values": json_records(rows, ["layer", "head", "policy", "value", "low", "high", "null", "n"])}).mark_rect()
    tiles = tiles.encode(
        x=alt.X("layer:O", axis=alt.Axis(labelAngle=0, values=layers[:: max(1, len(layers) // 12)])),
        y=alt.Y("head:O", sort="descending"),
        color=alt.Color("value:Q", scale=alt.Scale(domain=[0, 1], scheme=scheme), legend=alt.Legend(title=None, gradientLength=140)),
        tooltip=tooltips("layer:O", "head:O", "value:Q .4g", "null:Q .3g", "interval:N", "n:Q", n="rows"),
    )
    return tiles.transform_filter(POLICY_IS_CHOSEN).transform_calculate(interval=INTERVAL).properties(title=title)


@figure(
    title="Queries and keys by head",
    caption="A point is a head. Left: the cosine of its mean query and its mean key, after the query and key norm if there is one and "
    "before rotary. By chance, the largest of all heads of a line stays between the dotted lines in 95 % of cases (Bonferroni). Right: the "
    "part of the variance of scores within rows that exists because queries have a mean; the rest would exist without any drift of "
    "queries.",
    topic=TOPIC,
    order=2,
)
def query_key_alignment(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One panel per metric, one point per head."""
    table, _ = label_lines(table, series)
    rows = _head_rows(table)
    panels = [
        _points_panel(part, metric, title, line_names(rows))
        for metric, words in POINTS.items()
        for part, title in split_by_n(rows[rows["metric"] == metric], "line", words)
    ]
    return arrange_panels(panels, table)


def _points_panel(rows: pd.DataFrame, metric: str, title: Title, names: list[str]) -> Any:
    y = alt.Y("value:Q", title=None, scale=alt.Scale(domain=[-1, 1] if metric == "qk_cosine" else [0, 1]))
    shape = alt.Shape("kind:N", scale=alt.Scale(domain=list(KINDS), range=["circle", "diamond"]), legend=None)
    tooltip = tooltips("line:N", "kind:N", "layer:Q", "head:O", "value:Q .4g", "interval:N")
    points = alt.Chart({"values": json_records(rows, ["line", "kind", "layer", "head", "policy", "value", "low", "high"])})
    points = points.mark_point(size=26, strokeWidth=1.4, opacity=0.8)
    points = points.encode(x=layer_axis(), y=y, color=line_colour(names), shape=shape, tooltip=tooltip)
    points = points.transform_filter(POLICY_IS_CHOSEN).transform_calculate(interval=interval_expression(rows))
    rules = [
        alt.Chart({"values": [{"value": level}]}).mark_rule(stroke=INK, strokeDash=[2, 3]).encode(y=alt.Y("value:Q"))
        for level in (chance_levels(rows) if metric == "qk_cosine" else [])
    ]
    return layer_charts(*rules, points, title=title)


def chance_levels(rows: pd.DataFrame) -> list[float]:
    """Both ends of the range that the largest of a line's heads stays within by chance; of several lines the widest range."""
    heads = rows.drop_duplicates(["line", "kind", "layer", "head"]).groupby("line").agg(count=("head", "size"), d=("d", "min"))
    widest = max(head_threshold(int(d), int(count)) for count, d in heads.itertuples(index=False))
    return [-widest, widest]
