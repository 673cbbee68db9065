"""What all repairs share: fitting from a matrix or from statistics, and applying x ↦ (x − x̄)A."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from isoscope.core.site import Site
from isoscope.repair import files
from isoscope.repair.directions import TAPPED, Precision
from isoscope.repair.errors import RepairError
from isoscope.repair.layer import HasStatistics, layer_cloud
from isoscope.repair.linear import Linear, in_blocks, refuse_nonfinite
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.kernel import Floats
from isoscope.statistics.matrix import READ_ROWS
from isoscope.statistics.moments import Moments
from isoscope.statistics.site_statistics import SiteStatistics

DTYPES = (np.float64, np.float32, np.float16)


class Repair(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A repair: the mean of the points and a linear map, both functions of their moments.

    Attributes that end in `_` exist once it is fitted: `mean_`, `n_samples_seen_`, `n_features_in_` and those of each class.
    """

    mean_: Floats
    n_samples_seen_: int
    n_features_in_: int

    _second = True  # whether second moments are needed
    _min_features = 1
    _arrays: tuple[str, ...] = ("mean_",)  # the fitted attributes that a file keeps

    @abstractmethod
    def _check_parameters(self, d: int) -> None:
        """Refuse parameters that no points of d dimensions can be fitted with."""

    @abstractmethod
    def _learn(self, moments: Moments, precision: Precision) -> None:
        """Set the fitted attributes, other than the mean."""

    @abstractmethod
    def _map(self) -> Linear:
        """The map of centred points, from the fitted attributes."""

    def fit(self, X: Any, y: object = None) -> Self:
        """Fit to a matrix (n, d), read a block at a time and summed in float64; `y` is not looked at."""
        X = validate_data(self, X, dtype=DTYPES, ensure_all_finite=False, ensure_min_samples=2, ensure_min_features=self._min_features)
        self._check_parameters(X.shape[1])
        moments = Moments(X.shape[1], second=self._second)
        for start in range(0, len(X), READ_ROWS):
            block = X[start : start + READ_ROWS].astype(np.float64)
            refuse_nonfinite(block, start)
            with np.errstate(over="ignore"):  # said below
                moments.update(block)
        if moments.n < len(X):
            raise RepairError("X has values whose squares overflow; scale it down first.")
        return self._fit(moments, Precision.of(X.dtype))

    def fit_moments(self, moments: Moments, *, precision: Precision | None = None) -> Self:
        """Fit to moments, those of merged shards for instance. `precision` is that of a float64 matrix unless it is given."""
        if moments.n < 2:
            raise RepairError(f"{type(self).__name__} needs at least two points; there is {moments.n}.")
        if moments.d < self._min_features:
            raise RepairError(f"{type(self).__name__} needs at least {self._min_features} dimensions; there is {moments.d}.")
        self._check_parameters(moments.d)
        self.__dict__.pop("feature_names_in_", None)
        return self._fit(moments, precision or Precision())

    def _fit(self, moments: Moments, precision: Precision) -> Self:
        self.n_features_in_, self.n_samples_seen_, self.mean_ = moments.d, moments.n, moments.mean.copy()
        self._learn(moments, precision)
        return self

    def fit_cloud(self, cloud: Cloud, *, precision: Precision | None = None) -> Self:
        """Fit to the points of a cloud, as `isoscope.statistics` knows them."""
        return self.fit_moments(cloud.moments, precision=precision)

    @classmethod
    def from_statistics(
        cls,
        sites: Mapping[Site, SiteStatistics],
        *,
        layer: int | None,
        stack: str | None = None,
        kind: str = "hidden",
        policy: str = "all",
        **parameters: Any,
    ) -> Self:
        """Fit to one layer of a model that was measured; `parameters` are those of the class."""
        cloud = layer_cloud(sites, layer=layer, stack=stack, kind=kind, policy=policy)
        return cls(**parameters).fit_cloud(cloud, precision=TAPPED)

    @classmethod
    def from_run(
        cls,
        run: HasStatistics,
        *,
        model: str | None = None,
        layer: int | None,
        stack: str | None = None,
        kind: str = "hidden",
        policy: str = "all",
        **parameters: Any,
    ) -> Self:
        """Fit to one layer of a finished run, `isoscope.open(path)`; no forward pass is made. Embeddings have `layer=None`."""
        if not isinstance(run, HasStatistics):
            raise RepairError(f"The 'run' parameter must be an open run, isoscope.open(path). Got {run!r} instead.")
        return cls.from_statistics(run.statistics(model), layer=layer, stack=stack, kind=kind, policy=policy, **parameters)

    def transform(self, X: Any) -> Any:
        """(n, d) → (n, d′): float64 stays float64; float32 and float16 give float32."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=DTYPES, ensure_all_finite=False, reset=False)
        image = self._map()
        return in_blocks(X, lambda block: image(block - self.mean_), self._n_features_out)

    @property
    def _n_features_out(self) -> int:
        return self.n_features_in_

    def save(self, path: str | Path) -> None:
        """Write the fitted transformer to a safetensors file; `load` reads it back."""
        check_is_fitted(self)
        files.write(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The fitted transformer that `save` wrote; `isoscope.repair.load` takes any of them."""
        return files.read(cls, Path(path))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class InvertibleRepair(Repair):
    """A repair that can be undone, exactly for the points it was fitted to."""

    @abstractmethod
    def _inverse_map(self) -> Linear:
        """From the image to centred points."""

    def inverse_transform(self, X: Any) -> Any:
        """(n, d′) → (n, d): what `transform` came from. Along directions that have no variance it is the mean."""
        from sklearn.utils.validation import check_array

        check_is_fitted(self)
        X = check_array(X, dtype=DTYPES, ensure_all_finite=False)
        if X.shape[1] != self._n_features_out:
            raise RepairError(f"X has {X.shape[1]} features, but {type(self).__name__} gave {self._n_features_out}.")
        image = self._inverse_map()
        return in_blocks(X, lambda block: image(block) + self.mean_, self.n_features_in_)
