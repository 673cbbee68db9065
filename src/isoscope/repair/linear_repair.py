"""Repairs that are a linear map, x ↦ (x − x̄)A, found from the moments of the points."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from isoscope.repair.directions import Precision
from isoscope.repair.errors import RepairError
from isoscope.repair.linear import Linear, in_blocks, refuse_nonfinite
from isoscope.repair.transformer import DTYPES, Repair
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.matrix import READ_ROWS
from isoscope.statistics.moments import Moments


class LinearRepair(Repair):
    """A repair whose mean and linear map are both functions of the points' moments."""

    _second = True  # whether second moments are needed

    @abstractmethod
    def _learn(self, moments: Moments, precision: Precision) -> None:
        """Set the fitted attributes, other than the mean."""

    @abstractmethod
    def _map(self) -> Linear:
        """The map of centred points, from the fitted attributes."""

    def fit(self, X: Any, y: object = None) -> Self:
        """Fit to a matrix (n, d), read a block at a time and summed in float64; `y` is not looked at."""
        X = self._checked(X)
        moments = Moments(X.shape[1], second=self._second)
        for start in range(0, len(X), READ_ROWS):
            block = X[start : start + READ_ROWS].astype(np.float64)
            refuse_nonfinite(block, start)
            with np.errstate(over="ignore", invalid="ignore"):  # refused below
                moments.update(block)
        if not np.isfinite(moments.norm2):
            raise RepairError("X has values whose squares overflow; scale it down first.")
        return self._fit(moments, Precision.of(X.dtype))

    def fit_moments(self, moments: Moments, *, precision: Precision | None = None) -> Self:
        """Fit to moments, those of merged shards for instance. `precision` is that of a float64 matrix unless it is given."""
        self._prepare(moments.n, moments.d)
        return self._fit(moments, precision or Precision())

    def fit_cloud(self, cloud: Cloud, *, precision: Precision | None = None) -> Self:
        """Fit to the points of a cloud, as `isoscope.statistics` knows them."""
        return self.fit_moments(cloud.moments, precision=precision)

    def _fit(self, moments: Moments, precision: Precision) -> Self:
        self.n_features_in_, self.n_samples_seen_, self.mean_ = moments.d, moments.n, moments.mean.copy()
        self._learn(moments, precision)
        return self


class InvertibleRepair(LinearRepair):
    """A repair that can be undone, exactly for the points it was fitted to."""

    @abstractmethod
    def _inverse_map(self) -> Linear:
        """From the image to centred points."""

    def inverse_transform(self, X: Any) -> Any:
        """(n, d′) → (n, d): what `transform` came from. Along directions that have no variance it is the mean."""
        check_is_fitted(self)
        X = check_array(X, dtype=DTYPES, ensure_all_finite=False)
        if X.shape[1] != self._n_features_out:
            raise RepairError(f"X has {X.shape[1]} features, but {type(self).__name__} gave {self._n_features_out}.")
        image = self._inverse_map()
        return in_blocks(X, lambda block: image(block) + self.mean_, self.n_features_in_)
