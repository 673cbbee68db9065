"""Standardising each dimension."""

from __future__ import annotations

from typing import final

import numpy as np

from isoscope.core.arrays import Floats
from isoscope.repair.directions import Precision, covariance_of, rounding
from isoscope.repair.linear import Linear
from isoscope.repair.linear_repair import InvertibleRepair
from isoscope.statistics.moments import Moments


@final
class Standardise(InvertibleRepair):
    """Give each dimension mean 0 and standard deviation 1, which takes the massive dimensions of a Transformer down to size.

    x ↦ (x − x̄)/sd, with n − 1 below the sum of squares. A dimension that does not vary beyond rounding becomes 0.

    Timkey and van Schijndel (2021), All Bark and No Bite.

    Attributes:
        scale_: (d,) the standard deviations; 0 where a dimension is constant.

    >>> Standardise().fit_transform([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]]).tolist()
    [[-1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]
    """

    scale_: Floats
    _arrays = ("mean_", "scale_")

    def _check_parameters(self, d: int) -> None:
        """It has none."""

    def _learn(self, moments: Moments, precision: Precision) -> None:
        variance = np.diag(covariance_of(moments, "Standardise"))
        varies = variance > rounding(moments.mean, variance, precision)
        self.scale_ = np.sqrt(np.where(varies, variance, 0.0))

    def _map(self) -> Linear:
        return Linear(scale=np.divide(1.0, self.scale_, out=np.zeros_like(self.scale_), where=self.scale_ > 0))

    def _inverse_map(self) -> Linear:
        return Linear(scale=self.scale_)
