"""Intrinsic dimension from more than two neighbours: GRIDE at one scale and as a curve over scales, and Levina–Bickel."""

from __future__ import annotations

from functools import partial

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.number import THIS_N, Number
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.declaration import Question
from isoscope.estimation.intrinsic_dimension import FEWEST, GRIDE, LEVINA_BICKEL, dimension
from isoscope.estimation.intrinsic_dimension import gride as gride_fit
from isoscope.estimation.metric import Curve, metric, series

_dimension = partial(
    metric, reads=("neighbours",), range=(0.0, np.inf), interval_about=THIS_N, question=Question.INTRINSIC_DIMENSION, at_least=3
)


@_dimension(title="Intrinsic dimension (GRIDE, 8 to 16)", on_request=True)
def gride(cloud: Cloud) -> Number:
    """The intrinsic dimension at the scale of the 8th to the 16th neighbour.

    The d that maximises the likelihood of μ = r₁₆/r₈, Π (μ^d − 1)⁷ · d/μ^(15d+1), over the sample's distinct points. Noise and
    near-duplicates that are smaller than r₈ do not count in it; density that changes between r₈ and r₁₆ does. All scales: `gride_scales`.

    Range 0 to ∞; null: its mean over isotropic Gaussian clouds of this n and d.

    Denti, Doimo, Laio and Mira (2022).
    """
    return dimension(cloud, GRIDE)


@_dimension(title="Intrinsic dimension (Levina–Bickel, 20)", on_request=True)
def levina_bickel(cloud: Cloud) -> Number:
    """The intrinsic dimension by maximum likelihood over the 20 nearest neighbours.

    ``n(k − 1)/ΣΣ ln(r_k/r_j)``, k = 20, over the sample's distinct points: the points' estimates joined by the harmonic mean (MacKay and
    Ghahramani), not by the plain mean of the first paper. Surer than `two_nn`, and more biased, since its neighbourhoods are larger.

    Range 0 to ∞; null: its mean over isotropic Gaussian clouds of this n and d.

    Levina and Bickel (2004); MacKay and Ghahramani (2005).
    """
    return dimension(cloud, LEVINA_BICKEL)


@series(reads=("neighbours",), title="Intrinsic dimension over scales (GRIDE)", on_request=True)
def gride_scales(cloud: Cloud) -> Curve:
    """The intrinsic dimension from the ratio of the distances to the 2m-th and the m-th neighbour, m = 1, 2, 4 … 64.

    x is m, y the dimension, the weight the mean distance to the 2m-th neighbour. Noise raises the left end; at the right end an edge
    lowers the curve and a bend raises it. The dimension can be read where the curve is flat. Empty if there are fewer than ten distinct
    points.

    Denti, Doimo, Laio and Mira (2022).
    """
    try:
        distances = cloud.neighbours().distances
    except IsoscopeError:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    reach = distances.shape[1] if len(distances) >= FEWEST else 0
    scales = [1 << i for i in range(7) if 2 << i <= reach]
    curve = [(m, gride_fit(distances, m).value, float(distances[:, 2 * m - 1].mean()) * cloud.unit) for m in scales]
    x, y, weight = np.array([row for row in curve if np.isfinite(row).all()]).reshape(-1, 3).T
    return x, y, weight
