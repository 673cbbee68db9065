"""Whitening."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, final

import numpy as np
from sklearn.utils.validation import check_is_fitted

from isoscope.core.arrays import Floats
from isoscope.core.errors import IsoscopeWarning
from isoscope.repair.directions import Directions, Precision
from isoscope.repair.errors import RepairError, parameter_error
from isoscope.repair.linear import Linear
from isoscope.repair.linear_repair import InvertibleRepair
from isoscope.statistics.moments import Moments


@final
class Whiten(InvertibleRepair):
    """Make the covariance the identity: every direction counts alike, and cosines are cosines of Mahalanobis geometry.

    PCA: x ↦ (x − x̄)VΛ^{−1/2}, coordinates along the principal directions, most variance first. ZCA: the same turned back,
    VΛ^{−1/2}Vᵀ, symmetric and so of all whitenings the one that moves points least (Kessy, Lewin and Strimmer 2018).

    Directions without variance beyond rounding (fewer points than dimensions, duplicated columns, the output of a layer
    normalisation) cannot be scaled to 1: PCA leaves them out, ZCA sets them to 0, and a warning says how many they are.

    Args:
        kind: `"pca"` or `"zca"`.
        n_components: keep so many directions of most variance; None keeps all.
        ridge: added to every variance, as a part of the mean variance. Above 0 small variances are blown up less, none
            vanishes, and the covariance is no longer quite the identity.

    Attributes:
        components_: (k, d) the directions kept.
        variances_: (k,) the variances along them, without the ridge.
        ridge_: what is added to them.

    >>> Whiten("zca").fit_transform([[0.0, 0.0], [4.0, 0.0], [2.0, 3.0]]).round(4).tolist()
    [[-1.0, -0.5774], [1.0, -0.5774], [0.0, 1.1547]]
    """

    components_: Floats
    variances_: Floats
    ridge_: Floats  # () so that it is saved with the other arrays
    _arrays = ("mean_", "components_", "variances_", "ridge_")

    def __init__(self, kind: str = "pca", n_components: int | None = None, ridge: float = 0.0) -> None:
        self.kind = kind
        self.n_components = n_components
        self.ridge = ridge

    def _check_parameters(self, d: int) -> None:
        if self.kind not in ("pca", "zca"):
            raise parameter_error("kind", "'pca' or 'zca'", self.kind)
        count = self.n_components
        if count is not None and (not isinstance(count, Integral) or isinstance(count, bool) or not 1 <= count <= d):
            raise parameter_error("n_components", f"None or an int from 1 to the number of dimensions, {d}", count)
        if not isinstance(self.ridge, Real) or isinstance(self.ridge, bool) or not 0 <= self.ridge < np.inf:
            raise parameter_error("ridge", "a finite float of at least 0", self.ridge)

    def _learn(self, moments: Moments, precision: Precision) -> None:
        directions = Directions.of(moments, precision, "Whiten")
        if not directions.real.any():
            raise RepairError(f"Whiten needs points that differ; all {moments.n} are equal to within rounding.")
        kept = directions.real if self.ridge == 0 else np.ones_like(directions.real)
        wanted = moments.d if self.n_components is None else int(self.n_components)
        self.components_, self.variances_ = directions.vectors[kept][:wanted], directions.variances[kept][:wanted]
        self.ridge_ = np.array(self.ridge * directions.mean_variance)
        lost = wanted - len(self.variances_)
        if lost and not self._whole:
            what = "are set to 0" if self.kind == "zca" else "are left out"
            warnings.warn(
                f"{lost} of the {wanted} directions have no variance beyond rounding in these {moments.n} points and {what}"
                + ("." if self.ridge else f"; {type(self).__name__}('zca', ridge=1e-3) would keep them."),
                IsoscopeWarning,
                stacklevel=4,
            )

    @property
    def _whole(self) -> bool:
        """Whether directions that no point was seen in are scaled too, as if their variance were the ridge."""
        return self.kind == "zca" and self.ridge > 0 and self.n_components is None

    def _map(self) -> Linear:
        return self._scaled((self.variances_ + self.ridge_) ** -0.5, float(self.ridge_**-0.5) if self._whole else 0.0)

    def _inverse_map(self) -> Linear:
        scales, elsewhere = (self.variances_ + self.ridge_) ** 0.5, float(self.ridge_**0.5) if self._whole else 0.0
        return self._scaled(scales, elsewhere) if self.kind == "zca" else Linear(into=scales[:, None] * self.components_)

    def _scaled(self, scales: Floats, elsewhere: float) -> Linear:
        """Scale along the directions, and if all of space is kept by another factor at right angles to them."""
        into = self.components_.T * (scales - elsewhere)
        if self.kind == "pca":
            return Linear(into=into)
        return Linear(scale=elsewhere if self._whole else None, into=into, back=self.components_)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_) if self.kind == "pca" else self.n_features_in_

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """`whiten0`, `whiten1`, … of PCA, whose dimensions are new; the names that came in of ZCA."""
        check_is_fitted(self)
        names: np.ndarray = super().get_feature_names_out(input_features)
        return names if self.kind == "zca" else np.array([f"whiten{i}" for i in range(self._n_features_out)], dtype=object)
