"""What all repairs share: parameters, fitting to a layer of a run, applying x ↦ f(x − x̄), files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from isoscope.core.arrays import Floats
from isoscope.core.site import Site
from isoscope.repair import files
from isoscope.repair.directions import TAPPED, Precision
from isoscope.repair.errors import RepairError
from isoscope.repair.layer import HasStatistics, layer_cloud
from isoscope.repair.linear import in_blocks
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.site_statistics import SiteStatistics

DTYPES = (np.float64, np.float32, np.float16)


class Repair(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A repair: the mean of the points, and a map of centred points.

    Attributes that end in `_` exist once it is fitted: `mean_`, `n_samples_seen_`, `n_features_in_` and those of each class.
    """

    mean_: Floats
    n_samples_seen_: int
    n_features_in_: int

    _arrays: tuple[str, ...] = ("mean_",)  # the fitted attributes that a file keeps

    @abstractmethod
    def _check_parameters(self, d: int) -> None:
        """Refuse parameters that no points of d dimensions can be fitted with."""

    @abstractmethod
    def _map(self) -> Callable[[Floats], Floats]:
        """The map of centred points, from the fitted attributes."""

    @abstractmethod
    def fit(self, X: Any, y: object = None) -> Self:
        """Fit to a matrix (n, d); `y` is not looked at."""

    @abstractmethod
    def fit_cloud(self, cloud: Cloud, *, precision: Precision | None = None) -> Self:
        """Fit to the points of a cloud, as `isoscope.statistics` knows them; `precision` is that of a float64 matrix unless it is given."""

    @property
    def _min_features(self) -> int:
        """So many dimensions points must have."""
        return 1

    def _checked(self, X: Any) -> np.ndarray:
        """A matrix that can be fitted to, as numpy has it; NaN and infinity may still be in it."""
        X = validate_data(self, X, dtype=DTYPES, ensure_all_finite=False, ensure_min_samples=2, ensure_min_features=self._min_features)
        self._check_parameters(X.shape[1])
        return np.asarray(X)

    def _prepare(self, n: int, d: int) -> None:
        """Refuse what is too small, and forget what a matrix that was fitted before called its dimensions."""
        if n < 2:
            raise RepairError(f"{type(self).__name__} needs at least two points; there is {n}.")
        if d < self._min_features:
            raise RepairError(f"{type(self).__name__} needs at least {self._min_features} dimensions; there is {d}.")
        self._check_parameters(d)
        self.__dict__.pop("feature_names_in_", None)

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
