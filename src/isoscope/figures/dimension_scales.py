"""The intrinsic dimension by the size of the neighbourhood that is looked at."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing.layer_curves import layer_curves


@figure(
    title="Intrinsic dimension over scales",
    caption="The dimension from the distances to the m-th and the 2m-th neighbour (GRIDE), by m: the further to the right, the larger "
    "the neighbourhoods; one line a layer. Noise raises the left end, a boundary or curvature lowers the right one; where a line is flat "
    "the cloud has a dimension at those scales.",
)
def dimension_scales(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """GRIDE over neighbourhood order, one panel a model."""
    return layer_curves(table, series, "gride_scales", x="neighbourhood order m", y="intrinsic dimension")
