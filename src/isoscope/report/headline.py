"""The two large charts of the first screen: the cosine, and the dimensions in use, over the layers."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.axes import layer_axis, tooltips
from isoscope.charts.different_n import split_by_n
from isoscope.charts.layer_lines import LAYERS, draw_layer_lines
from isoscope.charts.legends import line_colour
from isoscope.charts.panels import arrange_panels
from isoscope.charts.records import select_layers
from isoscope.core.figure import Figure
from isoscope.estimation.metric import OVER_D
from isoscope.report.charts import Drawing, split_panels
from isoscope.report.line import Line, all_lines

HEIGHT = 290
"""The height of a large chart in pixels."""
COLUMNS = ["line", "kind", "layer", "policy", "metric", "value", "low", "high", "null", "n", "d"]
HEADLINE = Figure(
    "headline",
    "Cosine and dimensions in use",
    "One line per model with its 95 % interval; dashed: the level of isotropic vectors at the same n and d; hollow diamond: the state "
    "after the final norm.",
    lambda table, series: draw_headline(all_lines(table, series)),
)


def headline(lines: list[Line]) -> Drawing | None:
    """The large charts of these lines, or None if no line has layers."""
    chart = draw_headline(lines)
    return None if chart is None else Drawing(HEADLINE, split_panels(chart.to_dict(validate=False)))


def draw_headline(lines: list[Line]) -> Any:
    """One panel per question, and per n if its number depends on n; None without layers."""
    known = [line for line in lines if len(select_layers(line.table))]
    if not known:
        return None
    names = [line.name for line in lines]
    cosines = pd.concat([_rows(line, line.cosine) for line in known])
    dimensions = pd.concat([_rows(line, "effective_rank") for line in known])
    width = dimensions["d"].astype("float64")
    shares = {name: dimensions[name] / width for name in ("value", "low", "high", "null")}
    dimensions = dimensions.assign(metric=f"effective_rank{OVER_D}", **shares)
    pairs = " between items" if cosines["metric"].eq("between_cosine").all() else ""
    panels = [
        _panel(part, title, names, percent=percent)
        for rows, words, percent in (
            (cosines, f"Mean cosine{pairs}", False),
            (dimensions, "Dimensions in use: effective rank / d", True),
        )
        for part, title in split_by_n(rows, "line", words)
    ]
    return arrange_panels(panels, pd.concat([line.table for line in known]), height=HEIGHT)


def _rows(line: Line, metric: str) -> pd.DataFrame:
    """The layers of one line under every token policy."""
    rows = select_layers(line.table)
    return rows[rows["metric"].eq(metric)].sort_values("layer", kind="stable")


def _panel(rows: pd.DataFrame, title: Any, names: list[str], *, percent: bool) -> Any:
    y = alt.Y("value:Q", title=None, scale=alt.Scale(zero=True), axis=alt.Axis(format="%") if percent else alt.Axis())
    tone = {"color": line_colour(names)}
    level = alt.Chart().transform_filter(LAYERS).mark_line(strokeDash=[5, 3], strokeWidth=1.3, opacity=0.85)
    level = level.encode(x=layer_axis(), y=alt.Y("null:Q", title=None), **tone)
    number = "value:Q .3p" if percent else "value:Q .4g"
    tooltip = tooltips(
        *("line:N", "metric:N", "kind:N", "layer:Q", "policy:N", number, "interval:N", "null:Q .3g", "n:Q", "d:Q"), null="isotropic"
    )
    above = [level] if rows["null"].notna().any() else []
    return draw_layer_lines(rows, COLUMNS, x=layer_axis(), y=y, tone=tone, tooltip=tooltip, above_band=above, size=30, title=title)
