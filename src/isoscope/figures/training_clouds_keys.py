"""Figure 19 of "Anisotropy Is Inherent to Self-Attention": queries and keys on the components of the keys, at several steps."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing.projection import clouds


@figure(
    title="Figure 19: clouds on the components of the keys alone",
    caption="As Figure 11, but the two components are those of the keys of all steps, which know nothing of the queries. If queries "
    "drift along them too, it is not the choice of components that makes the drifts agree.",
)
def training_clouds_keys(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A row of panels a head, a panel a step."""
    return clouds(table, series, "key")
