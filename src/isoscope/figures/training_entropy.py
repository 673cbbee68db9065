"""Figure 15 of "Anisotropy Is Inherent to Self-Attention": the entropy of attention over a training."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import grid
from isoscope.drawing.layers_over_steps import layer_panels

SHOWN = {
    "attention_entropy": ("entropy of a row, in nats", "nats"),
    "attention_entropy_normalised": ("entropy as a part of the uniform row’s", "part of uniform"),
}


@figure(
    title="Figure 15: does attention sharpen in training?",
    caption="The entropy of rows of attention, averaged over rows and heads; a line a layer, from the first to the last by colour. "
    "Strong: the first seed; thin: other seeds, where there are any. Dashed: rows that look at all open positions alike.",
)
def training_entropy(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A panel in nats and one as a part of uniform, a line a layer."""
    rows = table[table["kind"].eq("attention") & table["head"].notna() & table["value"].notna() & table["metric"].isin(list(SHOWN))]
    by = ["model", "stack", "seed", "step", "layer", "policy", "metric", "interval_about"]
    means = rows.groupby(by, dropna=False, sort=False)[["value", "null", "n"]].mean().reset_index()
    means = means.assign(revision=None)
    return grid(layer_panels(means, SHOWN, thin=True, dashed=("attention_entropy",)), table, own_colours=True)
