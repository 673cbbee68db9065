"""Every metric of the table over the layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.axes import layer_axis, tooltips
from isoscope.charts.different_n import Title, split_by_n
from isoscope.charts.layer_lines import FINAL, LAYERS, draw_layer_lines
from isoscope.charts.legends import line_colour
from isoscope.charts.panels import arrange_panels
from isoscope.charts.records import label_lines, line_names, select_layers
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
        _metric_panel(part, rows[rows["metric"] == metric + SECOND_NULL], title, names)
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
    tooltip = tooltips(
        *("line:N", "stack:N", "kind:N", "layer:Q", "policy:N", "value:Q .6g", "interval:N"),
        *[f"{name}:Q .4g" for name in nulls],
        *("n:Q", "d:Q"),
        norm_null="norm-matched null",
    )
    base = alt.Chart().encode(x=layer_axis(), color=line_colour(names))
    whisker = base.transform_filter(FINAL).mark_rule(opacity=0.6).encode(y=alt.Y("low:Q", title=None), y2=alt.Y2("high:Q"))
    curves = [
        base.transform_filter(LAYERS)
        .mark_line(strokeDash=DASHES[name], strokeWidth=1.2, opacity=0.75)
        .encode(y=alt.Y(f"{name}:Q", title=None))
        for name in nulls
    ]
    shape = alt.Shape("stack:N", scale=alt.Scale(range=["circle", "square", "triangle-up"]), legend=None)
    return draw_layer_lines(
        rows,
        columns,
        x=layer_axis(),
        # A scale around one number would have no height, so a flat line is drawn above 0.
        y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=bool(np.nanmin(numbers) == np.nanmax(numbers)))),
        tone={"color": line_colour(names)},
        point={"shape": shape} if len(rows["stack"].unique()) > 1 else {},
        tooltip=tooltip,
        above_band=[*([whisker] if rows["low"].notna().any() else []), *curves],
        size=24,
        title=title,
    )
