"""The intrinsic dimension by the number of points that it is estimated from."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing.layer_curves import layer_curves


@figure(
    title="Intrinsic dimension over sample size",
    caption="TwoNN of ever larger parts of the sample, one line a layer; upright bars: one standard deviation between parts of the same "
    "size. A line that still rises or falls at its right end has not settled, and a number from a sample of this size is not yet "
    "that of the cloud.",
)
def dimension_sizes(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """TwoNN over the size of the sample, one panel a model."""
    return layer_curves(table, series, "two_nn_sizes", x="points", y="intrinsic dimension", spread="standard deviation")
