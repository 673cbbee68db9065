"""The eigenvalues of a cloud, those of isotropic clouds of the same n and d, and how far documents move them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from isoscope.core.numerics import Floats
from isoscope.estimation.sample_documents import bootstrap_weights
from isoscope.statistics.second_moment import SecondMoment

DRAWS = 200
"""Bootstrap draws of documents."""


@dataclass
class Spectrum:
    """Eigenvalues in falling order: min(n − 1, d) of a centred cloud, min(n, d) of one that is not; none is negative."""

    matrix: Floats | None  # (d, d), if there are more than d points, until it is decomposed
    points: Floats | None  # (n, d), otherwise; centred if `centred`
    mean: Floats  # the mean that was subtracted
    rounding: Floats  # (d,) the part of the variance along each dimension that may be rounding
    n: int
    d: int
    centred: bool

    @classmethod
    def of(cls, moment: SecondMoment, *, centred: bool) -> Spectrum:
        """Return the spectrum of the points that a second moment has seen."""
        mean = moment.mean if centred else np.zeros(moment.d)
        points = moment.points
        if points is not None:
            return cls(None, points - mean, mean, moment.rounding, moment.n, moment.d, centred)
        matrix = moment.covariance if centred else moment.raw_moment
        return cls(matrix, None, mean, moment.rounding, moment.n, moment.d, centred)

    @property
    def size(self) -> int:
        """How many eigenvalues can differ from zero."""
        return min(self.n - self.centred, self.d)

    @cached_property
    def _system(self) -> tuple[Floats, Floats]:
        if self.points is not None:
            # Singular values keep twice the digits that eigenvalues of products would, and n ≤ d rows need no (d, d) matrix.
            _, singular, rows = np.linalg.svd(self.points, full_matrices=False)
            return (singular**2 / max(self.n - self.centred, 1))[: self.size], rows[: self.size].T
        assert self.matrix is not None
        from scipy.linalg import eigh

        # The matrix is symmetric, so its transpose is the same matrix in the memory order that LAPACK can overwrite. That saves a copy.
        matrix, self.matrix = self.matrix.T, None
        values, vectors = eigh(matrix, driver="evd", check_finite=False, overwrite_a=True)
        # A layer norm leaves a direction empty; float32 products would put their rounding there, and its root into every rank. The
        # solver itself leaves about d times the last digit of the largest eigenvalue.
        noise = np.einsum("i,ij,ij->j", self.rounding, vectors, vectors) + len(values) * np.finfo(np.float64).eps * abs(values[-1])
        values = np.where(values > noise, values, 0.0)
        return values[::-1][: self.size], vectors[:, ::-1][:, : self.size]

    @property
    def values(self) -> Floats:
        """λ in falling order."""
        return self._system[0]

    @property
    def vectors(self) -> Floats:
        """(d, size), one column an eigenvector, in the order of the values."""
        return self._system[1]


def bootstrap_values(counts: Floats, squares: Floats, firsts: Floats | None = None) -> tuple[Floats, Floats] | None:
    """Return the variances of a sample along its axes, (axes,), and those of bootstrap draws of its documents, (draws, axes).

    To first order a function of a spectrum changes only through the variances along the eigenvectors, so each draw is a weighted mean
    of squares and no decomposition. None with fewer than three documents.

    Args:
        counts: (documents,) the points of each document.
        squares: (documents, axes) the sum of their squared coordinates.
        firsts: (documents, axes) the sum of their coordinates; if it is given, every draw is centred on its own mean, as the cloud is.
    """
    if len(counts) < 3:
        return None
    weights = bootstrap_weights(len(counts), DRAWS)
    total = (weights @ counts)[:, None]  # draws of long documents hold more points
    values = weights @ squares / total
    if firsts is not None:
        values -= (weights @ firsts / total) ** 2
    values = np.maximum(values, 0.0)
    return values[0], values[1:]


def top_part(values: Floats) -> Floats:
    """λ₁/Σλ over the last axis.

    >>> float(top_part(np.array([3.0, 1.0])))
    0.75
    """
    return np.asarray(values[..., 0] / values.sum(-1))


def top_part_linear(values: Floats) -> Floats:
    """σ₁/Σσ over the last axis, σ = √λ.

    >>> float(top_part_linear(np.array([9.0, 1.0])))
    0.75
    """
    return np.asarray(np.sqrt(values[..., 0]) / np.sqrt(values).sum(-1))


def entropy(weights: Floats) -> Floats:
    """−Σ p ln p over the last axis, p = weights/Σweights.

    >>> float(entropy(np.array([1.0, 1.0, 0.0])).round(4))
    0.6931
    """
    p = weights / weights.sum(-1, keepdims=True)
    return np.asarray(-(p * np.log(np.where(p > 0, p, 1.0))).sum(-1))


@lru_cache(maxsize=64)
def isotropic_spectra(degrees: int, d: int, draws: int = 24, seed: int = 0) -> Floats:
    """Eigenvalues of isotropic Gaussian clouds, (draws, min(degrees, d)), with mean near 1.

    Drawn exactly from the bidiagonal model of the Wishart ensemble (Dumitriu and Edelman 2002), at d² instead of n·d² a draw.

    >>> spectra = isotropic_spectra(4095, 768)
    >>> bool(abs(spectra.mean() - 1) < 0.01), bool(abs(spectra.max() / (1 + (768 / 4095) ** 0.5) ** 2 - 1) < 0.02)
    (True, True)
    """
    from scipy.linalg import eigvalsh_tridiagonal

    rng = np.random.default_rng(seed)
    few, many = sorted((degrees, d))
    spectra = np.zeros((draws, few))
    for draw in range(draws):
        # B is lower bidiagonal with chi entries, and BBᵀ, whose two diagonals follow, has the eigenvalues of a Wishart matrix.
        diagonal = np.sqrt(rng.chisquare(many - np.arange(few)))
        below = np.sqrt(rng.chisquare(few - 1 - np.arange(few - 1)))
        squares = diagonal**2 + np.concatenate([[0.0], below**2])
        spectra[draw] = eigvalsh_tridiagonal(squares, diagonal[:-1] * below)[::-1]
    return np.maximum(spectra, 0.0) / degrees
