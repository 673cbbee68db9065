"""What special and first tokens do to a number."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import PALETTE, grid, in_layers, labelled, layer_axis, layered, lines, policies, records
from isoscope.drawing.different_n import interval_words, split_by_n, title_at_n

SHOWN = ["between_cosine", "mean_cosine", "participation_ratio_corrected", "top_share", "effective_rank"]
"""The cosine (between items where there is one), the dimensions in use, the dominant direction, and the effective rank."""


@figure(
    title="With and without special and first tokens",
    caption="The same layers under each token policy: all tokens; no special ones (such as [CLS] or </s>); the body, without the first "
    "token of a sequence either. Where the lines part, a few tokens make the number; the hollow diamond is the state after the final norm. "
    "Of a metric that depends on n, policies that leave different numbers of tokens have panels of their own.",
)
def policy_difference(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A row of panels for each line: a few metrics, one line a policy."""
    table, _ = labelled(table, series)
    rows = in_layers(table)
    names = policies(rows)
    if len(names) < 2:
        return None
    present = [metric for metric in SHOWN if (rows.loc[rows["metric"] == metric, "value"].notna()).any()]
    metrics = [metric for metric in present if metric != "mean_cosine" or "between_cosine" not in present]
    panels = []
    for line in lines(rows):
        for metric in metrics:
            own = rows[(rows["line"] == line) & (rows["metric"] == metric)]
            parts = split_by_n(own, "policy")
            panels += [panel(part, title_at_n([line, metric], words), names) for part, words in parts if part["value"].notna().any()]
    return grid(panels, table, columns=max(1, len(metrics)))


def panel(rows: pd.DataFrame, title: Any, names: list[str]) -> Any:
    """One metric of one model under the policies that may be compared."""
    import altair as alt

    scale = alt.Scale(domain=names, range=[PALETTE[i % len(PALETTE)] for i in range(len(names))])
    legend = alt.Legend(orient="top", title=None, symbolType="stroke", symbolOpacity=1)
    dashes = alt.StrokeDash("policy:N", scale=alt.Scale(domain=names, range=[[1, 0], [6, 2], [2, 2], [8, 2, 2, 2]]), legend=legend)
    tone = alt.Color("policy:N", scale=scale, legend=legend)
    y = alt.Y("value:Q", title=None, scale=alt.Scale(zero=bool(rows["value"].min() == rows["value"].max())))
    tooltip = [alt.Tooltip("policy:N", title="tokens"), alt.Tooltip("kind:N"), alt.Tooltip("layer:Q"), alt.Tooltip("value:Q", format=".6g")]
    tooltip += [alt.Tooltip("interval:N", title="95 % interval"), alt.Tooltip("n:Q", format=","), alt.Tooltip("d:Q", format=",")]
    base = alt.Chart().encode(x=layer_axis(), color=tone)
    hidden, final = (base.transform_filter(f"datum.kind == '{kind}'") for kind in ("hidden", "final"))
    rows = rows.sort_values("layer", kind="stable")
    chart = layered(
        *([hidden.mark_area(opacity=0.15).encode(y=alt.Y("low:Q", title=None), y2=alt.Y2("high:Q"))] if rows["low"].notna().any() else []),
        hidden.mark_line(strokeWidth=1.8).encode(y=y, strokeDash=dashes),
        hidden.mark_point(filled=True, size=22, opacity=1).encode(y=y, tooltip=tooltip),
        final.mark_point(shape="diamond", size=75, strokeWidth=1.8, opacity=1).encode(y=y, tooltip=tooltip),
        data={"values": records(rows, ["policy", "kind", "layer", "value", "low", "high", "n", "d"])},
    )
    return chart.transform_calculate(interval=interval_words(rows)).properties(title=title)
