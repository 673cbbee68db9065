"""Figure 11 of "Anisotropy Is Inherent to Self-Attention": queries and keys of two heads on a common basis, at several steps."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing.projection import clouds


@figure(
    title="Figure 11: queries and keys move in training",
    caption="A dot is the query or the key of one token at a step of the first seed, on two components that are the same at every step: "
    "the first two singular vectors, without centring, of queries and keys of all steps together. The large dot is the mean, "
    "the line its path so far, the grey cross the origin. One head is that whose means end most in the same direction, the "
    "other that whose means end most in opposite directions; all panels of a head have the same axes.",
)
def training_clouds(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A row of panels a head, a panel a step."""
    return clouds(table, series, "union")
