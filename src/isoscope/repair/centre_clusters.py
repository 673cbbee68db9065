"""Centring by clusters."""

from __future__ import annotations

from typing import Any, Self, final

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from isoscope.core.errors import missing_extras_as_user_errors
from isoscope.core.numerics import Floats
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.clusters import COUNTS, SMALLEST, cluster, kmeans, squared_distances
from isoscope.repair.base import Precision, Repair, read_blocks
from isoscope.repair.input_types import array_types, as_array, as_given
from isoscope.repair.linear import fix_signs
from isoscope.repair.repair_errors import is_int, parameter_error


@final
class CentreClusters(Repair):
    """Subtract from each point the mean of its cluster and, if asked, remove the directions of most variance within the cluster.

    x ↦ (x − x̄_c)(I − V_cV_cᵀ), where c is the k-means cluster whose centre is nearest. The cluster means are lost: there is no inverse.
    Fit it to points, or to the sample of a cloud or a run; moments do not tell clusters apart.

    Rajaee and Pilehvar (2021), who remove directions from every cluster.

    Args:
        k: the number of clusters. None tries 2, 4, 8, 16 and 32 and takes the one with the largest simplified silhouette.
        directions: the number of directions to remove from each cluster, of those in which its points differ.
        seed: of the initial centres of k-means.

    Attributes:
        centres_: (k, d) the centres that decide which cluster a point belongs to.
        means_: (k, d) the mean of the points of each cluster.
        components_: (k, directions, d) the removed directions; zeros if a cluster has fewer.

    >>> CentreClusters(k=2).fit_transform([[0.0, 9.0], [2.0, 9.0], [50.0, 1.0], [52.0, 1.0]]).tolist()
    [[-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]]
    """

    centres_: Floats
    means_: Floats
    components_: Floats
    _arrays = ("mean_ d", "centres_ clusters d", "means_ clusters d", "components_ clusters directions d")

    def __init__(self, k: int | None = None, directions: int = 0, seed: int = 0) -> None:
        self.k = k
        self.directions = directions
        self.seed = seed

    def _check_parameters(self, d: int) -> None:
        if self.k is not None and not is_int(self.k, 1):
            raise parameter_error("k", "None or an int of at least 1", self.k)
        if not is_int(self.directions, 0, d - 1):
            raise parameter_error("directions", f"an int of at least 0 and below the number of dimensions, {d}", self.directions)
        if not is_int(self.seed, 0):
            raise parameter_error("seed", "an int of at least 0", self.seed)

    @property
    def _min_features(self) -> int:  # type: ignore[override]
        return 2 if self.directions else 1

    def fit(self, X: Any, y: object = None) -> Self:
        """Fit to a matrix (n, d), which is held in memory; `y` is ignored."""
        X = self._check_matrix(X)
        for _ in read_blocks(X):  # refuses NaN and infinity
            pass
        return self._fit_points(X)

    def fit_cloud(self, cloud: Cloud, *, precision: Precision | None = None) -> Self:
        """Fit to the sample of a cloud, which holds float32 points whatever the precision."""
        points = cloud.require_sample().points
        self._check_size(*points.shape)
        return self._fit_points(points)

    def _fit_points(self, X: np.ndarray) -> Self:
        self.n_samples_seen_, self.n_features_in_ = X.shape
        self.mean_ = X.mean(0, dtype=np.float64)
        # Clusters are found around the mean of all: far from the origin, distances in float32 would lose their digits.
        z = (X - self.mean_).astype(np.float64 if X.dtype.itemsize > 4 else np.float32)
        k = self.k or (None if len(X) >= COUNTS[0] * SMALLEST else 1)  # too few points to choose a k from
        if k is not None and k > len(X):
            raise parameter_error("k", f"at most the number of points, {len(X)}", k)
        self.centres_ = (cluster(z, self.seed) if k is None else kmeans(z, k, self.seed)).centres
        # k-means may stop before its centres are exactly the means of their points; what is subtracted must be the means.
        label = self._nearest_centre(z)
        self.means_, self.components_ = self.centres_.copy(), np.zeros((len(self.centres_), self.directions, X.shape[1]))
        for c in np.unique(label):
            points = z[label == c].astype(np.float64)
            self.means_[c] = points.mean(0)
            if self.directions:
                components = _principal_directions(points - self.means_[c], self.directions)
                self.components_[c, : len(components)] = components
        return self

    def _nearest_centre(self, z: np.ndarray) -> np.ndarray:
        """(m,) the cluster of each point, given as its difference from the mean of all points."""
        return np.asarray(squared_distances(z, np.einsum("ij,ij->i", z, z, dtype=np.float64), self.centres_).argmin(1))

    def _map_centred(self, z: Floats) -> Floats:
        label = self._nearest_centre(z)
        z = z - self.means_[label]
        for c in np.unique(label) if self.directions else ():
            rows, components = label == c, self.components_[c]
            z[rows] -= z[rows] @ components.T @ components
        return z

    def labels(self, X: Any) -> Any:
        """(n,) the cluster of each point, as an array; as a tensor if X is one."""
        check_is_fitted(self)
        matrix = validate_data(self, as_array(X), dtype=array_types(X), reset=False)
        label = self._nearest_centre(matrix.astype(np.float64) - self.mean_)
        return as_given(label, X)

    def to_torch(self, dtype: Any = None) -> Any:
        """The fitted map as a `torch.nn.Module`, as for every repair; a point about as near to two centres may go to the other one."""
        check_is_fitted(self)
        with missing_extras_as_user_errors("CentreClusters.to_torch"):
            from isoscope.models.repair_module import ClusterModule
        return ClusterModule(repr(self), self.mean_, self.centres_, self.means_, self.components_, dtype=dtype)


def _principal_directions(z: Floats, count: int) -> Floats:
    """(at most count, d) the directions of most variance of centred points, without those that hold only rounding."""
    singular, rows = np.linalg.svd(z, full_matrices=False)[1:]
    return fix_signs(rows[:count][singular[:count] > 1e-6 * singular[0]])
