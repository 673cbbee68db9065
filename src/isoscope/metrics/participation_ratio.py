"""The participation ratio: of the sample, of the population, and on a scale from 0 to 1 (IsoScore)."""

from __future__ import annotations

from functools import partial

import numpy as np

from isoscope.core.number import POPULATION, THIS_N, Number
from isoscope.core.numerics import Floats
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.declaration import Question
from isoscope.estimation.eigenvalues import top_part
from isoscope.estimation.metric import metric
from isoscope.estimation.participation import FEWEST, corrected_participation

_ratio = partial(metric, question=Question.DIMENSIONS_IN_USE)


def _participation(values: Floats) -> Floats:
    return np.asarray(values.sum(-1) ** 2 / (values**2).sum(-1))


@_ratio(reads=("second",), wants=("sample",), range=(1.0, np.inf), interval_about=THIS_N, title="Participation ratio")
def participation_ratio(cloud: Cloud) -> Number:
    """How many directions share the variance, counting each by its square.

    ``(Σλ)²/Σλ²``, centred.

    Range 1 to d. Null: its mean over isotropic Gaussian clouds of this n and d, about d/(1+d/n).

    >>> round(participation_ratio([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), 3)
    1.471
    """
    return cloud.spectral(_participation, bounds=(1.0, cloud.d))


@_ratio(
    reads=("second", "sample"), wants=("groups",), range=(1.0, np.inf), interval_about=POPULATION, title="Participation ratio, corrected"
)
def participation_ratio_corrected(cloud: Cloud) -> Number:
    """How many directions share the variance in the population of documents: `participation_ratio` without its dependence on n.

    ``(tr Σ)²/tr(Σ²)``, with tr(Σ²) estimated from points of different documents. ``(Σλ)²/Σλ²`` of a sample is too small, by about
    PR/n of itself if points are independent and by more if they are not. An estimate above d, which happens if the cloud is nearly
    isotropic, is given as d.

    Range 1 to d. Null: independent points of an isotropic Gaussian. In about half of such clouds the number is d; its mean is about
    d·(1 − 0.80/n) and its standard deviation 1.17·d/n.

    >>> x = np.random.default_rng(0).normal(size=(100, 50))
    >>> round(participation_ratio_corrected(x), 1), round(float(np.trace(c := np.cov(x.T)) ** 2 / (c**2).sum()), 1)
    (50.0, 33.5)
    """
    n, d = cloud.n, cloud.d
    if np.isnan(cloud.spectral_value(top_part)):
        return Number(np.nan, n=n, d=d, note="all points are equal" if n > 1 else "a single point has no spectrum")
    estimate = corrected_participation(cloud)
    if estimate is None:
        return Number(np.nan, n=n, d=d, note=f"needs points of more documents than these, of {FEWEST} at least")
    value, low, high = (float(np.clip(bound, 1.0, d)) for bound in estimate)
    return Number(value, n=n, d=d, low=low, high=high, null=d * (1 - 0.798 / n), null_sd=1.168 * d / n)


@_ratio(reads=("second",), wants=("sample",), range=(0.0, 1.0), interval_about=THIS_N, title="IsoScore")
def isoscore(cloud: Cloud) -> Number:
    """How evenly the variance is spread over all d directions: 1 is isotropic, 0 is a line.

    ``(PR − 1)/(d − 1)`` with PR = (Σλ)²/Σλ², centred; exactly the score of Rudman et al. (2022).

    Range 0 to 1. Null: its mean over isotropic Gaussian clouds of this n and d; below 1 because n is finite.

    >>> round(isoscore([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), 3)
    0.471
    """
    if cloud.d < 2:
        return Number(np.nan, n=cloud.n, d=cloud.d, note="one dimension is always evenly spread")
    return cloud.spectral(lambda values: np.asarray((_participation(values) - 1) / (cloud.d - 1)), bounds=(0.0, 1.0))
