"""Intrinsic dimension over the size of neighbourhoods."""

from __future__ import annotations

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.dimension import FEWEST, gride
from isoscope.statistics.metric import Curve, series


@series(reads=("neighbours",), title="Intrinsic dimension over scales (GRIDE)", on_request=True)
def gride_scales(cloud: Cloud) -> Curve:
    """The intrinsic dimension from the ratio of the distances to the 2m-th and the m-th neighbour, m = 1, 2, 4 … 64.

    x is m, y the dimension, the weight the mean distance to the 2m-th neighbour. Noise raises the left end; at the right one an edge
    lowers the curve and a bend raises it. A dimension is where it is flat. Empty where there are fewer than ten distinct points.

    Denti, Doimo, Laio and Mira (2022).
    """
    try:
        distances = cloud.neighbours().distances
    except IsoscopeError:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    reach = distances.shape[1] if len(distances) >= FEWEST else 0
    scales = [1 << i for i in range(7) if 2 << i <= reach]
    curve = [(m, gride(distances, m).value, float(distances[:, 2 * m - 1].mean()) * cloud.unit) for m in scales]
    x, y, weight = np.array([row for row in curve if np.isfinite(row).all()]).reshape(-1, 3).T
    return x, y, weight
