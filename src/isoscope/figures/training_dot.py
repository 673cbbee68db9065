"""Figure 14 of "Anisotropy Is Inherent to Self-Attention": the product of mean query and mean key over a training."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing.heads_over_steps import heads_over_steps


@figure(
    title="Figure 14: the score that mean query and mean key make",
    caption="The product of the mean query and the mean key of each head in logits, with the model’s own scale, over the steps of the "
    "first seed; a panel a layer, a colour a head. Between the dotted lines lies what means of this length would give by "
    "chance, if their directions had nothing to do with each other, in the largest of all heads in 95 % of cases (of each layer "
    "the head with the longest means). The product is the same for a whole row of attention and cancels in softmax.",
)
def training_dot(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A panel a layer, a line a head."""

    def chance(rows: pd.DataFrame, level: float) -> pd.Series:
        lengths: pd.Series = rows["null_sd"] * rows["d"].astype("float64") ** 0.5  # the scale times ‖Q̄‖‖K̄‖
        return lengths * level

    return heads_over_steps(table, "qk_dot", y="product of the means, logits", chance=chance)
