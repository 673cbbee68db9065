"""Figures 12a and 12b of "Anisotropy Is Inherent to Self-Attention": the paths of mean query and mean key on a common basis."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing.projection import paths


@figure(
    title="Figures 12a and 12b: the paths of mean query and mean key",
    caption="The mean query and the mean key of a head on two components that are the same at every step: the first two singular "
    "vectors, without centring, of queries and keys of all steps together. A dot is a checkpoint of the first seed, the largest "
    "the last one, the grey cross the origin. Left (12a) the head whose means end most in the same direction, right (12b) the "
    "one whose means end most in opposite directions.",
)
def training_paths(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A panel a head."""
    return paths(table, series, "union")
