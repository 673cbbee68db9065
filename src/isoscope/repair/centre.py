"""Centring."""

from __future__ import annotations

from typing import final

from isoscope.repair.directions import Precision
from isoscope.repair.linear import Linear
from isoscope.repair.linear_repair import InvertibleRepair
from isoscope.statistics.moments import Moments


@final
class Centre(InvertibleRepair):
    """Subtract the mean: drift goes, and with it the cosine that every pair of points shares. Distances do not change.

    x ↦ x − x̄.

    >>> Centre().fit_transform([[1.0, 5.0], [3.0, 5.0]]).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """

    _second = False

    def _check_parameters(self, d: int) -> None:
        """It has none."""

    def _learn(self, moments: Moments, precision: Precision) -> None:
        """The mean is all."""

    def _map(self) -> Linear:
        return Linear(scale=1.0)

    def _inverse_map(self) -> Linear:
        return Linear(scale=1.0)
