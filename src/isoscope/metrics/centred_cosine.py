"""The mean cosine around the mean."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import THIS_N, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.groups import GROUPS, Groups
from isoscope.statistics.kernel import Sums
from isoscope.statistics.metric import metric


@metric(reads=("sample",), range=(-1.0, 1.0), interval_about=THIS_N, title="Mean cosine around the mean")
def centred_cosine(cloud: Cloud) -> Number:
    """The mean cosine that is left when the mean is removed: near 0 unless a few points are massive.

    `mean_cosine` of x − x̄, exactly, on the sample (all points where there are no more than its size), x̄ being the sample's own.

    Range −1 to 1. Null: directions uniform and norms r as observed, ``(Σ(1 − r·E[1/r])² − m) / (m(m−1))`` for m points; about −1/(m−1).

    Biś et al. (2021) remove the mean and find near-isotropy.
    """
    sample, d = cloud.drawn, cloud.d
    u = sample.points.astype(np.float64)
    longest = float(np.sqrt(np.einsum("ij,ij->i", u, u).max()))
    u -= u.mean(0)  # in its place, here and below: of large samples every copy counts
    norms = np.sqrt(np.einsum("ij,ij->i", u, u))
    alive = norms > 1e-12 * max(longest, 1e-300)
    m = int(alive.sum())
    if m < 2:
        return Number(np.nan, n=m, d=d, note="all points are equal")
    u, r = u if m == len(u) else u[alive], norms[alive]
    u /= r[:, None]
    total = u.sum(0)
    _, owner = np.unique(sample.unit[alive], return_inverse=True)
    ones = np.ones(m)
    groups = Groups(d)
    groups.update(owner % GROUPS, [Sums(ones, 0 * ones, u, u, np.zeros(d), ones, ones, 0)])
    low, high = Cloud(cloud.moments, groups).grouped(
        lambda t: np.asarray(((t.directions**2).sum(-1) - t.alive) / (t.alive * (t.alive - 1))), bounds=(-1.0, 1.0)
    )
    spread = float(((1 - r * (1 / r).mean()) ** 2).sum())
    pairs = m * (m - 1)
    return Number(
        (float(total @ total) - m) / pairs,
        n=m,
        d=d,
        low=low,
        high=high,
        null=(spread - m) / pairs,
        null_sd=spread * (2 / d) ** 0.5 / pairs,
    )
