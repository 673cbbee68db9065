"""Every metric of the table over the layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.axes import layer_axis
from isoscope.charts.colours import line_colour
from isoscope.charts.different_n import Title, split_by_n
from isoscope.charts.labels import label_lines, line_names
from isoscope.charts.panels import arrange_panels, layer_charts
from isoscope.charts.policies import POLICY_IS_CHOSEN
from isoscope.charts.records import json_records
from isoscope.charts.selection import select_layers
from isoscope.charts.tooltips import interval_expression, tooltips
from isoscope.core.figure import figure

FIRST = ["between_cosine", "mean_cosine", "drift_ratio", "centred_cosine", "top_share", "effective_rank"]
FIRST += ["participation_ratio", "participation_ratio_corrected"]
"""The metrics that most readers look for come first; the others follow by name."""

SECOND_NULL = "_norm_null"
"""`top_share_norm_null` is drawn as a second null of `top_share`, and has no panel of its own."""

COLUMNS = ["line", "stack", "kind", "layer", "policy", "value", "low", "high", "null", "n", "d"]
DASHES = {"null": [5, 3], "norm_null": [1, 3]}


@figure(
    title="Every metric over the layers",
    caption="One line per model, with its 95 % interval as a band. Layer 0 enters the first block; the hollow diamond is the state after "
    "the final norm. Dashed: the value under isotropy at the same n and d; dotted, if available: isotropic directions with the observed "
    "norms. A gap is an undefined value. If a metric depends on n, lines of different n have separate panels.",
    topic="Every metric",
)
def layer_profile(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One panel per metric, whatever metrics the table holds; a table filtered to one metric gives one panel."""
    table, _ = label_lines(table, series)
    rows = select_layers(table)
    present = set(rows["metric"].dropna())
    metrics = [name for name in FIRST if name in present] + sorted(present - set(FIRST))
    metrics = [name for name in metrics if not (name.endswith(SECOND_NULL) and name.removesuffix(SECOND_NULL) in present)]
    panels = [
        _metric_panel(part, rows[rows["metric"] == metric + SECOND_NULL], title, line_names(table))
        for metric in metrics
        for part, title in split_by_n(rows[rows["metric"] == metric], "line", metric)
    ]
    return arrange_panels(panels, table, columns=3)


def _metric_panel(rows: pd.DataFrame, second_null: pd.DataFrame, title: Title, names: list[str]) -> Any:
    """The lines of one metric that may be compared, in the colours that all `names` have."""
    site = ["line", "kind", "layer", "policy"]
    columns = list(COLUMNS)
    if len(second_null):
        levels = second_null[[*site, "value"]].rename(columns={"value": "norm_null"}).drop_duplicates(site)
        rows = rows.merge(levels, on=site, how="left")
        columns.append("norm_null")
    rows = rows.sort_values(["line", "layer"], kind="stable")
    nulls = [name for name in DASHES if name in columns and rows[name].notna().any()]
    numbers = rows[["value", "low", "high", *nulls]].to_numpy(float)
    flat = bool(np.nanmin(numbers) == np.nanmax(numbers))
    marks = _profile_marks(line_colour(names), nulls=nulls, band=bool(rows["low"].notna().any()), stacks=rows["stack"].nunique(), flat=flat)
    chart = layer_charts(*marks, data={"values": json_records(rows, columns)}, title=title)
    return chart.transform_filter(POLICY_IS_CHOSEN).transform_calculate(interval=interval_expression(rows))


def _profile_marks(tone: Any, *, nulls: list[str], band: bool, stacks: int, flat: bool) -> list[Any]:
    """Band, nulls, line and points of the hidden layers; diamond and whisker of the final state."""
    base = alt.Chart().encode(x=layer_axis(), color=tone)
    hidden, final = (base.transform_filter(f"datum.kind == '{kind}'") for kind in ("hidden", "final"))
    # A scale around one number would have no height, so a flat line is drawn above 0.
    value = alt.Y("value:Q", title=None, scale=alt.Scale(zero=flat))
    tooltip = tooltips(
        *("line:N", "stack:N", "kind:N", "layer:Q", "policy:N", "value:Q .6g", "interval:N"),
        *[f"{name}:Q .4g" for name in nulls],
        *("n:Q", "d:Q"),
        norm_null="norm-matched null",
    )
    shape = alt.Shape("stack:N", scale=alt.Scale(range=["circle", "square", "triangle-up"]), legend=None) if stacks > 1 else alt.Undefined
    ends = {"y": alt.Y("low:Q", title=None), "y2": alt.Y2("high:Q")}
    bands = [hidden.mark_area(opacity=0.18).encode(**ends), final.mark_rule(opacity=0.6).encode(**ends)] if band else []
    return [
        *bands,
        *[
            hidden.mark_line(strokeDash=DASHES[name], strokeWidth=1.2, opacity=0.75).encode(y=alt.Y(f"{name}:Q", title=None))
            for name in nulls
        ],
        hidden.mark_line(strokeWidth=1.8).encode(y=value),
        hidden.mark_point(filled=True, size=24, opacity=1).encode(y=value, shape=shape, tooltip=tooltip),
        final.mark_point(shape="diamond", size=75, filled=False, strokeWidth=1.8, opacity=1).encode(y=value, tooltip=tooltip),
    ]
