"""A metric over relative depth, so that stacks of different length lie over each other."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.axes import depth_axis
from isoscope.charts.colours import BLUE, INK, ORANGE
from isoscope.charts.different_n import split_by_n
from isoscope.charts.labels import label_lines
from isoscope.charts.legends import Curve, curve_encodings
from isoscope.charts.panels import arrange_panels, layer_charts
from isoscope.charts.policies import POLICY_IS_CHOSEN
from isoscope.charts.records import json_records, round_columns
from isoscope.charts.selection import select_layers
from isoscope.charts.tooltips import interval_expression, tooltips
from isoscope.core.model_groups import UNTRAINED, block_layers

ROLES = {"encoder": BLUE, "decoder": ORANGE}
"""The colours of encoders and decoders; any other stack is grey."""
DASHES = [(1, 0), (6, 2), (2, 2), (8, 2, 2, 2), (4, 4), (1, 3), (10, 3), (12, 2, 2, 2, 2, 2)]
"""Models of one role differ by their dash."""
COLUMNS = ["curve", "kind", "layer", "policy", "value", "low", "high", "null", "n", "d", "depth"]
FAINT_IF_UNTRAINED = f"indexof(datum.curve, '{UNTRAINED}') == 0 ? 0.6 : 1"
"""The expression for the opacity of a curve."""


def draw_depth_profiles(table: pd.DataFrame, metrics: dict[str, tuple[str, str]], *, null: bool) -> Any:
    """One panel per metric (title, title of the axis), and per n if it depends on n; `null` draws the null too. None without values."""
    rows = add_depth(table)
    rows = rows[rows["metric"].isin(list(metrics)) & rows["value"].notna()]
    curves = role_curves(rows)
    rows = rows.assign(curve=rows["line"].map({line: curve.name for line, curve in curves.items()}))
    panels = [
        _depth_panel(part, list(curves.values()), part_title, y, null=null and bool(part["null"].notna().any()))
        for metric, (title, y) in metrics.items()
        for part, part_title in split_by_n(rows[rows["metric"] == metric], "curve", title)
    ]
    return arrange_panels(panels, table)


def add_depth(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of layers with their `depth` in their stack, from 0 (enters the first block) to 1 (leaves the last).

    The state after a final norm has the depth of the last block.
    """
    rows = select_layers(label_lines(table)[0])
    last = rows[rows["kind"].eq("hidden")].groupby("line")["layer"].max()
    blocks = rows["line"].map(last).astype("Float64").clip(lower=1)
    return rows.assign(depth=(block_layers(rows) / blocks).astype("float64"))


def role_curves(rows: pd.DataFrame) -> dict[str, Curve]:
    """The legend entry of each line, encoders first. The colour shows the role, the dash the model."""
    stacks = dict(rows[["line", "stack"]].drop_duplicates("line").astype(str).to_numpy())
    curves: dict[str, Curve] = {}
    for role in [*ROLES, *sorted(set(stacks.values()) - set(ROLES))]:
        for i, line in enumerate(name for name in stacks if stacks[name] == role):
            title = line if line.endswith(f" · {role}") else f"{line} · {role}"
            curves[line] = Curve(title, ROLES.get(role, INK), DASHES[i % len(DASHES)])
    return curves


def _depth_panel(rows: pd.DataFrame, curves: list[Curve], title: Any, y_title: str, *, null: bool) -> Any:
    """Bands, lines and points of the hidden layers, a diamond for the state after the final norm, and the null as a thin line."""
    scales = curve_encodings(curves)
    tone = {"color": scales["color"]}
    rows = round_columns(rows.sort_values(["curve", "layer"], kind="stable"), "value", "low", "high", "null", "depth")
    if null:
        # The null lies so far above the values that only a logarithmic axis shows both. It cannot show an interval that reaches below zero:
        # such an end is drawn at half the smallest number.
        rows["low"] = rows["low"].clip(lower=float(rows[["value", "high"]].min().min()) / 2)
    scale = alt.Scale(type="log", nice=False, padding=6) if null else alt.Scale(zero=True)
    y = alt.Y("value:Q", title=y_title, scale=scale)
    band = {"y": alt.Y("low:Q", title=y_title, scale=scale), "y2": alt.Y2("high:Q")}
    tooltip = tooltips(
        *("curve:N", "kind:N", "layer:Q", "policy:N", "value:Q .4g", "interval:N", "null:Q .4g", "n:Q", "d:Q"),
        curve="model",
        value=y_title,
        null="under isotropy",
    )
    # scale=None: the column is the opacity itself, not a number to be mapped to one.
    weight = alt.Opacity("weight:Q", scale=None, legend=None)
    detail = alt.Detail("curve:N")
    base = alt.Chart().encode(x=depth_axis())
    hidden, final = (base.transform_filter(f"datum.kind == '{kind}'") for kind in ("hidden", "final"))
    layers = []
    if rows["low"].notna().any():
        layers.append(hidden.mark_area(opacity=0.18).encode(**band, **tone, detail=detail))
    if null:
        line = hidden.mark_line(strokeWidth=1, opacity=0.6, stroke=INK)
        layers.append(line.encode(y=alt.Y("null:Q", title=y_title, scale=scale), detail=detail))
    layers += [
        hidden.mark_line(strokeWidth=1.8).encode(y=y, **scales, opacity=weight),
        hidden.mark_point(filled=True, size=20).encode(y=y, **tone, opacity=weight, tooltip=tooltip),
        final.mark_point(shape="diamond", size=75, strokeWidth=1.8).encode(y=y, **tone, opacity=weight, tooltip=tooltip),
    ]
    chart = layer_charts(*layers, data={"values": json_records(rows, COLUMNS)}, title=title)
    return chart.transform_filter(POLICY_IS_CHOSEN).transform_calculate(interval=interval_expression(rows), weight=FAINT_IF_UNTRAINED)
