"""Whether drift and cosine go together over the layers, by Spearman (Figure 5 of “Anisotropy Is Inherent to Self-Attention”)."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing.p_values import p_values


@figure(
    title="Drift and cosine over the layers, by Spearman",
    caption="The p-value of Spearman’s ρ between drift and mean cosine over each model’s layers, left of the red line below 0.05. The "
    "published p (grey) is not a valid test: it takes layers for independent, but each is its neighbour and a little more, so that"
    " of two random walks over 13 layers a third pass. Blue squares: Spearman’s ρ on the differences between successive layers, by"
    " permutation; hollow: fewer than 12 layers, no verdict. Diamonds: the same pooled over a group’s models (hollow: fewer than "
    "three). Below 10⁻⁶ marks stand at the edge.",
)
def drift_spearman(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A row a model: the p-value as published and the one of permuted differences."""
    return p_values(table, "spearman_p")
