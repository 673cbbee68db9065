"""Queries and keys of two heads on a common basis, one step at a time: Figures 11, 19 and 20 of paper 1, to be moved through."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing.projection import motion

BASES = {"union": "components of both", "key": "components of the keys", "query": "components of the queries"}


@figure(
    title="Queries and keys, step by step",
    caption="The queries and keys of a few tokens at one step of the first seed, on two components that are the same at every step: of "
    "queries and keys together, of the keys alone, of the queries alone. The large dot is the mean, the line its path so far, the grey "
    "cross the origin; a panel’s axes stay as they are while the step changes. A print file shows the last step.",
)
def training_motion(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A row of panels a head, a panel a basis."""
    return motion(table, series, BASES)
