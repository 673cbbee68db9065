"""Clouds with the covariance of another and no other structure: the controls of local geometry."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from isoscope.core.numerics import Floats

CONTROLS = 6
"""Gaussian clouds that are drawn."""


def gaussians(points: np.ndarray, count: int = CONTROLS, seed: int = 0) -> Iterator[np.ndarray]:
    """Yield Gaussian clouds (n, d) float32 with exactly the covariance of centred points, and the mean zero.

    Each is UB with BᵀB = XᵀX and U uniform among the n-row matrices whose columns are orthonormal and add up to zero. Were the points
    Gaussian, that would be their own distribution given their mean and covariance: control and cloud would differ by chance alone,
    however few points there are.
    """
    from scipy.linalg import cholesky, solve_triangular

    basis = covariance_root(points)
    rng = np.random.default_rng(seed)
    for _ in range(count):
        normal = rng.standard_normal((len(points), len(basis)), dtype=np.float32)
        normal -= normal.mean(0)
        wide = normal.astype(np.float64)
        # With ZᵀZ = RᵀR the columns of ZR⁻¹ are orthonormal. R⁻¹B is small; the product with the points is the cost, hence float32.
        yield normal @ solve_triangular(cholesky(wide.T @ wide), basis).astype(np.float32)


def gaussians_by_document(points: np.ndarray, owner: np.ndarray, count: int = CONTROLS, seed: int = 0) -> Iterator[np.ndarray]:
    """Yield clouds as `gaussians` does, with exactly the covariance of the documents' means and that of the points about them.

    Points of one other document may enter a neighbourhood together. In a control of independent points they do not, so the neighbourhoods
    of a Gaussian cloud of few long documents would seem less isotropic than its control's.
    """
    sizes = np.bincount(owner).astype(np.float64)[:, None]
    n, documents = len(owner), len(sizes)
    if documents in (1, n):
        yield from gaussians(points, count, seed)
        return
    means = _document_sums(points, owner) / sizes
    between, within = _factor(np.sqrt(sizes) * means, documents - 1), _factor(points - means[owner], n - documents)
    # A mean of n_i points with intraclass correlation ρ has the variance ρ + (1 − ρ)/n_i: short documents have more scattered means.
    correlation = intraclass(points, owner)
    spread = np.sqrt(sizes * correlation + (1 - correlation))  # √n_i times the sd of a mean of n_i points
    rng = np.random.default_rng(seed)
    for _ in range(count):
        means_part = spread * rng.standard_normal((documents, len(between)))
        # Both parts are projected to sum to zero, by document and over all points, so that neither leaks into the other's covariance.
        means_part -= np.sqrt(sizes) * (np.sqrt(sizes) * means_part).sum(0) / n
        points_part = rng.standard_normal((n, len(within)))
        points_part -= (_document_sums(points_part, owner) / sizes)[owner]
        yield ((_with_covariance(means_part, between) / np.sqrt(sizes))[owner] + _with_covariance(points_part, within)).astype(np.float32)


def _document_sums(points: np.ndarray, owner: np.ndarray) -> Floats:
    sums = np.zeros((int(owner.max()) + 1, points.shape[1]))
    np.add.at(sums, owner, points)
    return sums


def _factor(rows: Floats, rank: int) -> Floats:
    """Return B of at most `rank` rows with BᵀB = XᵀX, for rows X of that rank."""
    if rows.shape[1] <= len(rows):
        values, vectors = np.linalg.eigh(rows.T @ rows)
        return np.asarray((np.sqrt(values.clip(0))[:, None] * vectors.T)[::-1][:rank])
    # With fewer rows than columns, UᵀX from the eigenvectors U of XXᵀ serves as well and needs no (d, d) matrix.
    return np.asarray((np.linalg.eigh(rows @ rows.T)[1].T @ rows)[::-1][:rank])


def _with_covariance(normal: Floats, basis: Floats) -> Floats:
    """Return UB, with the columns of U orthonormal and spanning those of `normal`."""
    from scipy.linalg import cholesky, solve_triangular

    return np.asarray(normal @ solve_triangular(cholesky(normal.T @ normal), basis))


def intraclass(points: np.ndarray, owner: np.ndarray) -> float:
    """The part of the variance of points (n, d) that those of a document share, by analysis of variance; from 0 to 1.

    >>> round(intraclass(np.repeat(np.random.default_rng(0).normal(size=(9, 1)), 4, axis=0), np.repeat(np.arange(9), 4)), 9)
    1.0
    """
    sizes = np.bincount(owner).astype(np.float64)
    n, documents = len(owner), len(sizes)
    centred = points - points.mean(0, dtype=np.float64)
    between = float((_document_sums(centred, owner) ** 2 / sizes[:, None]).sum())
    within = max(float((centred**2).sum()) - between, 0.0) / (n - documents)
    between /= documents - 1
    size = (n - float((sizes**2).sum()) / n) / (documents - 1)
    return min(max((between - within) / (between + (size - 1) * within), 0.0), 1.0) if between > 0 else 0.0


def covariance_root(points: np.ndarray) -> Floats:
    """Return B of min(n − 1, d) rows with BᵀB = XᵀX, for centred points X; it does not depend on their order."""
    from scipy.linalg import helmert

    n, d = points.shape
    # Helmert's contrasts remove the mean's empty direction, so that fewer than d points give n − 1 rows. The sign that QR leaves open
    # is fixed, because it would otherwise depend on the order of the points.
    rows = np.linalg.qr(points.astype(np.float64) if d < n else helmert(n) @ points, mode="r")
    return np.asarray(rows * np.where(np.diag(rows) < 0, -1.0, 1.0)[:, None])


def shuffle_dimensions(points: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return the points with each dimension permuted by itself: every dimension keeps its values, and none depends on another."""
    # Sorted first: the result then depends on the values alone, not on the order in which points came.
    return np.random.default_rng(seed).permuted(np.sort(points, axis=0), axis=0)
