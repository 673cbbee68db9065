"""The participation ratio: of the sample, of the population, and on a scale from 0 to 1 (IsoScore)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from isoscope.core.number import POPULATION, THIS_N, Number
from isoscope.core.numerics import Floats, margin
from isoscope.estimation.cloud import Cloud, centred_sums
from isoscope.estimation.eigenvalues import top_part
from isoscope.estimation.metric import Question, metric
from isoscope.statistics.jackknife_groups import effective_groups

FEWEST = 4
"""An average over four points of different documents needs at least four documents."""
_ratio = partial(metric, wants=("sample",), interval_about=THIS_N, question=Question.DIMENSIONS_IN_USE)


def _participation(values: Floats) -> Floats:
    return np.asarray(values.sum(-1) ** 2 / (values**2).sum(-1))


@_ratio(reads=("second",), range=(1.0, np.inf), title="Participation ratio")
def participation_ratio(cloud: Cloud) -> Number:
    """How many directions share the variance, counting each by its square.

    ``(Σλ)²/Σλ²``, centred.

    Range 1 to d. Null: its mean over isotropic Gaussian clouds of this n and d, about d/(1+d/n).

    >>> round(participation_ratio([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), 3)
    1.471
    """
    return cloud.spectral(_participation, bounds=(1.0, cloud.d))


@_ratio(
    reads=("second", "sample"), wants=("groups",), range=(1.0, np.inf), interval_about=POPULATION, title="Participation ratio, corrected"
)
def participation_ratio_corrected(cloud: Cloud) -> Number:
    """How many directions share the variance in the population of documents: `participation_ratio` without its dependence on n.

    ``(tr Σ)²/tr(Σ²)``, with tr(Σ²) estimated from points of different documents. ``(Σλ)²/Σλ²`` of a sample is too small, by about
    PR/n of itself if points are independent and by more if they are not. An estimate above d, which happens if the cloud is nearly
    isotropic, is given as d.

    Range 1 to d. Null: independent points of an isotropic Gaussian. In about half of such clouds the number is d; its mean is about
    d·(1 − 0.80/n) and its standard deviation 1.17·d/n.

    >>> x = np.random.default_rng(0).normal(size=(100, 50))
    >>> round(participation_ratio_corrected(x), 1), round(float(np.trace(c := np.cov(x.T)) ** 2 / (c**2).sum()), 1)
    (50.0, 33.5)
    """
    n, d = cloud.n, cloud.d
    if np.isnan(cloud.spectral_value(top_part)):
        return Number(np.nan, n=n, d=d, note="all points are equal")
    estimate = corrected_participation(cloud)
    if estimate is None:
        return Number(np.nan, n=n, d=d, note=f"needs points of more documents than these, of {FEWEST} at least")
    value, low, high = (float(np.clip(bound, 1.0, d)) for bound in estimate)
    return Number(value, n=n, d=d, low=low, high=high, null=d * (1 - 0.798 / n), null_sd=1.168 * d / n)


@_ratio(reads=("second",), range=(0.0, 1.0), title="IsoScore")
def isoscore(cloud: Cloud) -> Number:
    """How evenly the variance is spread over all d directions: 1 is isotropic, 0 is a line.

    ``(PR − 1)/(d − 1)`` with PR = (Σλ)²/Σλ², centred; exactly the score of Rudman et al. (2022).

    Range 0 to 1. Null: its mean over isotropic Gaussian clouds of this n and d; below 1 because n is finite.

    >>> round(isoscore([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), 3)
    0.471
    """
    if cloud.d < 2:
        return Number(np.nan, n=cloud.n, d=cloud.d, note="one dimension is always evenly spread")
    return cloud.spectral(lambda values: np.asarray((_participation(values) - 1) / (cloud.d - 1)), bounds=(0.0, 1.0))


@dataclass(frozen=True)
class Products:
    """Sums over the products of a sample's points, centred, by document; sums over one, two and three points are kept apart."""

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
    """Return the products of the sample's points within each of its documents."""
    spectrum, documents = cloud.spectrum(), cloud.documents
    # On the eigenvectors A is diagonal, so yᵀAy is a weighted sum of squares and no (d, d) product is needed.
    weights = spectrum.values * (cloud.n - 1)
    squares, firsts = cloud.cached(centred_sums)
    along, along_pairs = squares @ weights, firsts**2 @ weights - squares @ weights
    square = documents.squared_lengths(spectrum.mean)
    by_document = [documents.sum(part) for part in (square, square**2)]
    pairs, squared_pairs, ends, chains = np.zeros((4, len(documents.hashes)))
    for i in np.flatnonzero(documents.counts > 1):
        rows = slice(documents.starts[i], documents.starts[i + 1])
        y = documents.points[rows] - spectrum.mean
        gram = y @ y.T
        others = gram.sum(1) - square[rows]
        pairs[i] = others.sum()
        squared_pairs[i] = (gram * gram).sum() - by_document[1][i]
        ends[i] = 2 * (square[rows] @ others) + squared_pairs[i]
        chains[i] = others @ others - squared_pairs[i]
    return Products(documents.counts, by_document[0], by_document[1], pairs, squared_pairs, ends, chains, along, along_pairs)


def within_items(cloud: Cloud, products: Products) -> float:
    """Return Σ_item ‖Y_item‖², Y an item's sum about the mean of the points, as the sample gives it."""
    r = cloud.n / float(products.count.sum())
    return float(r * products.square.sum() + r**2 * products.pairs.sum())


def unbiased_trace(cloud: Cloud, products: Products) -> float:
    """Return tr Σ = E‖x‖² − ‖μ‖², with ‖μ‖² over pairs of different documents; about the mean of the points, so drift costs no digits."""
    n = cloud.n
    return float((n - 1) * cloud.spectrum().values.sum() / n + within_items(cloud, products) / (n**2 - float(cloud.totals.raw_pairs)))


def squared_trace(cloud: Cloud, products: Products) -> float:
    """Return tr(Σ²) without its bias at finite n: the average over pairs, triples and quadruples of points of different documents.

    tr(Σ²) = tr(M²) − 2μᵀMμ + ‖μ‖⁴ about any origin, with M = E xxᵀ. About the mean of the points, sums over different documents
    are sums over all less those within a document. The former are exact; the latter are small, and the sample gives them.
    """
    n, pairs = cloud.n, float(cloud.totals.raw_pairs)
    # Each point of the sample stands for r of the cloud. A sum over k different points is therefore taken r^k times, which is why sums over
    # one, two and three points are kept apart.
    r = n / float(products.count.sum())
    sums = (cloud.n - 1) * cloud.spectrum().values
    whole = float(sums @ sums)
    second = whole - r * products.fourth.sum() - r**2 * products.squared_pairs.sum()
    third = 2 * (r * products.fourth.sum() + r**2 * products.ends.sum() + r**3 * products.chains.sum())
    third -= r * products.along.sum() + r**2 * products.along_pairs.sum()
    fourth = within_items(cloud, products) ** 2
    return float(second - 2 * third / n + fourth / n**2) / (n**2 - pairs)


def corrected_participation(cloud: Cloud) -> tuple[float, float, float] | None:
    """Return the participation ratio (tr Σ)²/tr(Σ²) of the population with its 95 % interval; None if there are too few documents.

    The interval is symmetric for the logarithm. Its standard error comes from the influence of each of the sample's documents, which is
    computed from its products with the other documents.
    """
    totals, products = cloud.totals, cloud.cached(sample_products)
    n, m, documents = float(cloud.n), float(products.count.sum()), len(products.count)
    if documents < FEWEST or not totals.n**2 > totals.raw_pairs:
        return None
    trace, squared = unbiased_trace(cloud, products), squared_trace(cloud, products)
    if not trace > 0 or not squared > 0:
        return None
    value = trace**2 / squared
    r = n / m
    if not (n - r * products.count > 0).all():
        return value, np.nan, np.nan
    with_others = (products.along - products.fourth - r * products.squared_pairs) / (n - r * products.count)
    # The logarithm of (tr Σ)²/tr(Σ²) moves by twice a document's relative part in the trace, less twice that in its products with others.
    influence = products.square / products.square.sum() - with_others / with_others.sum()
    error = 2 * float((influence**2).sum() * documents / (documents - 1)) ** 0.5
    half = margin(error, effective_groups(products.count) - 1)
    return value, value * float(np.exp(-half)), value * float(np.exp(half))
