"""Which comes first in a head: the drift of its queries and keys, or the sharpening of its attention?"""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import INK, grid, layered, records
from isoscope.drawing.training import layer_colour, panel_title, step_axis, with_suite

KINDS = {"query": "drift of queries", "key": "drift of keys"}
AXES = {"drift": "drift begins at step", "sharp": "attention sharpens from step"}
SITE = ["line", "layer", "head"]


@figure(
    title="Drift or sharpness first?",
    caption="A point is a head, by the step at which its queries (left) or keys (right) have begun to drift and the step at which its "
    "attention has begun to sharpen: each the first step past a tenth of the whole change. Above the diagonal drift came first, "
    "below it sharpness. Bars are 95 % intervals over seeds (of one seed over documents); heads without a sure change are left "
    "out. Heads that began at the same checkpoints lie on each other: the larger a point, the more heads.",
)
def training_onsets(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A panel a suite and kind, a point a head."""
    rows = table[table["metric"].isin(["onset_drift", "onset_sharpening"]) & table["head"].notna() & table["value"].notna()]
    rows = with_suite(rows)
    sharp = rows.loc[rows["metric"].eq("onset_sharpening"), [*SITE, "value", "low", "high"]]
    panels = []
    for line in rows["line"].drop_duplicates():
        for kind, title in KINDS.items():
            drift = rows.loc[
                rows["line"].eq(line) & rows["kind"].eq(kind) & rows["metric"].eq("onset_drift"), [*SITE, "value", "low", "high"]
            ]
            both = drift.merge(sharp, on=SITE, suffixes=("_drift", "_sharp"))
            if len(both):
                steps = table.loc[table["model"].eq(rows.loc[rows["line"].eq(line), "model"].iloc[0]), "step"].dropna().unique()
                panels.append(panel(both, panel_title(str(line), title, rows), [int(step) for step in steps]))
    return grid(panels, table, own_colours=True, height=280)


def panel(heads: pd.DataFrame, title: list[str], measured: list[int]) -> Any:
    """One suite and kind: heads with the same layer and onsets are one point. The axes are those of the steps that were measured."""
    import altair as alt

    numbers = [f"{end}_{what}" for what in ("drift", "sharp") for end in ("value", "low", "high")]
    points = heads.groupby(["layer", *numbers], dropna=False).agg(count=("head", "size"), heads=("head", spoken)).reset_index()
    steps = measured or [0, *points[numbers].max().dropna()]
    across, up = (step_axis(steps, f"value_{name}", title) for name, title in AXES.items())
    x, y = alt.X(**across), alt.Y(**up)
    data = {"values": records(points, ["layer", "count", "heads", *numbers])}
    tooltip = [
        alt.Tooltip("layer:Q"),
        alt.Tooltip("heads:N"),
        alt.Tooltip("value_drift:Q", title="drift", format=","),
        alt.Tooltip("value_sharp:Q", title="sharpening", format=","),
    ]
    size = alt.Size("count:Q", scale=alt.Scale(domain=[0, max(4, int(points["count"].max()))], range=[0, 220]), legend=None)
    ends = [{"value_drift": step, "value_sharp": step} for step in steps]
    diagonal = alt.Chart({"values": ends}).mark_line(stroke=INK, strokeDash=[2, 3]).encode(x=x, y=y)
    base = alt.Chart(data).encode(**layer_colour(points["layer"]))
    bars = [
        base.mark_rule(opacity=0.4).encode(x=x, y=alt.Y(**up | {"shorthand": "low_sharp:Q"}), y2=alt.Y2("high_sharp:Q")),
        base.mark_rule(opacity=0.4).encode(x=alt.X(**across | {"shorthand": "low_drift:Q"}), x2=alt.X2("high_drift:Q"), y=y),
    ]
    return layered(diagonal, *bars, base.mark_point(filled=True, opacity=0.8).encode(x=x, y=y, size=size, tooltip=tooltip), title=title)


def spoken(heads: pd.Series) -> str:
    """The numbers of heads, in order."""
    return ", ".join(str(head) for head in sorted(heads))
