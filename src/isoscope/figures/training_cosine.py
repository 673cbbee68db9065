"""Figure 13 of "Anisotropy Is Inherent to Self-Attention": the cosine of mean query and mean key over a training."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing.heads_over_steps import heads_over_steps


@figure(
    title="Figure 13: do mean query and mean key align in training?",
    caption="The cosine of the mean query and the mean key of each head, after a norm of queries and keys, if there is one, and before "
    "rotary, over the steps of the first seed; a panel per layer, a colour per head. Between the dotted lines the largest of all heads "
    "of the stack stays in 95 % of cases by chance (Bonferroni). The axis of steps is logarithmic, but shows step 0.",
)
def training_cosine(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A panel a layer, a line a head."""

    def chance(rows: pd.DataFrame, level: float) -> pd.Series:
        return pd.Series(level, index=rows.index)

    return heads_over_steps(table, "qk_cosine", y="cosine of mean query and key", chance=chance, domain=[-1, 1])
