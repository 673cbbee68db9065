"""The base class of all repairs: fitting to a layer of a run, applying x ↦ f(x − x̄) block by block, saving and loading.

A saved repair is one safetensors file with its arrays, and its class and parameters as metadata.
"""

from __future__ import annotations

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from isoscope import __version__
from isoscope.core.numerics import Floats
from isoscope.core.site import Site
from isoscope.core.temporary import temporary_path
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.matrix_cloud import READ_ROWS
from isoscope.repair.input_types import array_types, as_array, as_given
from isoscope.repair.repair_errors import RepairError
from isoscope.runs.tensors import TensorFile, write_tensors
from isoscope.statistics.kernel import namespace
from isoscope.statistics.site_statistics import SiteStatistics
from isoscope.trust.safe_io import open_regular, parse_json

FORMAT = "isoscope.repair/1"
"""The format of files, which their metadata name."""
SINGLE, DOUBLE = float(np.finfo(np.float32).eps), float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Precision:
    """The relative rounding error of the points, and that of the products that were summed over them."""

    points: float = DOUBLE
    products: float = DOUBLE

    @classmethod
    def of(cls, dtype: Any) -> Precision:
        """The precision of a matrix of this type of numpy or torch. Its products are summed in float64 whatever the type."""
        return cls(points=float(namespace(dtype).finfo(dtype).eps))


TAPPED = Precision(SINGLE, SINGLE)
"""The precision of the layers of a measured model: float32 points, float32 products."""


@runtime_checkable
class HasStatistics(Protocol):
    """An open run, as far as a repair needs one."""

    def statistics(self, model: str | None = None) -> Mapping[Site, SiteStatistics]:
        """The statistics of a model of the run by site. `model` may be None if there is only one."""


class ArrayTransformer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """x ↦ f(x − x̄) on arrays and data frames, where `set_output` chooses what comes back.

    scikit-learn wraps `transform` of every class. `Repair` overrides it, and so gets what `set_output` made of an array.
    """

    mean_: Floats
    n_features_in_: int

    @abstractmethod
    def _map_centred(self, z: Floats) -> Floats:
        """Map centred points, (m, d) to (m, d′)."""

    def transform(self, X: Any) -> Any:
        """Map (n, d) to (n, d′)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=array_types(X), ensure_all_finite=False, reset=False)
        return map_blocks(X, lambda block: self._map_centred(block - self.mean_), self._n_features_out)

    @property
    def _n_features_out(self) -> int:
        return self.n_features_in_


class Repair(ArrayTransformer):
    """A repair: the mean of the points, and a map of centred points.

    Attributes that end in `_` exist once it is fitted: `mean_`, `n_samples_seen_`, `n_features_in_` and those of each class.
    """

    n_samples_seen_: int

    _arrays: tuple[str, ...] = ("mean_ d",)
    """The fitted arrays that a file stores, each with its axes. Axes of one name have one length; only `directions` may be 0."""
    _min_features = 1

    def _check_parameters(self, d: int) -> None:
        """Refuse parameters that do not suit points of d dimensions."""

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
        """Map (n, d) to (n, d′).

        A torch tensor gives a tensor of its type on its device, without a gradient (`to_torch` has one). Anything else gives an array, or
        the frame that `set_output` asked for: float64 stays float64; float32 and float16 give float32.
        """
        return as_given(super().transform(as_array(X)), X)

    @abstractmethod
    def to_torch(self, dtype: Any = None) -> Any:
        """The fitted map as a `torch.nn.Module` of tensors (…, d), with gradients to its input and nothing to train.

        It computes in `dtype`, float32 by default, and returns the type of its input. NaN and infinity pass through it.
        """

    def to_faiss(self) -> Any:
        """The fitted map as a `faiss.LinearTransform`, for `faiss.IndexPreTransform`; it computes in float32."""
        raise RepairError(f"{type(self).__name__} is not a linear map, and faiss has linear ones only; give the index repaired points.")

    def save(self, path: str | Path) -> None:
        """Write the fitted transformer to a safetensors file; `load` reads it back."""
        check_is_fitted(self)
        metadata = {
            "format": FORMAT,
            "class": type(self).__name__,
            "parameters": json.dumps(self.get_params(deep=False), default=np.generic.item),
            "isoscope": __version__,
            "n": str(self.n_samples_seen_),
            "d": str(self.n_features_in_),
        }
        if hasattr(self, "feature_names_in_"):
            metadata["feature_names"] = json.dumps(list(self.feature_names_in_))
        arrays = {name: np.asarray(getattr(self, name)) for name in (array.split()[0] for array in self._arrays)}
        path = Path(path)
        temporary = temporary_path(path)
        try:
            write_tensors(arrays.items, temporary, metadata)
            temporary.replace(path)  # a reader finds the whole file or none
        except OSError as error:
            raise RepairError(f"Cannot write {path}: {error}.") from error
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read the fitted transformer that `save` wrote; `isoscope.repair.load` reads any of them."""
        metadata, arrays = _read_file(Path(path))
        classes: dict[str | None, type[Self]] = {kind.__name__: kind for kind in _with_subclasses(cls) if not inspect.isabstract(kind)}
        name = metadata.get("class")
        if name not in classes:
            raise RepairError(f"{path} holds {name}, not {cls.__name__}; isoscope.repair.load reads any repair.")
        try:
            return classes[name]._from_file(metadata, arrays)
        except ValueError as error:  # a RepairError is one too
            raise RepairError(f"{path} is damaged ({str(error).rstrip('.')}); fit and save it again.") from error

    @classmethod
    def _from_file(cls, metadata: dict[str, str], arrays: dict[str, np.ndarray]) -> Self:
        """The transformer that a file describes; a ValueError if its parts are missing or contradict each other."""
        # A file may come from anywhere, and whatever is wrong with it must be found here, not in the first `transform`.
        if absent := [name for name in ("parameters", "n", "d") if name not in metadata]:
            raise ValueError(f"it lacks {absent[0]}")
        parameters, n, d = parse_json(metadata["parameters"]), int(metadata["n"]), int(metadata["d"])
        if not isinstance(parameters, dict) or set(parameters) - set(cls._get_param_names()):
            raise ValueError(f"its parameters are {parameters!r:.60}")
        names = parse_json(metadata["feature_names"]) if "feature_names" in metadata else None
        if names is not None and not (isinstance(names, list) and len(names) == d and all(isinstance(name, str) for name in names)):
            raise ValueError(f"its feature names are not {d} strings")
        repair = cls(**parameters)
        repair._check_parameters(d)
        repair.n_samples_seen_, repair.n_features_in_ = n, d
        # The first array with an axis of a name sets its length; the others must agree.
        lengths = {"d": d}
        for name, *axes in (array.split() for array in cls._arrays):
            array = arrays.get(name)
            if array is None or array.dtype.kind != "f" or array.ndim != len(axes):
                raise ValueError(f"it has no {name}, or not as {len(axes)}-dimensional floats")
            for axis, length in zip(axes, array.shape, strict=True):
                if lengths.setdefault(axis, length) != length or (length < 1 and axis != "directions"):
                    raise ValueError(f"its {name} has the shape {array.shape}, which does not fit its other arrays")
            setattr(repair, name, array)
        if names is not None:
            repair.feature_names_in_ = np.array(names, dtype=object)
        return repair

    def _check_matrix(self, X: Any) -> np.ndarray:
        """X as a numpy array that a repair can be fitted to. It may still hold NaN or infinity: `read_blocks` looks for them."""
        X = as_array(X)
        X = validate_data(
            self, X, dtype=array_types(X), ensure_all_finite=False, ensure_min_samples=2, ensure_min_features=self._min_features
        )
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _with_subclasses(cls: type[Any]) -> list[type[Any]]:
    return [cls, *(kind for subclass in cls.__subclasses__() for kind in _with_subclasses(subclass))]


def _read_file(path: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """The metadata and the arrays of a file that `save` wrote."""
    try:
        with open_regular(path.resolve()) as raw:
            file = TensorFile(raw)
            arrays = {name: file.read(name) for name in file.names}
    except FileNotFoundError:
        raise RepairError(f"There is no file {path}.") from None
    except (OSError, ValueError, OverflowError, MemoryError) as error:  # the last two: shapes too large for NumPy
        raise RepairError(f"{path} is not a repair that isoscope saved ({error}).") from None
    metadata = {name: str(text) for name, text in file.metadata.items()}
    if metadata.get("format") != FORMAT:
        raise RepairError(f"{path} is not a repair that isoscope saved: its metadata do not say {FORMAT}.")
    return metadata, arrays


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
