"""Metrics over relative depth, so that stacks of different length lie over each other: the top share and the intrinsic dimension."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.axes import depth_axis, tooltips
from isoscope.charts.different_n import split_by_n
from isoscope.charts.layer_lines import LAYERS, draw_layer_lines
from isoscope.charts.legends import BLUE, INK, ORANGE, Curve, curve_encodings
from isoscope.charts.panels import arrange_panels
from isoscope.charts.records import label_lines, round_columns, select_layers
from isoscope.core.figure import figure
from isoscope.core.model_groups import block_layers

SHARES = {"top_share": ("squared: of the eigenvalues", "top share"), "top_share_linear": ("linear: of the singular values", "top share")}

TOPIC = "Shape and dimension"
ESTIMATES = {
    "two_nn": ("TwoNN, the whole sample", "intrinsic dimension"),
    "two_nn_batches": ("TwoNN, mean over batches of 4,096, as published", "intrinsic dimension"),
}


@figure(
    title="The shape of anisotropy",
    caption="The share of the strongest direction over relative depth, from the input of the first block (0) to the output of the last "
    "(1). Encoders are blue, decoders orange, other stacks grey; models of one colour differ by their dash; bands are 95 % intervals; "
    "hollow diamond: after the final norm. Decoders are reported to be bell-shaped and encoders flat. The summary decides this from an "
    "interval, because most noise, too, is highest somewhere inside. A few sink tokens are enough to make a bell: choose the tokens.",
    topic=TOPIC,
    order=1,
)
def shape_of_anisotropy(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Top share over relative depth, squared and linear, one line per model and stack."""
    return draw_depth_profiles(table, SHARES, null=False)


@figure(
    title="Intrinsic dimension",
    caption="The dimension in which nearest neighbours lie around a point, over relative depth on a logarithmic axis, with 95 % intervals. "
    "Encoders are blue, decoders orange; models of one colour differ by their dash; hollow diamond: after the final norm. Thin grey: the "
    "same estimate for isotropic Gaussian points at the same n and d, which lies far below d, because such estimates are biased low there.",
    topic=TOPIC,
    order=2,
)
def intrinsic_dimension(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """TwoNN over relative depth, one line per model and stack."""
    return draw_depth_profiles(table, ESTIMATES, null=True)


ROLES = {"encoder": BLUE, "decoder": ORANGE}
"""The colours of encoders and decoders; any other stack is grey."""
DASHES = [(1, 0), (6, 2), (2, 2), (8, 2, 2, 2), (4, 4), (1, 3), (10, 3), (12, 2, 2, 2, 2, 2)]
"""Models of one role differ by their dash."""


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
    """The curves of one metric, and the null as a thin line."""
    scales = curve_encodings(curves)
    rows = round_columns(rows.sort_values(["curve", "layer"], kind="stable"), "value", "low", "high", "null", "depth")
    if null:
        # The null lies so far above the values that only a logarithmic axis shows both. It cannot show an interval that reaches below zero:
        # such an end is drawn at half the smallest number.
        rows["low"] = rows["low"].clip(lower=float(rows[["value", "high"]].min().min()) / 2)
    scale = alt.Scale(type="log", nice=False, padding=6) if null else alt.Scale(zero=True)
    detail = alt.Detail("curve:N")
    nulls = alt.Chart().transform_filter(LAYERS).mark_line(strokeWidth=1, opacity=0.6, stroke=INK)
    nulls = nulls.encode(x=depth_axis(), y=alt.Y("null:Q", title=y_title, scale=scale), detail=detail)
    tooltip = tooltips(
        *("curve:N", "kind:N", "layer:Q", "policy:N", "value:Q .4g", "interval:N", "null:Q .4g", "n:Q", "d:Q"),
        curve="model",
        value=y_title,
        null="under isotropy",
    )
    return draw_layer_lines(
        rows,
        ["curve", "kind", "layer", "policy", "value", "low", "high", "null", "n", "d", "depth"],
        x=depth_axis(),
        y=alt.Y("value:Q", title=y_title, scale=scale),
        tone={"color": scales["color"], "detail": detail},
        line={"strokeDash": scales["strokeDash"]},
        tooltip=tooltip,
        above_band=[nulls] if null else [],
        faint=True,
        title=title,
    )
