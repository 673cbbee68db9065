"""The top share of encoders and decoders over relative depth (the main figure of “The Shape of Learning”)."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import grid
from isoscope.drawing.depth_profile import depth_panels

SHOWN = {"top_share": ("squared: of the eigenvalues", "top share"), "top_share_linear": ("linear: of the singular values", "top share")}


@figure(
    title="The shape of anisotropy",
    caption="The share of the strongest direction over relative depth, from what enters the first block (0) to what leaves the last (1): "
    "encoders in blue, decoders in orange, any other stack in grey, models of one colour told apart by their dash, with 95 % intervals; "
    "hollow diamond: after the final norm. Decoders are said to be bell-shaped and encoders flat; whether they are, the summary says from "
    "an interval, for that a curve is highest somewhere inside is true of most noise. A few sink tokens are enough to make a bell: "
    "choose the tokens.",
)
def shape_of_anisotropy(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Top share over relative depth, squared and linear, one line a model and stack."""
    return grid(depth_panels(table, SHOWN, null=False), table)
