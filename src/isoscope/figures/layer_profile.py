"""Metrics over the layers: every one of the table, and a few of them under each token policy."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.axes import layer_axis, tooltips
from isoscope.charts.different_n import Title, split_by_n
from isoscope.charts.layer_lines import draw_layer_lines
from isoscope.charts.legends import cycle_palette
from isoscope.charts.metric_panel import draw_metric_panel
from isoscope.charts.panels import arrange_panels, list_policies
from isoscope.charts.records import label_lines, line_names, select_layers
from isoscope.core.figure import figure

FIRST = ["between_cosine", "mean_cosine", "drift_ratio", "centred_cosine", "top_share", "effective_rank"]
FIRST += ["participation_ratio", "participation_ratio_corrected"]
"""The metrics that most readers look for come first; the others follow by name."""

SECOND_NULL = "_norm_null"
"""`top_share_norm_null` is drawn as a second null of `top_share`, and has no panel of its own."""


@figure(
    title="Every metric over the layers",
    caption="One line per model, with its 95 % interval as a band. Layer 0 enters the first block; the hollow diamond is the state after "
    "the final norm. Pooled vectors, one per item, are a line of their own. Dashed: the value under isotropy at the same n and d; dotted, "
    "if available: isotropic directions with the observed norms. A gap is an undefined value. If a metric depends on n, lines of "
    "different n have separate panels.",
    topic="Every metric",
)
def layer_profile(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One panel per metric, whatever metrics the table holds; a table filtered to one metric gives one panel."""
    table, _ = label_lines(table, series)
    rows = select_layers(table, pooled=True)
    names = [*line_names(table), *dict.fromkeys(rows.loc[rows["kind"].eq("pooled"), "line"])]
    present = set(rows["metric"].dropna())
    metrics = [name for name in FIRST if name in present] + sorted(present - set(FIRST))
    metrics = [name for name in metrics if not (name.endswith(SECOND_NULL) and name.removesuffix(SECOND_NULL) in present)]
    panels = [
        draw_metric_panel(part, rows[rows["metric"] == metric + SECOND_NULL], title, names)
        for metric in metrics
        for part, title in split_by_n(rows[rows["metric"] == metric], "line", metric)
    ]
    return arrange_panels(panels, table, columns=3)


COMPARED = ["between_cosine", "mean_cosine", "participation_ratio_corrected", "top_share", "effective_rank"]
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
    present = [metric for metric in COMPARED if (rows.loc[rows["metric"] == metric, "value"].notna()).any()]
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
    columns = ["policy", "kind", "layer", "value", "low", "high", "n", "d"]
    rows = rows.sort_values("layer", kind="stable")
    look: dict[str, Any] = {"band": 0.15, "size": 22, "every_policy": True, "title": title}
    return draw_layer_lines(rows, columns, x=layer_axis(), y=y, tone={"color": tone}, line={"strokeDash": dash}, tooltip=tooltip, **look)
