"""The geometry of hidden states over the steps of a training, with all seeds."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import grid, in_layers
from isoscope.drawing.layers_over_steps import layer_panels

SHOWN = {
    "mean_cosine": ("mean cosine", "mean cosine"),
    "drift_ratio": ("drift ratio", "drift ratio"),
    "top_share": ("top share", "top share"),
    "effective_rank": ("effective rank", "dimensions"),
}


@figure(
    title="Geometry over the steps of training",
    caption="A line a layer in the first seed, from the first to the last by colour; the band reaches from the least to the greatest of "
    "all seeds at the steps that two seeds or more have. The axis of steps is logarithmic, but shows step 0.",
)
def training_geometry(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A panel a metric, a line a layer."""
    rows = in_layers(table)
    rows = rows[rows["kind"].eq("hidden") & rows["metric"].isin(list(SHOWN)) & rows["value"].notna()]
    return grid(layer_panels(rows, SHOWN), table, own_colours=True)
