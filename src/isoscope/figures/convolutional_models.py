"""The cosine of convolutional networks over the blocks (Figure 4 of “Anisotropy Is Inherent to Self-Attention”)."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import AVERAGE, Curve
from isoscope.drawing.group_profile import group_profile

RECTIFIED = Curve("independent rectified features, 1/π", dash=(8, 3, 2, 3))

KINDS = {
    "hidden": "one vector a position,",
    "map": "one vector an image,",
    "before_norm": "before the last norm,",
    "after_norm": "after the last norm,",
    "before_activation": "before the last activation,",
    "after_activation": "after the last activation,",
}


@figure(
    title="Convolutional networks",
    caption="Mean cosine by block, one line a network with its 95 % interval: of one vector a position and of the whole map as "
    "one vector an image, and before and after each block’s last norm and last activation. Rectified features that have "
    "nothing to do with each other have a cosine of 1/π by themselves, so that after an activation 0 is not the level to"
    " compare with. An average over pairs is 0 under isotropy (grey line); the dotted level, far more lenient, is what "
    "one isotropic pair stays below in 95 % of cases at the layer’s d.",
)
def convolutional_models(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Mean cosine over the blocks in both readings of a map, and around the last norm and activation."""
    return group_profile("convolution", table, KINDS, {AVERAGE: 0.0, RECTIFIED: 1 / math.pi})
