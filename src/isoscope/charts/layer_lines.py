"""Lines over layers: a band for each interval, lines and points of the layers, and a diamond for the state after the final norm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.axes import interval_expression
from isoscope.charts.panels import POLICY_IS_CHOSEN, layer_charts
from isoscope.charts.records import json_records
from isoscope.core.model_groups import UNTRAINED

LAYERS, FINAL = "datum.kind != 'final'", "datum.kind == 'final'"
FAINT_IF_UNTRAINED = f"indexof(datum.curve, '{UNTRAINED}') == 0 ? 0.6 : 1"
"""The expression for the opacity of a curve."""


def draw_layer_lines(
    rows: pd.DataFrame,
    columns: list[str],
    *,
    x: Any,
    y: Any,
    tone: Mapping[str, Any],
    tooltip: list[Any],
    line: Mapping[str, Any] | None = None,
    point: Mapping[str, Any] | None = None,
    below: Sequence[Any] = (),
    above_band: Sequence[Any] = (),
    band: float = 0.18,
    size: int = 20,
    has_final: bool = True,
    faint: bool = False,
    every_policy: bool = False,
    interval: str = "",
    **properties: Any,
) -> Any:
    """The layers of one panel, as lines with points and with bands if any of the rows has an interval.

    Args:
        columns: the columns that the chart holds; `layer`, `kind`, `policy`, `low` and `high` are among them.
        y: the axis of `value`; the band has the same.
        tone: the encodings of all marks: the colour, and what tells apart lines of one colour.
        line: more encodings of the lines, such as a dash.
        point: more encodings of the points.
        below: charts below everything else.
        above_band: charts between the bands and the lines.
        band: the opacity of the bands.
        size: the size of the points.
        has_final: whether the rows have a `kind`, so that the state after the final norm is a diamond.
        faint: whether untrained networks are faint; the column `curve` then names the networks.
        every_policy: whether all token policies are drawn, and not the one that the reader chose.
        interval: the expression for an interval in words, if it is not that of these rows.
        properties: the chart's title.
    """
    # scale=None: the column is the opacity itself, not a number to be mapped to one.
    weight = {"opacity": alt.Opacity("weight:Q", scale=None, legend=None)} if faint else {}
    ends = {"y": alt.Y("low:Q", title=y["title"], scale=y["scale"]), "y2": alt.Y2("high:Q")}
    base = alt.Chart().encode(x=x, **tone)
    layers = base.transform_filter(LAYERS) if has_final else base
    bands = [layers.mark_area(opacity=band).encode(**ends)] if rows["low"].notna().any() else []
    marks = [
        layers.mark_line(strokeWidth=1.8).encode(y=y, **weight, **(line or {})),
        layers.mark_point(filled=True, size=size, opacity=1).encode(y=y, **weight, **(point or {}), tooltip=tooltip),
    ]
    if has_final:
        diamond = base.transform_filter(FINAL).mark_point(shape="diamond", size=75, strokeWidth=1.8, opacity=1)
        marks.append(diamond.encode(y=y, **weight, tooltip=tooltip))
    chart = layer_charts(*below, *bands, *above_band, *marks, data={"values": json_records(rows, columns)}, **properties)
    chart = chart if every_policy else chart.transform_filter(POLICY_IS_CHOSEN)
    calculated = {"interval": interval or interval_expression(rows)} | ({"weight": FAINT_IF_UNTRAINED} if faint else {})
    return chart.transform_calculate(**calculated)
