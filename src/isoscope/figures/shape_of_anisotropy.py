"""The main figure of "The Shape of Learning": the top share of encoders and decoders over relative depth."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.charts.depth_profile import draw_depth_profiles
from isoscope.core.figure import figure

SHARES = {"top_share": ("squared: of the eigenvalues", "top share"), "top_share_linear": ("linear: of the singular values", "top share")}


@figure(
    title="The shape of anisotropy",
    caption="The share of the strongest direction over relative depth, from the input of the first block (0) to the output of the last "
    "(1). Encoders are blue, decoders orange, other stacks grey; models of one colour differ by their dash; bands are 95 % intervals; "
    "hollow diamond: after the final norm. Decoders are reported to be bell-shaped and encoders flat. The summary decides this from an "
    "interval, because most noise, too, is highest somewhere inside. A few sink tokens are enough to make a bell: choose the tokens.",
    topic="Shape and dimension",
    order=1,
)
def shape_of_anisotropy(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Top share over relative depth, squared and linear, one line per model and stack."""
    return draw_depth_profiles(table, SHARES, null=False)
