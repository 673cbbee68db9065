"""Repairs that are a linear map x ↦ (x − x̄)A: centring, standardising, all-but-the-top, whitening. They follow from moments alone."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any, Self, final

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from isoscope.core.errors import IsoscopeWarning, import_optional, missing_extras_as_user_errors
from isoscope.core.numerics import Floats
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.eigenvalues import Spectrum
from isoscope.repair.base import DOUBLE, SINGLE, Precision, Repair, map_blocks, read_blocks
from isoscope.repair.input_types import array_types, as_array, as_given, is_tensor
from isoscope.repair.linear_map import LinearMap
from isoscope.repair.repair_errors import RepairError, is_int, parameter_error
from isoscope.statistics.site_statistics import Moments


class LinearRepair(Repair):
    """A repair whose mean and linear map both follow from the moments of the points."""

    _needs_second_moments = True

    def _learn(self, moments: Moments, precision: Precision) -> None:
        """Set the fitted attributes other than the mean."""

    def fit(self, X: Any, y: object = None) -> Self:
        """Fit to a matrix (n, d), which is read in blocks and summed in float64; `y` is ignored."""
        matrix = self._check_matrix(X)
        moments = Moments(matrix.shape[1], second=self._needs_second_moments)
        for _, block in read_blocks(matrix):
            with np.errstate(over="ignore", invalid="ignore"):  # refused below
                moments.update(block)
        if not np.isfinite(moments.norm2):
            raise RepairError("X has values whose squares overflow; scale it down first.")
        # bfloat16 and float16 tensors are read as float32, and keep the rounding they came with.
        return self._fit(moments, Precision.of(X.dtype if is_tensor(X) else matrix.dtype))

    def fit_moments(self, moments: Moments, *, precision: Precision | None = None) -> Self:
        """Fit to moments, for example those of merged shards. `precision` defaults to that of a float64 matrix."""
        self._check_size(moments.n, moments.d)
        return self._fit(moments, precision or Precision())

    def fit_cloud(self, cloud: Cloud, *, precision: Precision | None = None) -> Self:
        """Fit to the moments of a cloud (see `isoscope.statistics`). `precision` defaults to that of a float64 matrix."""
        return self.fit_moments(cloud.moments, precision=precision)

    def _fit(self, moments: Moments, precision: Precision) -> Self:
        self.n_features_in_, self.n_samples_seen_, self.mean_ = moments.d, moments.n, moments.mean.copy()
        self._learn(moments, precision)
        return self

    @abstractmethod
    def _linear_map(self) -> LinearMap:
        """The map of centred points."""

    def _map_centred(self, z: Floats) -> Floats:
        return self._linear_map()(z)

    def to_torch(self, dtype: Any = None) -> Any:
        """The fitted map as a `torch.nn.Module` of tensors (…, d), with gradients to its input and nothing to train.

        It computes in `dtype`, float32 by default, and returns the type of its input. NaN and infinity pass through it.
        """
        check_is_fitted(self)
        with missing_extras_as_user_errors(f"{type(self).__name__}.to_torch"):
            from isoscope.models.repair_module import LinearModule
        parts = self._linear_map()
        return LinearModule(repr(self), self.mean_, parts.diagonal, parts.down, parts.up, dtype=dtype)

    def to_faiss(self) -> Any:
        """The fitted map as a `faiss.LinearTransform`, for `faiss.IndexPreTransform`.

        faiss computes xA − x̄A in float32: the error is relative to the length of x, not to that of x − x̄.
        """
        check_is_fitted(self)
        faiss = import_optional("faiss", f"{type(self).__name__}.to_faiss")
        matrix = self._linear_map().matrix()
        transform = faiss.LinearTransform(*matrix.shape, True)
        faiss.copy_array_to_vector(matrix.T.astype(np.float32).ravel(), transform.A)
        faiss.copy_array_to_vector((-self.mean_ @ matrix).astype(np.float32), transform.b)
        transform.is_trained = True
        return transform


class InvertibleRepair(LinearRepair):
    """A repair that can be undone, exactly for the points it was fitted to."""

    @abstractmethod
    def _unmap(self, y: Floats) -> Floats:
        """Map the image back to centred points, (m, d′) to (m, d)."""

    def inverse_transform(self, X: Any) -> Any:
        """Map (n, d′) back to (n, d), a tensor to a tensor. Along directions without variance the result is the mean."""
        check_is_fitted(self)
        matrix = check_array(as_array(X), dtype=array_types(X), ensure_all_finite=False)
        if matrix.shape[1] != self._n_features_out:
            raise RepairError(f"X has {matrix.shape[1]} features, but {type(self).__name__} gave {self._n_features_out}.")
        return as_given(map_blocks(matrix, lambda block: self._unmap(block) + self.mean_, self.n_features_in_), X)


@final
class Centre(InvertibleRepair):
    """Subtract the mean: this removes drift, and with it the cosine that every pair of points shares. Distances do not change.

    x ↦ x − x̄.

    >>> Centre().fit_transform([[1.0, 5.0], [3.0, 5.0]]).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """

    _needs_second_moments = False

    def _linear_map(self) -> LinearMap:
        return LinearMap(np.ones(self.n_features_in_))

    def _unmap(self, y: Floats) -> Floats:
        return y


@final
class Standardise(InvertibleRepair):
    """Give each dimension mean 0 and standard deviation 1, which removes the massive dimensions of a Transformer.

    x ↦ (x − x̄)/sd, with n − 1 below the sum of squares. A dimension that does not vary beyond rounding becomes 0.

    Timkey and van Schijndel (2021), All Bark and No Bite.

    Attributes:
        scale_: (d,) the standard deviations; 0 for a constant dimension.

    >>> Standardise().fit_transform([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]]).tolist()
    [[-1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]
    """

    scale_: Floats
    _arrays = ("mean_ d", "scale_ d")

    def _learn(self, moments: Moments, precision: Precision) -> None:
        variance = np.diag(covariance(moments, "Standardise"))
        varies = variance > rounding_variance(moments.mean, variance, precision)
        self.scale_ = np.sqrt(np.where(varies, variance, 0.0))

    def _linear_map(self) -> LinearMap:
        return LinearMap(np.divide(1.0, self.scale_, out=np.zeros_like(self.scale_), where=self.scale_ > 0))

    def _unmap(self, y: Floats) -> Floats:
        return y * self.scale_


@final
class AllButTheTop(LinearRepair):
    """Remove the mean and the k principal directions of most variance, which reflect frequency more than meaning.

    x ↦ (x − x̄)(I − VVᵀ), where the rows of Vᵀ are the k directions. The removed directions are lost: there is no inverse.

    Mu and Viswanath (2018). Some implementations subtract the projection of x, not of x − x̄. Their result differs by the constant
    VVᵀx̄ and is not zero along the removed directions.

    Args:
        k: the number of directions. None takes d/100, rounded and at least 1, as the paper advises.

    Attributes:
        components_: (k, d) the removed directions.

    >>> AllButTheTop(k=1).fit_transform([[9.0, 1.0], [1.0, 1.0], [5.0, 4.0]]).round(6).tolist()
    [[0.0, -1.0], [0.0, -1.0], [0.0, 2.0]]
    """

    components_: Floats
    _arrays = ("mean_ d", "components_ directions d")
    _min_features = 2

    def __init__(self, k: int | None = None) -> None:
        self.k = k

    def _check_parameters(self, d: int) -> None:
        if self.k is not None and not is_int(self.k, 0, d - 1):
            raise parameter_error("k", f"None or an int of at least 0 and below the number of dimensions, {d}", self.k)

    def _learn(self, moments: Moments, precision: Precision) -> None:
        directions = Directions.of(moments, precision, "AllButTheTop")
        available = int(directions.real.sum())
        k = min(max(1, round(moments.d / 100)), available) if self.k is None else int(self.k)
        if k > available:
            raise parameter_error("k", f"at most {available}, the number of directions in which the {moments.n} points differ", k)
        self.components_ = directions.vectors[directions.real][:k]

    def _linear_map(self) -> LinearMap:
        every = np.ones(self.n_features_in_)
        return LinearMap(every, -self.components_.T, self.components_) if len(self.components_) else LinearMap(every)


@final
class Whiten(InvertibleRepair):
    """Make the covariance the identity: every direction counts alike, and cosines are those of Mahalanobis geometry.

    PCA: x ↦ (x − x̄)VΛ^{−1/2}, coordinates along the principal directions, most variance first. ZCA: the same rotated back,
    VΛ^{−1/2}Vᵀ. It is symmetric and moves points least of all whitenings (Kessy, Lewin and Strimmer 2018).

    Directions without variance beyond rounding (fewer points than dimensions, duplicated columns, the output of a layer
    normalisation) cannot be scaled to 1. PCA leaves them out, ZCA sets them to 0, and a warning gives their number.

    Args:
        kind: `"pca"` or `"zca"`.
        n_components: the number of directions to keep, those of most variance; None keeps all.
        ridge: added to every variance, as a fraction of the mean variance. Above 0, small variances are amplified less, none
            vanishes, and the covariance is no longer exactly the identity.

    Attributes:
        components_: (k, d) the directions that are kept.
        variances_: (k,) the variances along them, without the ridge.
        ridge_: the number added to them.

    >>> Whiten("zca").fit_transform([[0.0, 0.0], [4.0, 0.0], [2.0, 3.0]]).round(4).tolist()
    [[-1.0, -0.5774], [1.0, -0.5774], [0.0, 1.1547]]
    """

    components_: Floats
    variances_: Floats
    ridge_: Floats  # an array of shape (), so that it is saved with the others
    _arrays = ("mean_ d", "components_ directions d", "variances_ directions", "ridge_")

    def __init__(self, kind: str = "pca", n_components: int | None = None, ridge: float = 0.0) -> None:
        self.kind = kind
        self.n_components = n_components
        self.ridge = ridge

    def _check_parameters(self, d: int) -> None:
        if self.kind not in ("pca", "zca"):
            raise parameter_error("kind", "'pca' or 'zca'", self.kind)
        if self.n_components is not None and not is_int(self.n_components, 1, d):
            raise parameter_error("n_components", f"None or an int from 1 to the number of dimensions, {d}", self.n_components)
        if not isinstance(self.ridge, Real) or isinstance(self.ridge, bool) or not 0 <= self.ridge < np.inf:
            raise parameter_error("ridge", "a finite float of at least 0", self.ridge)

    def _learn(self, moments: Moments, precision: Precision) -> None:
        directions = Directions.of(moments, precision, "Whiten")
        if not directions.real.any():
            raise RepairError(f"Whiten needs points that differ; all {moments.n} are equal to within rounding.")
        # A ridge gives every direction a variance to divide by, also one that holds only rounding.
        usable = directions.real if self.ridge == 0 else np.ones_like(directions.real)
        wanted = moments.d if self.n_components is None else int(self.n_components)
        self.components_, self.variances_ = directions.vectors[usable][:wanted], directions.variances[usable][:wanted]
        self.ridge_ = np.array(self.ridge * directions.mean_variance)
        lost = wanted - len(self.variances_)
        if lost and not self._keeps_unseen_directions:
            fate = "are set to 0" if self.kind == "zca" else "are left out"
            warnings.warn(
                f"{lost} of the {wanted} directions have no variance beyond rounding in these {moments.n} points and {fate}"
                + ("." if self.ridge else f"; {type(self).__name__}('zca', ridge=1e-3) would keep them."),
                IsoscopeWarning,
                stacklevel=4,  # the caller of fit: above are _learn, _fit and fit
            )

    @property
    def _keeps_unseen_directions(self) -> bool:
        """Whether directions in which no point varied are scaled too, as if their variance were the ridge."""
        return self.kind == "zca" and self.ridge > 0 and self.n_components is None

    def _linear_map(self) -> LinearMap:
        return self._scale(-0.5)

    def _unmap(self, y: Floats) -> Floats:
        if self.kind == "pca":
            return y @ (((self.variances_ + self.ridge_) ** 0.5)[:, None] * self.components_)
        return self._scale(0.5)(y)

    def _scale(self, power: float) -> LinearMap:
        """Scale along the directions by variance to this power, and along unseen directions, if they are kept, by the ridge to it."""
        rest = float(self.ridge_**power) if self._keeps_unseen_directions else 0.0
        # The diagonal scales everything, also along the directions; so there only the difference is added.
        down = self.components_.T * ((self.variances_ + self.ridge_) ** power - rest)
        if self.kind == "pca":
            return LinearMap(down=down)
        return LinearMap(np.full(self.n_features_in_, rest) if rest else None, down, self.components_)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_) if self.kind == "pca" else self.n_features_in_

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """`whiten0`, `whiten1`, … for PCA, whose dimensions are new; the input names for ZCA."""
        check_is_fitted(self)
        names: np.ndarray = super().get_feature_names_out(input_features)
        return names if self.kind == "zca" else np.array([f"whiten{i}" for i in range(self._n_features_out)], dtype=object)


@dataclass(frozen=True)
class Directions:
    """The min(n − 1, d) principal directions, in decreasing order of variance.

    A layer normalisation leaves a direction without variance; duplicated columns, and fewer points than dimensions, leave more. Rounding
    fills these directions, and dividing by their variance would turn rounding into unit noise. So each direction knows whether it is real.
    """

    vectors: Floats  # (m, d), one row per direction
    variances: Floats  # (m,)
    real: np.ndarray  # (m,) whether the variance is more than rounding
    mean_variance: float

    @classmethod
    def of(cls, moments: Moments, precision: Precision, repair: str) -> Directions:
        """The directions of the points that `moments` summarise; `repair` names the class in errors."""
        variances = np.diag(covariance(moments, repair))
        assert moments.second is not None
        spectrum = Spectrum.of(moments.second, centred=True)
        vectors, values = spectrum.vectors.T.copy(), spectrum.values
        if not len(values):
            raise RepairError(f"{repair} needs at least two points; there is 1.")
        vectors = fix_signs(vectors)
        noise = rounding_variance(moments.mean, variances, precision)
        if precision.products > DOUBLE:
            noise = noise + precision.products * variances
        # A direction mixes the noise of its dimensions; the eigenvalue solver adds its own, relative to the largest eigenvalue.
        floor = vectors**2 @ noise + moments.d * DOUBLE * values[0]
        return cls(vectors, values, values > floor, float(variances.mean()))


def fix_signs(vectors: Floats) -> Floats:
    """Rows with the sign that makes their largest entry positive, so that equal statistics give equal directions."""
    largest = vectors[np.arange(len(vectors)), np.abs(vectors).argmax(1)]
    return np.asarray(vectors * np.sign(largest)[:, None])


def rounding_variance(mean: Floats, variance: Floats, precision: Precision) -> Floats:
    """(d,) the variance that rounding alone can give each dimension.

    The first term is the rounding of the points. The second is that of sums around a shift, which is the mean rounded to float32.
    """
    return precision.points**2 * (mean**2 + variance) + 64 * precision.products * (SINGLE * mean) ** 2


def covariance(moments: Moments, repair: str) -> Floats:
    """(d, d). If second moments were not stored, the error says how to get them."""
    if moments.second is None:
        raise RepairError(f"{repair} needs second moments and none were kept; above d = 2048 ask for them with --second-moments LAYERS.")
    return moments.second.covariance
