"""How sharp every head is, and how much of its attention goes to one place."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import INTERVAL, POLICY_IS_CHOSEN, grid, labelled, lines, records

SHOWN = {
    "attention_entropy_normalised": ("entropy, as a part of uniform", "viridis"),
    "sink_mass": ("attention on the first position", "inferno"),
}
"""The metrics that are drawn, with their titles and scales of colour."""
KINDS = {"attention": "", "cross_attention": "cross-attention, "}


@figure(
    title="Attention by layer and head",
    caption="Left: entropy of a row of attention over the logarithm of its number of open positions, averaged over rows: 1 is uniform, 0 "
    "looks at one place. Right: the part of attention that goes to the first position of the sequence; uniform rows give one over "
    "their length. A head with most of its attention there is a sink. Rows are those of the chosen tokens’ queries.",
)
def attention_heads(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A map of layers and heads for each line and metric."""
    table, _ = labelled(table, series)
    rows = table[table["kind"].isin(list(KINDS)) & table["head"].notna() & table["value"].notna()]
    panels = []
    for line in lines(rows):
        for kind, before in KINDS.items():
            for metric, (title, scheme) in SHOWN.items():
                own = rows[(rows["line"] == line) & (rows["kind"] == kind) & (rows["metric"] == metric)]
                if len(own):
                    panels.append(panel(own, [line, before + title], scheme))
    return grid(panels, table, own_colours=True) if panels else None


def panel(rows: pd.DataFrame, title: list[str], scheme: str) -> Any:
    """One metric of one line, a tile a head."""
    import altair as alt

    tooltip = [alt.Tooltip("layer:O"), alt.Tooltip("head:O"), alt.Tooltip("value:Q", format=".4g"), alt.Tooltip("null:Q", format=".3g")]
    tooltip += [alt.Tooltip("interval:N", title="95 % interval"), alt.Tooltip("n:Q", title="rows", format=",")]
    layers = rows["layer"].nunique()
    shown = sorted(rows["layer"].unique())[:: max(1, layers // 12)]
    tiles = alt.Chart({"values": records(rows, ["layer", "head", "policy", "value", "low", "high", "null", "n"])}).mark_rect()
    coloured = tiles.encode(
        x=alt.X("layer:O", axis=alt.Axis(labelAngle=0, values=[int(layer) for layer in shown])),
        y=alt.Y("head:O", sort="descending"),
        color=alt.Color("value:Q", scale=alt.Scale(domain=[0, 1], scheme=scheme), legend=alt.Legend(title=None, gradientLength=140)),
        tooltip=tooltip,
    )
    return coloured.transform_filter(POLICY_IS_CHOSEN).transform_calculate(interval=INTERVAL).properties(title=title)
