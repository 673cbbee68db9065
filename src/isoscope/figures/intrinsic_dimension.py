"""The intrinsic dimension of encoders and decoders over relative depth."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import grid
from isoscope.drawing.depth_profile import depth_panels

SHOWN = {
    "two_nn": ("TwoNN, the whole sample", "intrinsic dimension"),
    "two_nn_batches": ("TwoNN, mean over batches of 4,096, as published", "intrinsic dimension"),
}


@figure(
    title="Intrinsic dimension",
    caption="The dimension in which nearest neighbours lie around a point, over relative depth on a logarithmic axis, with 95 % intervals: "
    "encoders in blue, decoders in orange, the models of one colour told apart by their dash; hollow diamond: after the final norm. Thin "
    "grey: the same estimate for isotropic Gaussian points at the same n and d, which lies far below d, because such estimates are biased "
    "low there.",
)
def intrinsic_dimension(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """TwoNN over relative depth, one line a model and stack."""
    return grid(depth_panels(table, SHOWN, null=True), table)
