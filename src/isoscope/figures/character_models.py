"""The cosine of character- and byte-level models over the layers (Figure 2 of “Anisotropy Is Inherent to Self-Attention”)."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import AVERAGE
from isoscope.drawing.group_profile import group_profile


@figure(
    title="Character-level models",
    caption="Mean cosine of two vectors over all pairs, by layer and by depth relative to the whole network, one line a model "
    "with its 95 % interval; dashed: untrained; hollow diamond: after the final norm. An encoder–decoder is one line, "
    "the encoder’s layers before the decoder’s, broken at the dotted upright. An average over pairs is 0 under isotropy "
    "(grey line); the dotted level, far more lenient, is what one isotropic pair stays below in 95 % of cases at the "
    "layer’s d.",
)
def character_models(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Mean cosine over the layers, one line a model."""
    return group_profile("character", table, {"hidden": "mean cosine"}, {AVERAGE: 0.0})
