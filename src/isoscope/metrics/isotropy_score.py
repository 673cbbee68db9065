"""An isotropy score that compares across dimensions."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import POPULATION, Number
from isoscope.core.numerics import Floats
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.declaration import Question
from isoscope.estimation.metric import metric
from isoscope.statistics.jackknife_groups import Totals, between_cosine_of

BOUNDS = 0.0, 2.5


def _score(t: Totals, d: int) -> Floats:
    cosine = np.minimum(between_cosine_of(t), 1.0)  # rounding may lift it above
    above = np.maximum(cosine, 0.0)
    return np.asarray(1 - cosine * (1 + (1 - above) * (1 - 3 * above) / (2 * d)))


@metric(
    reads=("directions",), wants=("groups",), range=BOUNDS, interval_about=POPULATION, title="Isotropy score", question=Question.DIRECTIONS
)
def isotropy_score(cloud: Cloud) -> Number:
    """How isotropic directions are, on a scale that does not depend on the dimension: 1 is isotropic, 0 is where all agree.

    ``1 − c·(1 + (1 − c)(1 − 3c)/(2d))`` with c the mean cosine of points of different documents (c = 0 in the bracket where it is
    negative). Of points b + σz with z ~ N(0, I) it is 1/(1 + ‖b‖²/(dσ²)), the part of the squared length that is not drift: the cosine
    itself falls short of that by up to 1/(2d) of it, which the bracket takes back, to 0.0005 for d ≥ 16. Blind to what is centred.

    Range 0 to 2 + 1/(2d), above 1 by chance or where directions are opposite. Null 1, with standard deviation (1 + 1/(2d))·√(2/(d·pairs)).

    Mardia and Jupp (2000): Rayleigh's test of uniform directions.

    >>> isotropy_score([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    0.6666666666666667
    """
    n, d = cloud.moments.alive, cloud.d
    if cloud.groups is None:
        return Number(np.nan, n=n, d=d, note="groups of items were not kept")
    t = cloud.groups.totals
    pairs = float(t.alive**2 - t.pairs)
    if pairs <= 0:
        return Number(np.nan, n=n, d=d, note="all points come from one item" if n else "no point has a direction")
    low, high = cloud.grouped(lambda t: _score(t, d), bounds=BOUNDS)
    return Number(float(_score(t, d)), n=n, d=d, low=low, high=high, null=1.0, null_sd=(1 + 1 / (2 * d)) * (2 / (d * pairs)) ** 0.5)
