"""Centring by clusters."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, Self, final

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from isoscope.core.arrays import Floats
from isoscope.repair.directions import Precision
from isoscope.repair.errors import parameter_error
from isoscope.repair.linear import refuse_nonfinite
from isoscope.repair.transformer import DTYPES, Repair
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.clusters import COUNTS, SMALLEST, cluster, kmeans, squared_distances
from isoscope.statistics.matrix import READ_ROWS


@final
class CentreClusters(Repair):
    """Subtract from each point the mean of its cluster, and if wanted the directions of most variance within the cluster.

    x ↦ (x − x̄_c)(I − V_cV_cᵀ), c being the cluster of k-means whose centre is nearest. What clusters had in common is lost with their
    means: there is no inverse. Fit it to points, or to the sample of a cloud or a run; moments do not know of clusters.

    Rajaee and Pilehvar (2021), who remove directions from every cluster.

    Args:
        k: how many clusters; None takes the one of 2, 4, 8, 16 and 32 with the largest simplified silhouette.
        directions: how many directions each cluster loses, of those in which its points differ.
        seed: of the beginnings of k-means.

    Attributes:
        centres_: (k, d) by which points are told apart.
        means_: (k, d) of the points of each cluster.
        components_: (k, directions, d) the directions removed; zeros where a cluster has fewer.

    >>> CentreClusters(k=2).fit_transform([[0.0, 9.0], [2.0, 9.0], [50.0, 1.0], [52.0, 1.0]]).tolist()
    [[-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]]
    """

    centres_: Floats
    means_: Floats
    components_: Floats
    _arrays = ("mean_", "centres_", "means_", "components_")

    def __init__(self, k: int | None = None, directions: int = 0, seed: int = 0) -> None:
        self.k = k
        self.directions = directions
        self.seed = seed

    def _check_parameters(self, d: int) -> None:
        if self.k is not None and not _whole(self.k, 1):
            raise parameter_error("k", "None or an int of at least 1", self.k)
        if not _whole(self.directions, 0) or self.directions >= d:
            raise parameter_error("directions", f"an int of at least 0 and below the number of dimensions, {d}", self.directions)
        if not _whole(self.seed, 0):
            raise parameter_error("seed", "an int of at least 0", self.seed)

    @property
    def _min_features(self) -> int:
        return 2 if self.directions else 1

    def fit(self, X: Any, y: object = None) -> Self:
        """Fit to a matrix (n, d), which is held in memory; `y` is not looked at."""
        X = self._checked(X)
        for start in range(0, len(X), READ_ROWS):
            refuse_nonfinite(X[start : start + READ_ROWS].astype(np.float64), start)
        return self._fit_points(X)

    def fit_cloud(self, cloud: Cloud, *, precision: Precision | None = None) -> Self:
        """Fit to the sample of a cloud, which holds float32 points whatever the precision."""
        points = cloud.drawn.points
        self._prepare(*points.shape)
        return self._fit_points(points)

    def _fit_points(self, X: np.ndarray) -> Self:
        self.n_samples_seen_, self.n_features_in_ = X.shape
        wide = X.dtype.itemsize > 4
        self.mean_ = X.mean(0, dtype=np.float64)
        z = (X - self.mean_).astype(np.float64 if wide else np.float32)
        k = self.k or (None if len(X) >= COUNTS[0] * SMALLEST else 1)
        if k is not None and k > len(X):
            raise parameter_error("k", f"at most the number of points, {len(X)}", k)
        self.centres_ = (cluster(z, self.seed) if k is None else kmeans(z, k, self.seed)).centres
        label = self._nearest(z)
        self.means_, self.components_ = self.centres_.copy(), np.zeros((len(self.centres_), self.directions, X.shape[1]))
        for c in np.unique(label):
            own = z[label == c].astype(np.float64)
            self.means_[c] = own.mean(0)
            if self.directions:
                found = _principal(own - self.means_[c], self.directions)
                self.components_[c, : len(found)] = found
        return self

    def _nearest(self, z: np.ndarray) -> np.ndarray:
        """(m,) the cluster of each point about the mean of all."""
        return np.asarray(squared_distances(z, np.einsum("ij,ij->i", z, z, dtype=np.float64), self.centres_).argmin(1))

    def _map(self) -> Callable[[Floats], Floats]:
        return self._image

    def _image(self, z: Floats) -> Floats:
        label = self._nearest(z)
        z = z - self.means_[label]
        for c in np.unique(label) if self.directions else ():
            rows, components = label == c, self.components_[c]
            z[rows] -= z[rows] @ components.T @ components
        return z

    def labels(self, X: Any) -> np.ndarray:
        """(n,) the cluster that each point belongs to."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=DTYPES, reset=False)
        return self._nearest(X.astype(np.float64) - self.mean_)


def _whole(value: object, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def _principal(z: Floats, count: int) -> Floats:
    """The directions (at most count, d) of most variance of centred points, those of rounding left out; the signs are fixed."""
    singular, rows = np.linalg.svd(z, full_matrices=False)[1:]
    rows = rows[:count][singular[:count] > 1e-6 * singular[0]]
    return np.asarray(rows * np.sign(rows[np.arange(len(rows)), np.abs(rows).argmax(1)])[:, None])
