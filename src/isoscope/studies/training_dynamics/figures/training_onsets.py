"""The order of events in a training: maps of geometry over layers and steps, and whether drift or sharpness comes first in a head."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.axes import interval_expression, step_axis, step_ticks, tooltips
from isoscope.charts.different_n import split_by_n
from isoscope.charts.legends import INK, layer_colour
from isoscope.charts.panels import POLICY_IS_CHOSEN, arrange_panels, layer_charts
from isoscope.charts.records import json_records, round_columns, select_layers
from isoscope.core.figure import figure
from isoscope.core.model_groups import select_first_seed
from isoscope.studies.training_dynamics.step_charts import label_suites, select_checkpoints, suite_title

MAPS = {
    "mean_cosine": ("mean cosine", "viridis"),
    "drift_ratio": ("drift ratio", "viridis"),
    "top_share": ("top share", "inferno"),
    "two_nn": ("intrinsic dimension (TwoNN)", "cividis"),
}
"""The metrics of the map, with their titles and colour schemes."""
KINDS = {"query": "drift of queries", "key": "drift of keys"}
AXES = {"drift": "drift begins at step", "sharp": "attention sharpens from step"}
SITE = ["line", "layer", "head"]


@figure(
    title="Drift or sharpness first?",
    caption="A point is a head, by the step at which its queries (left) or keys (right) began to drift and the step at which its attention "
    "began to sharpen: the first step after a tenth of the whole change. Above the diagonal drift came first, below it sharpness. Bars are "
    "95 % intervals over seeds (over documents if there is one seed). Heads without a certain change are left out. Heads that began at the "
    "same checkpoints lie on each other: a larger point stands for more heads.",
    order=8,
    over_steps=True,
)
def training_onsets(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One panel per suite and kind, one point per head."""
    rows = table[table["metric"].isin(["onset_drift", "onset_sharpening"]) & table["head"].notna() & table["value"].notna()]
    rows = label_suites(rows)
    numbers = [*SITE, "value", "low", "high"]
    sharpening = rows.loc[rows["metric"].eq("onset_sharpening"), numbers]
    panels = []
    for line in rows["line"].drop_duplicates():
        for kind, words in KINDS.items():
            drift = rows.loc[rows["line"].eq(line) & rows["kind"].eq(kind) & rows["metric"].eq("onset_drift"), numbers]
            heads = drift.merge(sharpening, on=SITE, suffixes=("_drift", "_sharp"))
            if len(heads):
                steps = table.loc[table["model"].eq(rows.loc[rows["line"].eq(line), "model"].iloc[0]), "step"].dropna().unique()
                panels.append(_onset_panel(heads, suite_title(str(line), words, rows), [int(step) for step in steps]))
    return arrange_panels(panels, table, own_colours=True, height=280)


def _onset_panel(heads: pd.DataFrame, title: list[str], measured: list[int]) -> Any:
    """One suite and kind: heads with the same layer and onsets are one point. The axes span the steps that were measured."""
    numbers = [f"{end}_{event}" for event in ("drift", "sharp") for end in ("value", "low", "high")]
    points = heads.groupby(["layer", *numbers], dropna=False).agg(count=("head", "size"), heads=("head", _head_numbers)).reset_index()
    # Both axes are the same, so that the diagonal divides heads that drift first from heads that sharpen first.
    steps = measured or [0, *points[numbers].max().dropna()]
    across, up = (step_axis(steps, f"value_{name}", words) for name, words in AXES.items())
    x, y = alt.X(**across), alt.Y(**up)
    tooltip = tooltips("layer:Q", "heads:N", "value_drift:Q ,", "value_sharp:Q ,", value_drift="drift", value_sharp="sharpening")
    size = alt.Size("count:Q", scale=alt.Scale(domain=[0, max(4, int(points["count"].max()))], range=[0, 220]), legend=None)
    diagonal = alt.Chart({"values": [{"value_drift": step, "value_sharp": step} for step in steps]})
    base = alt.Chart({"values": json_records(points, ["layer", "count", "heads", *numbers])}).encode(color=layer_colour(points["layer"]))
    bar = base.mark_rule(opacity=0.4)
    return layer_charts(
        diagonal.mark_line(stroke=INK, strokeDash=[2, 3]).encode(x=x, y=y),
        bar.encode(x=x, y=alt.Y(**up | {"shorthand": "low_sharp:Q"}), y2=alt.Y2("high_sharp:Q")),
        bar.encode(x=alt.X(**across | {"shorthand": "low_drift:Q"}), x2=alt.X2("high_drift:Q"), y=y),
        base.mark_point(filled=True, opacity=0.8).encode(x=x, y=y, size=size, tooltip=tooltip),
        title=title,
    )


def _head_numbers(heads: pd.Series) -> str:
    return ", ".join(str(head) for head in sorted(heads))


@figure(
    title="Geometry by layer and step",
    caption="A tile is a layer at a step of the first seed; hidden layer 0 enters the first block. The mean cosine and the drift ratio "
    "detect a common direction, the top share one direction of the centred cloud, TwoNN the dimension in which neighbours lie. Steps are "
    "equally spaced, whatever their distance.",
    order=9,
    over_steps=True,
)
def training_map(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One panel per metric, one tile per layer and step."""
    rows = select_layers(table)
    rows = rows[rows["kind"].eq("hidden") & rows["metric"].isin(list(MAPS)) & rows["value"].notna()]
    rows = select_first_seed(select_checkpoints(rows))
    panels = [
        _map_panel(part, title, scheme)
        for line in rows["line"].drop_duplicates()
        for metric, (words, scheme) in MAPS.items()
        for part, title in split_by_n(rows[rows["line"].eq(line) & rows["metric"].eq(metric)], "step", suite_title(str(line), words, rows))
    ]
    return arrange_panels(panels, table, own_colours=True)


def _map_panel(rows: pd.DataFrame, title: Any, scheme: str) -> Any:
    rows = round_columns(rows, "value", "low", "high")
    layers = sorted(int(layer) for layer in rows["layer"].unique())
    steps = alt.Axis(labelAngle=0, values=step_ticks(rows["step"]), labelExpr="format(datum.value, '.3~s')")
    tiles = alt.Chart({"values": json_records(rows, ["layer", "step", "policy", "value", "low", "high"])}).mark_rect()
    tiles = tiles.encode(
        x=alt.X("step:O", title="training step", axis=steps),
        y=alt.Y("layer:O", sort="descending", axis=alt.Axis(values=layers[:: max(1, len(layers) // 12)])),
        color=alt.Color("value:Q", scale=alt.Scale(scheme=scheme), legend=alt.Legend(title=None, gradientLength=140)),
        tooltip=tooltips("layer:O", "step:O", "value:Q .4g", "interval:N"),
    )
    return tiles.transform_filter(POLICY_IS_CHOSEN).transform_calculate(interval=interval_expression(rows)).properties(title=title)
