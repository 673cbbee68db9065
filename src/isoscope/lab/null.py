"""What isotropic points give: closed forms of every level that a number is held against, and the same by simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from isoscope.core.arrays import Floats
from isoscope.core.student import LEVEL
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, tidy
from isoscope.statistics.chance import head_threshold, one_pair
from isoscope.statistics.dimension import mle
from isoscope.statistics.neighbours import neighbours
from isoscope.statistics.spectrum import isotropic_spectra

DIMENSIONS = (16, 64, 128, 256, 512, 768, 1024, 2048, 4096, 8192)
TRACY_WIDOM = -1.2065336
"""The mean of the law of order 1."""
BLOCK = 1 << 20
"""Numbers drawn at a time."""
WORK = 1e8
"""Of a spectrum of k eigenvalues at most this over k² are drawn, and eight at least."""
NEIGHBOURS = 4096
"""TwoNN's level is drawn for at most so many points."""
ERRORS = 4
"""A form agrees with simulation within so many standard errors: a table holds up to a hundred, and of them one in 370 would miss three."""


def pair_density(c: Floats, d: int) -> Floats:
    """The density of the cosine of one pair: (1 − c²)^((d−3)/2) · Γ(d/2)/(√π·Γ((d−1)/2)).

    >>> pair_density(np.array([-0.5, 0.0, 0.9]), 3).round(4).tolist()
    [0.5, 0.5, 0.5]
    """
    from scipy.special import gammaln

    return np.asarray(np.exp(gammaln(d / 2) - gammaln((d - 1) / 2) - np.log(np.pi) / 2 + (d - 3) / 2 * np.log1p(-(c**2))))


def average_sd(d: int, n: int) -> float:
    """The standard deviation of the *average* cosine over all pairs of n points: √(2/(d·n(n−1))); its mean is 0."""
    return float((2 / (d * n * (n - 1))) ** 0.5)


def average_quantile(d: int, n: int, q: float = 1 - LEVEL) -> float:
    """A quantile of the same average, by Rayleigh's n·d·‖ū‖² ~ χ²_d."""
    from scipy.special import chdtri

    return float((chdtri(d, 1 - q) / d - 1) / (n - 1))


def edges(d: int, n: int) -> tuple[float, float]:
    """Between which the eigenvalues lie that are not zero, in the limit: (1 ∓ √(d/n))² (Marchenko and Pastur 1967)."""
    return (1 - (d / n) ** 0.5) ** 2, (1 + (d / n) ** 0.5) ** 2


def outermost(d: int, n: int) -> tuple[float, float]:
    """The means of the smallest eigenvalue that is not zero and of the largest, of a centred cloud: somewhat inside the edges.

    First order in the width of the Tracy–Widom law (Johnstone 2001; Ma 2012). NaN for the smallest where d is near n and the edge at zero.
    """
    roots = np.array([(n - 1.5) ** 0.5, (d - 0.5) ** 0.5])
    inner, outer = _widths(d, n)
    low = float(np.diff(roots)[0] ** 2 / (n - 1) * (1 - TRACY_WIDOM * inner)) if inner < 0.5 else float("nan")
    return low, float(roots.sum() ** 2 / (n - 1) * (1 + TRACY_WIDOM * outer))


def _widths(d: int, n: int) -> tuple[float, float]:
    """The width of the law at the lower and at the upper edge, as a part of that edge."""
    a, b = (n - 1.5) ** 0.5, (d - 0.5) ** 0.5
    inner = abs(1 / a - 1 / b) ** (1 / 3) / abs(a - b) if abs(a - b) > 1e-6 else float("inf")
    return float(inner), float((1 / a + 1 / b) ** (1 / 3) / (a + b))


def isoscore(d: int, n: int) -> float:
    """IsoScore: (n − 2)/(n + d), from the first two moments of the spectrum; PR is about d/(1 + d/n)."""
    return (n - 2) / (n + d)


def rectified(d: int) -> float:
    """The mean cosine of two vectors of independent rectified normals: 1/π, and a little more in few dimensions."""
    return float((1 + 3 / (4 * d)) / np.pi)


@dataclass(frozen=True)
class Form:
    """A level in closed form; `slack` is the part of itself by which it is only an approximation."""

    title: str
    value: Callable[[int, int], float]
    slack: Callable[[int, int], float] = lambda d, n: 0.0


FORMS: dict[str, Form] = {
    "pair_95": Form("one pair, 95 %", lambda d, n: one_pair(d)),
    "pair_sd": Form("one pair, sd", lambda d, n: d**-0.5),
    "average_sd": Form("average, sd", average_sd),
    "average_95": Form("average, 95 %", average_quantile, lambda d, n: 1 / n),
    "lower_edge": Form("lower edge", lambda d, n: edges(d, n)[0]),
    "upper_edge": Form("upper edge", lambda d, n: edges(d, n)[1]),
    "smallest": Form("smallest eigenvalue", lambda d, n: outermost(d, n)[0], lambda d, n: 2 * _widths(d, n)[0] ** 2),
    "largest": Form("largest eigenvalue", lambda d, n: outermost(d, n)[1], lambda d, n: 2 * _widths(d, n)[1] ** 2),
    "top_share": Form("top share, edge", lambda d, n: min(edges(d, n)[1] / d, 1.0)),
    "isoscore": Form("IsoScore", isoscore, lambda d, n: 2 / (n * d)),
    "rectified": Form("ReLU", lambda d, n: rectified(d), lambda d, n: 2 / d**2),
}
"""By name. The edges are limits: simulation speaks of the eigenvalues at this n and d."""


@dataclass(frozen=True)
class Estimate:
    """What simulation gave, and its standard error."""

    value: float
    error: float

    def agrees(self, form: float, slack: float = 0.0) -> bool:
        """Whether a closed form lies within the error."""
        return abs(self.value - form) <= ERRORS * self.error + slack * abs(form)


def closed_forms(d: int, n: int) -> dict[str, float]:
    """Every form at this d and n, by name."""
    return {name: form.value(d, n) for name, form in FORMS.items()}


def simulated(d: int, n: int, draws: int, seed: int = 0) -> dict[str, Estimate]:
    """The forms by simulation: `draws` pairs, `draws` clouds of n points, and as many spectra as a few seconds allow."""
    rng = np.random.default_rng([seed, d, n])
    plain, positive = (np.concatenate(parts) for parts in zip(*_pairs(rng, d, draws), strict=True))
    averages = _averages(rng, d, n, draws)
    few = min(n - 1, d)
    spectra = isotropic_spectra(n - 1, d, int(max(8, min(draws, WORK // few**2))), seed)
    scores = (spectra.sum(1) ** 2 / (spectra**2).sum(1) - 1) / (d - 1)
    found = {
        "pair_95": _quantile(plain),
        "pair_sd": _deviation(plain),
        "average_sd": _deviation(averages),
        "average_95": _quantile(averages),
        "largest": _mean(spectra[:, 0]),
        "isoscore": _mean(scores),
        "rectified": _mean(positive),
    }
    return found | ({} if np.isnan(outermost(d, n)[0]) else {"smallest": _mean(spectra[:, -1])})


def simulated_heads(d: int, heads: int, draws: int, seed: int = 0) -> tuple[Estimate, float]:
    """How often any of `heads` pairs exceeds `head_threshold`, and how often it should: 1 − (1 − 0.05/heads)^heads."""
    rng = np.random.default_rng([seed, d, heads])
    cosines = np.concatenate([plain for plain, _ in _pairs(rng, d, draws * heads)]).reshape(draws, heads)
    expected = 1 - (1 - LEVEL / heads) ** heads
    over = (np.abs(cosines).max(1) > head_threshold(d, heads)).mean()
    return Estimate(float(over), (expected * (1 - expected) / draws) ** 0.5), expected


def two_nn(d: int, n: int, draws: int = 4, seed: int = 0) -> Estimate:
    """What TwoNN (maximum likelihood) makes of n isotropic Gaussian points: far below d where d is high. n is at most 4,096."""
    rng = np.random.default_rng([seed, d, n])
    clouds = (rng.standard_normal((n, d), dtype=np.float32) for _ in range(draws))
    return _mean(np.array([mle(neighbours(points, 2).distances).value for points in clouds]))


def tables(dimensions: Iterable[int], n: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables as figures take them, kind `isotropic`: the forms, and the densities as series, whose `weight` is d."""
    here = {"model": "isotropic", "kind": "isotropic", "policy": "all"}
    rows: list[dict[str, object]] = []
    points: list[dict[str, object]] = []
    for d in dimensions:
        rows += [here | {"metric": name, "value": value, "n": n, "d": d} for name, value in closed_forms(d, n).items()]
        c = np.linspace(-1, 1, 161) * min(4.5 * d**-0.5, 0.999)
        points += [
            here | {"name": "cosine_density", "x": x, "y": y, "weight": d}
            for x, y in zip(c.tolist(), pair_density(c, d).tolist(), strict=True)
        ]
    return tidy(rows, TABLE_COLUMNS), tidy(points, SERIES_COLUMNS)


def _pairs(rng: np.random.Generator, d: int, count: int) -> Iterator[tuple[Floats, Floats]]:
    """Cosines of pairs of Gaussian vectors, and of the same vectors rectified, by blocks; a rectified vector of zeros has none."""
    for start in range(0, count, max(1, BLOCK // d)):
        x, y = rng.standard_normal((2, min(count - start, max(1, BLOCK // d)), d))
        yield _cosines(x, y), _cosines(np.maximum(x, 0), np.maximum(y, 0))


def _cosines(x: Floats, y: Floats) -> Floats:
    lengths = np.sqrt((x * x).sum(1) * (y * y).sum(1))
    return np.asarray(np.einsum("ij,ij->i", x, y)[lengths > 0] / lengths[lengths > 0])


def _averages(rng: np.random.Generator, d: int, n: int, draws: int) -> Floats:
    """Mean cosines of clouds of n isotropic points, without their points: only the length of Σu matters.

    The next direction makes a random angle with the sum so far, so ‖Σ + u‖² = ‖Σ‖² + 1 + 2‖Σ‖c, with c that of a Gaussian vector.
    """
    squared = np.ones(draws)
    for _ in range(n - 1):
        along = rng.standard_normal(draws)
        c = along / np.sqrt(along**2 + rng.chisquare(d - 1, draws))
        squared += 1 + 2 * np.sqrt(squared) * c
        np.maximum(squared, 0.0, out=squared)
    return np.asarray((squared - n) / (n * (n - 1)))


def _mean(values: Floats) -> Estimate:
    return Estimate(float(values.mean()), float(values.std(ddof=1)) / len(values) ** 0.5)


def _deviation(values: Floats) -> Estimate:
    """The standard deviation, whose own error depends on the fourth moment."""
    sd = float(values.std(ddof=1))
    fourth = float(((values - values.mean()) ** 4).mean()) / sd**4
    return Estimate(sd, sd * (max(fourth - 1, 0.0) / 4 / len(values)) ** 0.5)


def _quantile(values: Floats, q: float = 1 - LEVEL) -> Estimate:
    """A quantile; one standard error is how far it moves when q does by √(q(1−q)/draws)."""
    step = (q * (1 - q) / len(values)) ** 0.5
    low, value, high = np.quantile(values, [q - step, q, min(q + step, 1.0)])
    return Estimate(float(value), float(high - low) / 2)
