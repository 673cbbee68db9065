"""A sample's points in the order of their documents, and their coordinates along eigenvectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from isoscope.core.numerics import Floats
from isoscope.statistics.sample import Sample

NARROW_ABOVE = 256
"""Above this dimension products of float32 points with eigenvectors are taken in float32, at half the time."""
ROWS = 128
"""Points that are worked on at a time, if a document has no more: fresh memory for all of them costs more than the work itself."""


@dataclass(frozen=True)
class SampleDocuments:
    """The points of a sample, those of each document next to each other, and documents in the order of their hashes."""

    points: Floats
    """(m, d)"""
    hashes: np.ndarray
    """(documents,) increasing"""
    starts: np.ndarray
    """(documents + 1,) where the points of each document begin, and where the last ones end."""
    narrow: bool
    """Whether products with eigenvectors may be taken in float32."""

    @classmethod
    def of(cls, sample: Sample) -> SampleDocuments:
        """Sort the points of a sample by document."""
        order = np.argsort(sample.unit, kind="stable")
        hashes, starts = np.unique(sample.unit[order], return_index=True)
        narrow = sample.points.dtype == np.float32 and sample.d > NARROW_ABOVE
        return cls(sample.points[order].astype(np.float64), hashes, np.append(starts, len(order)), narrow)

    @property
    def counts(self) -> Floats:
        """(documents,) how many points each has."""
        return np.diff(self.starts).astype(np.float64)

    def sum(self, values: Floats, first: int = 0, last: int | None = None, out: Floats | None = None) -> Floats:
        """Return (documents, …) the sums of values (points, …) over each document's points, for all documents or from one to another."""
        starts = self.starts[first : None if last is None else last + 1]
        sums = np.empty((len(starts) - 1, *values.shape[1:]), values.dtype) if out is None else out
        if len(sums) == len(values):
            sums[:] = values
            return sums
        # np.add.reduceat does the same and takes four times as long.
        places = (starts - starts[0]).tolist()
        for i, (start, stop) in enumerate(pairwise(places)):
            np.add.reduce(values[start:stop], 0, out=sums[i, ...])
        return sums

    def runs(self, rows: int) -> Iterator[tuple[int, int]]:
        """Yield runs of documents, from one to another, that have this many points together, or a few more."""
        first = 0
        while first < len(self.hashes):
            last = max(first + 1, int(np.searchsorted(self.starts, self.starts[first] + rows)))
            last = min(last, len(self.hashes))
            yield first, last
            first = last

    def squared_lengths(self, origin: Floats | None = None) -> Floats:
        """Return (m,) the squared distance of each point from an origin, or its squared length."""
        squares = np.empty(len(self.points))
        for at in range(0, len(squares), ROWS):
            rows = self.points[at : at + ROWS]
            rows = rows if origin is None else rows - origin
            squares[at : at + ROWS] = np.vecdot(rows, rows)
        return squares

    def centred(self, origin: Floats) -> np.ndarray:
        """Return (m, d) the points from an origin near their mean, in the precision in which products with them are taken."""
        if not self.narrow:
            return self.points - origin
        # Centred before they are rounded: a large mean would cost products in float32 digits.
        rounded = np.empty(self.points.shape, np.float32)
        for at in range(0, len(rounded), ROWS):
            rounded[at : at + ROWS] = self.points[at : at + ROWS] - origin
        return rounded

    def coordinate_sums(self, along: np.ndarray, offset: Floats | None = None) -> tuple[Floats, Floats]:
        """Return (documents, columns) the sums over each document's points of the squares of their coordinates, and of the coordinates.

        Args:
            along: (m, columns) coordinates; they are squared and added in float64.
            offset: (columns,) what to add to each first.
        """
        squares, firsts = np.empty((2, len(self.hashes), along.shape[1]))
        for first, last in self.runs(ROWS):
            rows = along[self.starts[first] : self.starts[last]].astype(np.float64)
            if offset is not None:
                rows += offset
            self.sum(rows, first, last, out=firsts[first:last])
            self.sum(np.multiply(rows, rows, out=rows), first, last, out=squares[first:last])
        return squares, firsts


def narrow_product(points: np.ndarray, vectors: Floats) -> np.ndarray:
    """Return the products of points (m, d) with vectors (d, columns), in float32 if the points are, unless they might overflow there."""
    if points.dtype == np.float32 and not 1e-25 < max(float(points.max()), -float(points.min())) < 1e35:
        points = points.astype(np.float64)
    return np.asarray(points @ vectors.astype(points.dtype, copy=False))


def axes_of(points: np.ndarray) -> Floats:
    """Return (d, axes) the eigenvectors of XᵀX in falling order of their eigenvalues; of fewer points than dimensions, those they span."""
    if len(points) < points.shape[1]:
        return np.asarray(np.linalg.svd(points.astype(np.float64, copy=False), full_matrices=False)[2].T)
    from scipy.linalg import eigh

    return np.asarray(eigh(points.T @ points, driver="evd", check_finite=False, overwrite_a=True)[1][:, ::-1])


@lru_cache(maxsize=4)
def bootstrap_weights(documents: int, draws: int, seed: int = 0) -> Floats:
    """Return (1 + draws, documents): one of each document, then how many times each draw with replacement holds each document."""
    weights = np.random.default_rng(seed).multinomial(documents, np.full(documents, 1 / documents), size=draws)
    # The first row is the sample as it is, so that one product serves it and the draws.
    return np.concatenate([np.ones((1, documents)), weights])
