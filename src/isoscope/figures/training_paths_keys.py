"""Figure 21 of "Anisotropy Is Inherent to Self-Attention": the paths of mean query and mean key on the components of the keys."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing.projection import paths


@figure(
    title="Figure 21: paths on the components of the keys alone",
    caption="As Figures 12a and 12b, but on the first two components of the keys of all steps. If the queries drift along them too, what "
    "describes the keys describes the drift of the queries.",
)
def training_paths_keys(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A panel a head."""
    return paths(table, series, "key")
