"""All-but-the-top."""

from __future__ import annotations

from numbers import Integral
from typing import final

from isoscope.core.arrays import Floats
from isoscope.repair.directions import Directions, Precision
from isoscope.repair.errors import parameter_error
from isoscope.repair.linear import Linear
from isoscope.repair.linear_repair import LinearRepair
from isoscope.statistics.moments import Moments


@final
class AllButTheTop(LinearRepair):
    """Remove the mean and the k principal directions of most variance, which tell of frequency more than of meaning.

    x ↦ (x − x̄)(I − VVᵀ), the rows of Vᵀ being the k directions. What is removed cannot be brought back: there is no inverse.

    Mu and Viswanath (2018). Where the projection of x is subtracted instead of that of x − x̄, as is done too, the result differs
    by the constant VVᵀx̄: what was removed is then not at zero.

    Args:
        k: how many directions; None takes a hundredth of the dimensions, rounded, and at least 1, as the paper advises.

    Attributes:
        components_: (k, d) the directions removed.

    >>> AllButTheTop(k=1).fit_transform([[9.0, 1.0], [1.0, 1.0], [5.0, 4.0]]).round(6).tolist()
    [[0.0, -1.0], [0.0, -1.0], [0.0, 2.0]]
    """

    components_: Floats
    _arrays = ("mean_", "components_")

    def __init__(self, k: int | None = None) -> None:
        self.k = k

    @property
    def _min_features(self) -> int:
        return 2

    def _check_parameters(self, d: int) -> None:
        if self.k is not None and (not isinstance(self.k, Integral) or isinstance(self.k, bool) or not 0 <= self.k < d):
            raise parameter_error("k", f"None or an int of at least 0 and below the number of dimensions, {d}", self.k)

    def _learn(self, moments: Moments, precision: Precision) -> None:
        directions = Directions.of(moments, precision, "AllButTheTop")
        available = int(directions.real.sum())
        k = min(max(1, round(moments.d / 100)), available) if self.k is None else int(self.k)
        if k > available:
            raise parameter_error("k", f"at most {available}, the number of directions in which the {moments.n} points differ", k)
        self.components_ = directions.vectors[directions.real][:k]

    def _map(self) -> Linear:
        return Linear(scale=1.0, into=-self.components_.T, back=self.components_)
