"""The cosine of vision Transformers over the layers (Figure 3b of “Anisotropy Is Inherent to Self-Attention”)."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import AVERAGE
from isoscope.drawing.group_profile import group_profile


@figure(
    title="Vision Transformers",
    caption="Mean cosine of two vectors over all pairs, by layer and by depth relative to the whole network, one line a model "
    "with its 95 % interval; dashed: untrained; hollow diamond: after the final norm. An average over pairs is 0 under "
    "isotropy (grey line); the dotted level, far more lenient, is what one isotropic pair stays below in 95 % of cases "
    "at the layer’s d.",
)
def vision_models(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Mean cosine over the layers, one line a model."""
    return group_profile("vision", table, {"hidden": "mean cosine"}, {AVERAGE: 0.0})
