"""Which directions points vary in, and which hold nothing but rounding.

A layer normalisation leaves a direction without any variance, duplicated columns and fewer points than dimensions leave more. To
divide by what rounding left there would turn it into unit noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isoscope.repair.errors import RepairError
from isoscope.statistics.kernel import Floats
from isoscope.statistics.moments import Moments

SINGLE, DOUBLE = float(np.finfo(np.float32).eps), float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Precision:
    """The relative rounding step of the points, and that of the products that were summed over them."""

    points: float = DOUBLE
    products: float = DOUBLE

    @classmethod
    def of(cls, dtype: np.dtype) -> Precision:
        """Of a matrix of this type; its products are taken in float64 whatever the type."""
        return cls(points=float(np.finfo(dtype).eps))


TAPPED = Precision(SINGLE, SINGLE)
"""Of what a model's layers gave: float32 points, float32 products."""


def rounding(mean: Floats, variance: Floats, precision: Precision) -> Floats:
    """(d,) the variance that rounding alone can give each dimension: of the points, and of sums about a float32 shift."""
    return precision.points**2 * (mean**2 + variance) + 64 * precision.products * (SINGLE * mean) ** 2


@dataclass(frozen=True)
class Directions:
    """Principal directions in falling order of variance; signs are fixed, so that equal statistics give equal directions."""

    vectors: Floats  # (m, d), one row a direction
    variances: Floats  # (m,)
    real: np.ndarray  # (m,) whether the variance is more than rounding
    mean_variance: float

    @classmethod
    def of(cls, moments: Moments, precision: Precision, who: str) -> Directions:
        """All min(n − 1, d) directions of what moments have seen."""
        covariance = covariance_of(moments, who)
        spectrum = moments.spectrum
        assert spectrum is not None
        vectors, values = spectrum.vectors.T.copy(), spectrum.values
        if not len(values):
            raise RepairError(f"{who} needs at least two points; there is 1.")
        largest = vectors[np.arange(len(vectors)), np.abs(vectors).argmax(1)]
        vectors *= np.sign(largest)[:, None]
        own = np.diag(covariance)
        floor = vectors**2 @ (rounding(moments.mean, own, precision) + (precision.products > DOUBLE) * precision.products * own)
        return cls(vectors, values, values > floor + moments.d * DOUBLE * values[0], float(own.mean()))


def covariance_of(moments: Moments, who: str) -> Floats:
    """(d, d); an error that says what to do where second moments were not kept."""
    if moments.second is None:
        raise RepairError(f"{who} needs second moments and none were kept; above d = 2048 ask for them with --second-moments LAYERS.")
    return moments.second.covariance
