"""Axes that are common to all checkpoints of a training: the singular vectors of all queries and keys of a head, from sums alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isoscope.core.numerics import Floats
from isoscope.statistics.head_statistics import Heads, SecondMoments

COMPONENTS = 8
"""Components that are kept of a basis."""
NOTHING = 1e-9
"""A mean whose coordinate is a smaller part of its length than this has no side."""


@dataclass(frozen=True)
class HeadSums:
    """n, Σx (h, e) and Σxxᵀ (h, e, e) of the heads of one layer. Sums of checkpoints, or of queries and keys, add up.

    >>> one = HeadSums(1, np.ones((1, 2)), np.ones((1, 2, 2)))
    >>> (one + one).n, (one + one).mean.tolist()
    (2, [[1.0, 1.0]])
    """

    n: int
    total: Floats
    outer: Floats

    def __add__(self, other: HeadSums) -> HeadSums:
        return HeadSums(self.n + other.n, self.total + other.total, self.outer + other.outer)

    @property
    def mean(self) -> Floats:
        """(h, e)."""
        return np.asarray(self.total / max(self.n, 1))

    @classmethod
    def of(cls, heads: Heads, chosen: list[int]) -> HeadSums:
        """Those of a layer's queries or keys, over the slices with these numbers."""
        found = cls(0, np.zeros((heads.h, heads.e)), np.zeros((heads.h, heads.e, heads.e)))
        for number in chosen:
            found = found + _uncentred(heads.second[number])
        return found

    def at(self, heads: np.ndarray) -> HeadSums:
        """The sums of these heads, in this order; one may come again and again, as a key that several queries share."""
        return HeadSums(self.n, self.total[heads], self.outer[heads])


def _uncentred(second: SecondMoments) -> HeadSums:
    """Σx and Σxxᵀ from sums about a shift, or from the points where they are still held."""
    if second.shift is None:
        points = np.concatenate([np.zeros((second.h, 0, second.e)), *second.held], axis=1)
        return HeadSums(second.n, points.sum(1), points.swapaxes(1, 2) @ points)
    cross = second.shift[:, :, None] * (second.total + second.n / 2 * second.shift)[:, None, :]
    return HeadSums(second.n, second.total + second.n * second.shift, second.outer + cross + cross.swapaxes(1, 2))


@dataclass(frozen=True)
class Basis:
    """The first components of each head: `vectors` (h, e, c) in columns, `parts` (h, c) of the whole that each carries, `centre` (h, e)."""

    vectors: Floats
    parts: Floats
    centre: Floats

    def coordinates(self, points: Floats) -> Floats:
        """(h, m, c) of points (h, m, e), or (h, c) of one point (h, e) a head."""
        if points.ndim == 2:
            return self.coordinates(points[:, None])[:, 0]
        return np.asarray((points - self.centre[:, None]) @ self.vectors)

    def head(self, j: int) -> Basis:
        """The basis of one head."""
        return Basis(self.vectors[j : j + 1], self.parts[j : j + 1], self.centre[j : j + 1])


def common_basis(sums: HeadSums, towards: HeadSums, *, centred: bool = False, components: int = COMPONENTS) -> Basis:
    """The right singular vectors of all vectors behind `sums`, stacked, and what part of the sum of squares each carries.

    They are the eigenvectors of Σxxᵀ: the vectors need not be there. Uncentred as published, or about the mean of all of them. A singular
    vector has no sign of its own: each is turned so that the mean of `towards` (the queries, whatever the basis is of) lies on its
    positive side of the origin; where that is zero, so that its own largest entry is positive.
    """
    centre = sums.mean if centred else np.zeros_like(sums.total)
    outer = sums.outer - sums.n * centre[:, :, None] * centre[:, None, :]
    values, vectors = np.linalg.eigh((outer + outer.swapaxes(1, 2)) / 2)
    values, vectors = values[:, ::-1].clip(0), vectors[:, :, ::-1][:, :, :components]
    along = (towards.mean[:, None] @ vectors)[:, 0]
    peak = np.take_along_axis(vectors, np.abs(vectors).argmax(1)[:, None], 1)[:, 0]
    sided = np.abs(along) > NOTHING * np.linalg.norm(towards.mean, axis=1)[:, None]
    sign = np.where(np.where(sided, along, peak) < 0, -1.0, 1.0)
    whole = values.sum(1, keepdims=True)
    parts = np.divide(values, whole, out=np.zeros_like(values), where=whole > 0)[:, :components]
    return Basis(vectors * sign[:, None], parts, centre)
