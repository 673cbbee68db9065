"""The base class of all repairs: fitting to a layer of a run, applying x ↦ f(x − x̄) block by block, saving and loading."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from isoscope.core.numerics import Floats
from isoscope.core.site import Site
from isoscope.estimation.cloud import Cloud
from isoscope.repair.errors import RepairError
from isoscope.repair.files import SavedRepair, damaged_file, read_repair, write_repair
from isoscope.statistics.matrix_statistics import READ_ROWS
from isoscope.statistics.site_statistics import SiteStatistics

DTYPES = (np.float64, np.float32, np.float16)
SINGLE, DOUBLE = float(np.finfo(np.float32).eps), float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Precision:
    """The relative rounding error of the points, and that of the products that were summed over them."""

    points: float = DOUBLE
    products: float = DOUBLE

    @classmethod
    def of(cls, dtype: np.dtype) -> Precision:
        """The precision of a matrix of this type. Its products are summed in float64 whatever the type."""
        return cls(points=float(np.finfo(dtype).eps))


TAPPED = Precision(SINGLE, SINGLE)
"""The precision of the layers of a measured model: float32 points, float32 products."""


@runtime_checkable
class HasStatistics(Protocol):
    """An open run, as far as a repair needs one."""

    def statistics(self, model: str | None = None) -> Mapping[Site, SiteStatistics]:
        """The statistics of a model of the run by site. `model` may be None if there is only one."""


class Repair(OneToOneFeatureMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A repair: the mean of the points, and a map of centred points.

    Attributes that end in `_` exist once it is fitted: `mean_`, `n_samples_seen_`, `n_features_in_` and those of each class.
    """

    mean_: Floats
    n_samples_seen_: int
    n_features_in_: int

    _arrays: tuple[str, ...] = ("mean_ d",)
    """The fitted arrays that a file stores, each with its axes. Axes of one name have one length; only `directions` may be 0."""
    _min_features = 1

    def _check_parameters(self, d: int) -> None:
        """Refuse parameters that do not suit points of d dimensions."""

    @abstractmethod
    def _map_centred(self, z: Floats) -> Floats:
        """Map centred points, (m, d) to (m, d′)."""

    @abstractmethod
    def fit(self, X: Any, y: object = None) -> Self:
        """Fit to a matrix (n, d); `y` is ignored."""

    @abstractmethod
    def fit_cloud(self, cloud: Cloud, *, precision: Precision | None = None) -> Self:
        """Fit to the points of a cloud (see `isoscope.statistics`). `precision` defaults to that of a float64 matrix."""

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
        """Fit to one layer of a measured model. Embedding tables have `layer=None`; `parameters` are those of the class."""
        cloud = cloud_of_layer(sites, layer=layer, stack=stack, kind=kind, policy=policy)
        return cls(**parameters).fit_cloud(cloud, precision=TAPPED)

    @classmethod
    def from_run(cls, run: HasStatistics, *, model: str | None = None, **choices: Any) -> Self:
        """Fit to one layer of a finished run, `isoscope.open(path)`, without a forward pass; `choices` are those of `from_statistics`."""
        if not isinstance(run, HasStatistics):
            raise RepairError(f"The 'run' parameter must be an open run, isoscope.open(path). Got {run!r} instead.")
        return cls.from_statistics(run.statistics(model), **choices)

    def transform(self, X: Any) -> Any:
        """Map (n, d) to (n, d′). float64 stays float64; float32 and float16 give float32."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=DTYPES, ensure_all_finite=False, reset=False)
        return map_blocks(X, lambda block: self._map_centred(block - self.mean_), self._n_features_out)

    def save(self, path: str | Path) -> None:
        """Write the fitted transformer to a safetensors file; `load` reads it back."""
        check_is_fitted(self)
        arrays = {name: np.array(getattr(self, name), order="C") for name in (array.split()[0] for array in self._arrays)}
        feature_names = list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        parameters = self.get_params(deep=False)
        saved = SavedRepair(type(self).__name__, parameters, self.n_samples_seen_, self.n_features_in_, feature_names, arrays)
        write_repair(Path(path), saved)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read the fitted transformer that `save` wrote; `isoscope.repair.load` reads any of them."""
        saved = read_repair(Path(path))
        classes: dict[str, type[Self]] = {kind.__name__: kind for kind in _with_subclasses(cls) if not inspect.isabstract(kind)}
        if saved.class_name not in classes:
            raise RepairError(f"{path} holds {saved.class_name}, not {cls.__name__}; isoscope.repair.load reads any repair.")
        try:
            return classes[saved.class_name]._from_saved(saved)
        except RepairError as error:
            raise damaged_file(Path(path), error) from error

    @classmethod
    def _from_saved(cls, saved: SavedRepair) -> Self:
        """The transformer that a file describes, or a RepairError if its parts contradict each other."""
        if set(saved.parameters) - set(cls._get_param_names()):
            raise RepairError(f"its parameters are {saved.parameters!r:.60}")
        repair = cls(**saved.parameters)
        repair._check_parameters(saved.d)
        repair.n_samples_seen_, repair.n_features_in_ = saved.n, saved.d
        # The first array with an axis of a name sets its length; the others must agree.
        lengths = {"d": saved.d}
        for name, *axes in (array.split() for array in cls._arrays):
            array = saved.arrays.get(name)
            if array is None or array.dtype.kind != "f" or array.ndim != len(axes):
                raise RepairError(f"it has no {name}, or not as {len(axes)}-dimensional floats")
            for axis, length in zip(axes, array.shape, strict=True):
                if lengths.setdefault(axis, length) != length or (length < 1 and axis != "directions"):
                    raise RepairError(f"its {name} has the shape {array.shape}, which does not fit its other arrays")
            setattr(repair, name, array)
        if saved.feature_names is not None:
            repair.feature_names_in_ = np.array(saved.feature_names, dtype=object)
        return repair

    def _check_matrix(self, X: Any) -> np.ndarray:
        """X as a numpy array that a repair can be fitted to. It may still hold NaN or infinity: `read_blocks` looks for them."""
        X = validate_data(self, X, dtype=DTYPES, ensure_all_finite=False, ensure_min_samples=2, ensure_min_features=self._min_features)
        self._check_parameters(X.shape[1])
        return np.asarray(X)

    def _check_size(self, n: int, d: int) -> None:
        """Refuse n points of d dimensions if they are too few, and forget the feature names of an earlier fit to a matrix."""
        if n < 2:
            raise RepairError(f"{type(self).__name__} needs at least two points; there is {n}.")
        if d < self._min_features:
            raise RepairError(f"{type(self).__name__} needs at least {self._min_features} dimensions; there is {d}.")
        self._check_parameters(d)
        self.__dict__.pop("feature_names_in_", None)

    @property
    def _n_features_out(self) -> int:
        return self.n_features_in_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _with_subclasses(cls: type[Any]) -> list[type[Any]]:
    return [cls, *(kind for subclass in cls.__subclasses__() for kind in _with_subclasses(subclass))]


def cloud_of_layer(sites: Mapping[Site, SiteStatistics], *, layer: int | None, stack: str | None, kind: str, policy: str) -> Cloud:
    """The points of one site under a token policy. If no site matches, or several do, the error lists them."""
    candidates = [site for site in sites if site.kind == kind and site.head is None and stack in (None, site.stack)]
    matches = [site for site in candidates if site.layer == layer]
    if len(matches) > 1:
        stacks = ", ".join(sorted({site.stack for site in matches}))
        raise RepairError(f"Several stacks have {kind} layer {layer}: {stacks}; name one with stack=.")
    if not matches:
        known = ", ".join(site.label for site in sorted(candidates or sites, key=lambda site: site.order))
        label = ".".join(str(part) for part in (stack or "*", kind, layer) if part is not None)
        raise RepairError(f"The run has no statistics at {label}; it has {known or 'none'}.")
    cloud = Cloud.of(sites[matches[0]], policy)
    if cloud is None:
        raise RepairError(f"The policy {policy!r} leaves no points at {matches[0].label}; choose another.")
    return cloud


def read_blocks(X: np.ndarray) -> Iterator[tuple[int, Floats]]:
    """Blocks of rows in float64, each with the number of its first row. NaN and infinity are refused."""
    for start in range(0, len(X), READ_ROWS):
        block = X[start : start + READ_ROWS].astype(np.float64)
        bad = ~np.isfinite(block).all(1)
        if bad.any():
            raise RepairError(f"X has NaN or infinity, first in row {start + int(bad.argmax())}; remove or correct such rows first.")
        yield start, block


def map_blocks(X: np.ndarray, image: Callable[[Floats], Floats], width: int) -> np.ndarray:
    """Map every row: (n, d) to (n, width), float64 for float64 and float32 for narrower types."""
    out = np.empty((len(X), width), dtype=np.float64 if X.dtype.itemsize > 4 else np.float32)
    # In float32 an offset of a thousand leaves four digits of the difference x − x̄, so the map is computed in float64.
    for start, block in read_blocks(X):
        out[start : start + READ_ROWS] = image(block)
    return out
