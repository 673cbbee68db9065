"""The participation ratio of the population: what chance adds to Σλ² at finite n is taken off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isoscope.core.numerics import Floats, margin
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.eigenvalues import ROWS
from isoscope.statistics.jackknife_groups import effective_groups

FEWEST = 4
"""An average over four points of different documents takes so many documents."""


@dataclass(frozen=True)
class Products:
    """Sums over the products of a sample's points, centred, by document; what k points make is kept apart for each k."""

    count: Floats  # points
    square: Floats  # Σ‖y‖²
    fourth: Floats  # Σ‖y‖⁴
    pairs: Floats  # Σ y_s·y_t, s ≠ t
    squared_pairs: Floats  # Σ (y_s·y_t)², s ≠ t
    ends: Floats  # Σ (y_s·y_t)(y_t·y_u) where two of the three are one point
    chains: Floats  # the same where all three differ
    along: Floats  # Σ yᵀAy, A the sum of yyᵀ over all points of the cloud
    along_pairs: Floats  # Σ y_sᵀAy_t, s ≠ t


def sample_products(cloud: Cloud) -> Products:
    """The products of the sample's points within each of its documents."""
    spectrum, sample = cloud.spectrum(), cloud.drawn
    documents, owner = np.unique(sample.unit, return_inverse=True)
    order = np.argsort(owner, kind="stable")
    vectors, weights = np.ascontiguousarray(spectrum.vectors), spectrum.values * (cloud.n - 1)
    y = np.empty((len(order), spectrum.size))
    for at in range(0, len(order), ROWS):
        np.matmul(sample.points[order[at : at + ROWS]] - spectrum.mean, vectors, out=y[at : at + ROWS])
    starts = np.searchsorted(owner[order], np.arange(len(documents) + 1))
    square = np.vecdot(y, y)
    along = np.concatenate([np.vecdot(part * weights, part) for part in np.split(y, range(ROWS, len(y), ROWS))])
    own = [np.add.reduceat(part, starts[:-1]) for part in (square, square**2, along)]
    pairs, squared_pairs, ends, chains, along_pairs = np.zeros((5, len(documents)))
    for i in np.flatnonzero(np.diff(starts) > 1):
        rows = slice(starts[i], starts[i + 1])
        gram, total = y[rows] @ y[rows].T, y[rows].sum(0)
        others = gram.sum(1) - square[rows]
        pairs[i] = others.sum()
        squared_pairs[i] = (gram * gram).sum() - own[1][i]
        ends[i] = 2 * (square[rows] @ others) + squared_pairs[i]
        chains[i] = others @ others - squared_pairs[i]
        along_pairs[i] = (total * weights) @ total - own[2][i]
    return Products(np.diff(starts).astype(np.float64), own[0], own[1], pairs, squared_pairs, ends, chains, own[2], along_pairs)


def within_items(cloud: Cloud, found: Products) -> float:
    """Σ_item ‖Y_item‖², Y an item's sum about the mean of the points, as the sample gives it."""
    r = cloud.n / float(found.count.sum())
    return float(r * found.square.sum() + r**2 * found.pairs.sum())


def unbiased_trace(cloud: Cloud, found: Products) -> float:
    """tr Σ = E‖x‖² − ‖μ‖² about the mean of the points, ‖μ‖² over pairs of different documents: a long drift costs no digits here."""
    n = cloud.n
    return float((n - 1) * cloud.spectrum().values.sum() / n + within_items(cloud, found) / (n**2 - float(cloud.totals.raw_pairs)))


def squared_trace(cloud: Cloud, found: Products) -> float:
    """tr(Σ²) without what chance adds: the average over pairs, triples and quadruples of points of different documents.

    tr(Σ²) = tr(M²) − 2μᵀMμ + ‖μ‖⁴ about any origin, with M = E xxᵀ. About the mean of the points, sums over different documents
    are sums over all less those within a document. The former are exact; the latter are small, and the sample gives them.
    """
    n, pairs = cloud.n, float(cloud.totals.raw_pairs)
    r = n / float(found.count.sum())  # how many points of the cloud one of the sample stands for
    whole = float(((cloud.n - 1) * cloud.spectrum().values) @ ((cloud.n - 1) * cloud.spectrum().values))
    second = whole - r * found.fourth.sum() - r**2 * found.squared_pairs.sum()
    third = 2 * (r * found.fourth.sum() + r**2 * found.ends.sum() + r**3 * found.chains.sum())
    third -= r * found.along.sum() + r**2 * found.along_pairs.sum()
    fourth = within_items(cloud, found) ** 2
    return float(second - 2 * third / n + fourth / n**2) / (n**2 - pairs)


def corrected_participation(cloud: Cloud) -> tuple[float, float, float] | None:
    """The participation ratio (tr Σ)²/tr(Σ²) of the population with its 95 % interval; None where the documents are too few.

    The interval is symmetric for the logarithm. Its standard error is that of the influence of each of the sample's documents, which is
    measured by how it goes together with the other documents.
    """
    totals, found = cloud.totals, cloud.shared(sample_products)
    n, m, documents = float(cloud.n), float(found.count.sum()), len(found.count)
    if documents < FEWEST or not totals.n**2 > totals.raw_pairs:
        return None
    trace, squared = unbiased_trace(cloud, found), squared_trace(cloud, found)
    if not trace > 0 or not squared > 0:
        return None
    value = trace**2 / squared
    r = n / m
    if not (n - r * found.count > 0).all():
        return value, np.nan, np.nan
    beside = (found.along - found.fourth - r * found.squared_pairs) / (n - r * found.count)  # with the points of other documents
    influence = found.square / found.square.sum() - beside / beside.sum()
    error = 2 * float((influence**2).sum() * documents / (documents - 1)) ** 0.5
    half = margin(error, effective_groups(found.count) - 1)
    return value, value * float(np.exp(-half)), value * float(np.exp(half))
