"""The participation ratio of the population."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import POPULATION, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.metric import metric
from isoscope.statistics.participation import FEWEST, corrected_participation
from isoscope.statistics.spectrum import top_part


@metric(
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
    found = corrected_participation(cloud)
    if found is None:
        return Number(np.nan, n=n, d=d, note=f"needs points of more documents than these, of {FEWEST} at least")
    value, low, high = (float(np.clip(one, 1.0, d)) for one in found)
    return Number(value, n=n, d=d, low=low, high=high, null=d * (1 - 0.798 / n), null_sd=1.168 * d / n)
