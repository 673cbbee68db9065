"""The effect of special tokens and first tokens on a metric."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.axes import layer_axis
from isoscope.charts.colours import cycle_palette
from isoscope.charts.different_n import Title, split_by_n
from isoscope.charts.labels import label_lines, line_names
from isoscope.charts.panels import arrange_panels, layer_charts
from isoscope.charts.policies import list_policies
from isoscope.charts.records import json_records
from isoscope.charts.selection import select_layers
from isoscope.charts.tooltips import interval_expression, tooltips
from isoscope.core.figure import figure

METRICS = ["between_cosine", "mean_cosine", "participation_ratio_corrected", "top_share", "effective_rank"]
"""The cosine (between items if it was measured), the dimensions in use, the dominant direction, and the effective rank."""


@figure(
    title="With and without special and first tokens",
    caption="The same layers under each token policy: all tokens; no special tokens (such as [CLS] or </s>); the body, which also leaves "
    "out the first token of a sequence. Where the lines part, a few tokens make the number. The hollow diamond is the state after the "
    "final norm. If a metric depends on n, policies that leave different numbers of tokens have separate panels.",
    topic="Spectra, norms and tokens",
    order=4,
)
def policy_difference(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One row of panels per line: a few metrics, one line per policy."""
    table, _ = label_lines(table, series)
    rows = select_layers(table)
    policies = list_policies(rows)
    if len(policies) < 2:
        return None
    present = [metric for metric in METRICS if (rows.loc[rows["metric"] == metric, "value"].notna()).any()]
    metrics = [metric for metric in present if metric != "mean_cosine" or "between_cosine" not in present]
    panels = [
        _policy_panel(part, title, policies)
        for line in line_names(rows)
        for metric in metrics
        for part, title in split_by_n(rows[(rows["line"] == line) & (rows["metric"] == metric)], "policy", [line, metric])
    ]
    return arrange_panels(panels, table, columns=max(1, len(metrics)))


def _policy_panel(rows: pd.DataFrame, title: Title, policies: list[str]) -> Any:
    """One metric of one model under the policies that may be compared."""
    legend = alt.Legend(orient="top", title=None, symbolType="stroke", symbolOpacity=1)
    # Policies often give equal values: dashes show the lines that lie on each other.
    dash = alt.StrokeDash("policy:N", scale=alt.Scale(domain=policies, range=[[1, 0], [6, 2], [2, 2], [8, 2, 2, 2]]), legend=legend)
    tone = alt.Color("policy:N", scale=alt.Scale(domain=policies, range=cycle_palette(len(policies))), legend=legend)
    y = alt.Y("value:Q", title=None, scale=alt.Scale(zero=bool(rows["value"].min() == rows["value"].max())))
    tooltip = tooltips("policy:N", "kind:N", "layer:Q", "value:Q .6g", "interval:N", "n:Q", "d:Q")
    base = alt.Chart().encode(x=layer_axis(), color=tone)
    hidden, final = (base.transform_filter(f"datum.kind == '{kind}'") for kind in ("hidden", "final"))
    rows = rows.sort_values("layer", kind="stable")
    chart = layer_charts(
        *([hidden.mark_area(opacity=0.15).encode(y=alt.Y("low:Q", title=None), y2=alt.Y2("high:Q"))] if rows["low"].notna().any() else []),
        hidden.mark_line(strokeWidth=1.8).encode(y=y, strokeDash=dash),
        hidden.mark_point(filled=True, size=22, opacity=1).encode(y=y, tooltip=tooltip),
        final.mark_point(shape="diamond", size=75, strokeWidth=1.8, opacity=1).encode(y=y, tooltip=tooltip),
        data={"values": json_records(rows, ["policy", "kind", "layer", "value", "low", "high", "n", "d"])},
        title=title,
    )
    return chart.transform_calculate(interval=interval_expression(rows))
