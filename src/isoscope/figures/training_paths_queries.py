"""Figure 22 of "Anisotropy Is Inherent to Self-Attention": the paths of mean query and mean key on the components of the queries."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing.projection import paths


@figure(
    title="Figure 22: paths on the components of the queries alone",
    caption="As Figures 12a and 12b, but on the first two components of the queries of all steps. If the keys drift along them too, what "
    "describes the queries describes the drift of the keys.",
)
def training_paths_queries(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A panel a head."""
    return paths(table, series, "query")
