"""One metric over the layers: a line per model with its interval, and the value under isotropy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.axes import layer_axis, tooltips
from isoscope.charts.different_n import Title
from isoscope.charts.layer_lines import FINAL, LAYERS, draw_layer_lines
from isoscope.charts.legends import line_colour

COLUMNS = ["line", "stack", "kind", "layer", "policy", "value", "low", "high", "null", "n", "d"]
DASHES = {"null": [5, 3], "norm_null": [1, 3]}


def draw_metric_panel(
    rows: pd.DataFrame, second_null: pd.DataFrame, title: Title, names: list[str], *, y_title: str | None = None, legend: bool = True
) -> Any:
    """The lines of one metric that may be compared, in the colours that all `names` have."""
    site, tone = ["line", "kind", "layer", "policy"], line_colour(names, legend=legend)
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
    base = alt.Chart().encode(x=layer_axis(), color=tone)
    whisker = base.transform_filter(FINAL).mark_rule(opacity=0.6).encode(y=alt.Y("low:Q", title=y_title), y2=alt.Y2("high:Q"))
    curves = [
        base.transform_filter(LAYERS)
        .mark_line(strokeDash=DASHES[name], strokeWidth=1.2, opacity=0.75)
        .encode(y=alt.Y(f"{name}:Q", title=y_title))
        for name in nulls
    ]
    shape = alt.Shape("stack:N", scale=alt.Scale(range=["circle", "square", "triangle-up"]), legend=None)
    return draw_layer_lines(
        rows,
        columns,
        x=layer_axis(),
        # A scale around one number would have no height, so a flat line is drawn above 0.
        y=alt.Y("value:Q", title=y_title, scale=alt.Scale(zero=bool(np.nanmin(numbers) == np.nanmax(numbers)))),
        tone={"color": tone},
        point={"shape": shape} if len(rows["stack"].unique()) > 1 else {},
        tooltip=tooltip,
        above_band=[*([whisker] if rows["low"].notna().any() else []), *curves],
        size=24,
        title=title,
    )
