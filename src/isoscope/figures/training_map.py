"""The geometry of hidden states over layers and steps, as maps."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.core.group import first_seed
from isoscope.drawing import POLICY_IS_CHOSEN, grid, in_layers, records, short
from isoscope.drawing.different_n import interval_words, split_by_n, title_at_n
from isoscope.drawing.training import over_training, panel_title, ticks

SHOWN = {
    "mean_cosine": ("mean cosine", "viridis"),
    "drift_ratio": ("drift ratio", "viridis"),
    "top_share": ("top share", "inferno"),
    "two_nn": ("intrinsic dimension (TwoNN)", "cividis"),
}
"""The metrics that are drawn, with their titles and scales of colour."""


@figure(
    title="Geometry by layer and step",
    caption="A tile is a layer at a step of the first seed; hidden layer 0 enters the first block. The mean cosine and the drift ratio "
    "see a common direction, the top share one direction of the centred cloud, TwoNN the dimension in which neighbours lie. "
    "Steps stand side by side, however far apart they are.",
)
def training_map(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A panel a metric, a tile a layer and step."""
    rows = in_layers(table)
    rows = rows[rows["kind"].eq("hidden") & rows["metric"].isin(list(SHOWN)) & rows["value"].notna()]
    rows = first_seed(over_training(rows))
    panels = []
    for line in rows["line"].drop_duplicates():
        for metric, (title, scheme) in SHOWN.items():
            own = rows[rows["line"].eq(line) & rows["metric"].eq(metric)]
            words = panel_title(str(line), title, rows)
            panels += [panel(part, title_at_n(words, at), scheme) for part, at in split_by_n(own, "step") if len(part)]
    return grid(panels, table, own_colours=True)


def panel(rows: pd.DataFrame, title: Any, scheme: str) -> Any:
    """One metric of one suite."""
    import altair as alt

    rows = rows.assign(**{name: short(rows[name]) for name in ("value", "low", "high")})
    tooltip = [
        alt.Tooltip("layer:O"),
        alt.Tooltip("step:O"),
        alt.Tooltip("value:Q", format=".4g"),
        alt.Tooltip("interval:N", title="95 % interval"),
    ]
    layers = sorted(int(layer) for layer in rows["layer"].unique())
    tiles = alt.Chart({"values": records(rows, ["layer", "step", "policy", "value", "low", "high"])}).mark_rect()
    coloured = tiles.encode(
        x=alt.X(
            "step:O",
            title="training step",
            axis=alt.Axis(labelAngle=0, values=ticks(rows["step"]), labelExpr="format(datum.value, '.3~s')"),
        ),
        y=alt.Y("layer:O", sort="descending", axis=alt.Axis(values=layers[:: max(1, len(layers) // 12)])),
        color=alt.Color("value:Q", scale=alt.Scale(scheme=scheme), legend=alt.Legend(title=None, gradientLength=140)),
        tooltip=tooltip,
    )
    return coloured.transform_filter(POLICY_IS_CHOSEN).transform_calculate(interval=interval_words(rows)).properties(title=title)
