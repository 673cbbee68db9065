"""The isotropic null: the value of each number for isotropic points, in closed form and by simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from isoscope.core.numerics import LEVEL, Floats
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.estimation.eigenvalues import isotropic_spectra
from isoscope.estimation.intrinsic_dimension import mle
from isoscope.estimation.isotropic_quantiles import head_threshold, one_pair
from isoscope.estimation.neighbours import neighbours

DIMENSIONS = (16, 64, 128, 256, 512, 768, 1024, 2048, 4096, 8192)
TRACY_WIDOM = -1.2065336
"""The mean of the Tracy–Widom law of order 1."""
BLOCK = 1 << 20
"""Numbers drawn at a time."""
WORK = 1e8
"""At most this over k² spectra of k eigenvalues are drawn, and at least eight."""
NEIGHBOURS = 4096
"""The largest number of points for which TwoNN's level is simulated."""
ERRORS = 4
"""A form agrees with simulation within this many standard errors. A table holds up to a hundred forms; one in 370 would miss three."""


def pair_density(c: Floats, d: int) -> Floats:
    """The density of the cosine of one pair: (1 − c²)^((d−3)/2) · Γ(d/2)/(√π·Γ((d−1)/2)).

    >>> pair_density(np.array([-0.5, 0.0, 0.9]), 3).round(4).tolist()
    [0.5, 0.5, 0.5]
    """
    from scipy.special import gammaln

    # In logarithms: Γ(d/2) overflows above d = 342.
    return np.asarray(np.exp(gammaln(d / 2) - gammaln((d - 1) / 2) - np.log(np.pi) / 2 + (d - 3) / 2 * np.log1p(-(c**2))))


def average_sd(d: int, n: int) -> float:
    """The standard deviation of the *average* cosine over all pairs of n points: √(2/(d·n(n−1))); its mean is 0."""
    return float((2 / (d * n * (n - 1))) ** 0.5)


def average_quantile(d: int, n: int, q: float = 1 - LEVEL) -> float:
    """A quantile of the same average, by Rayleigh's n·d·‖ū‖² ~ χ²_d."""
    from scipy.special import chdtri

    return float((chdtri(d, 1 - q) / d - 1) / (n - 1))


def spectrum_edges(d: int, n: int) -> tuple[float, float]:
    """The edges between which the nonzero eigenvalues lie, in the limit: (1 ∓ √(d/n))² (Marchenko and Pastur 1967)."""
    return (1 - (d / n) ** 0.5) ** 2, (1 + (d / n) ** 0.5) ** 2


def extreme_eigenvalues(d: int, n: int) -> tuple[float, float]:
    """The means of the smallest nonzero and of the largest eigenvalue of a centred cloud, which lie somewhat inside the edges.

    First order in the width of the Tracy–Widom law (Johnstone 2001; Ma 2012). The smallest is NaN if d is near n, so that the edge is at 0.
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


def isotropic_isoscore(d: int, n: int) -> float:
    """IsoScore of isotropic points: (n − 2)/(n + d), from the first two moments of the spectrum; PR is about d/(1 + d/n)."""
    return (n - 2) / (n + d)


def rectified_cosine(d: int) -> float:
    """The mean cosine of two vectors of independent rectified normals: 1/π, and a little more in few dimensions."""
    return float((1 + 3 / (4 * d)) / np.pi)


@dataclass(frozen=True)
class Form:
    """A level in closed form; `slack` is its relative error as an approximation."""

    title: str
    value: Callable[[int, int], float]
    slack: Callable[[int, int], float] = lambda d, n: 0.0


FORMS: dict[str, Form] = {
    "pair_95": Form("one pair, 95 %", lambda d, n: one_pair(d)),
    "pair_sd": Form("one pair, sd", lambda d, n: d**-0.5),
    "average_sd": Form("average, sd", average_sd),
    "average_95": Form("average, 95 %", average_quantile, lambda d, n: 1 / n),
    "lower_edge": Form("lower edge", lambda d, n: spectrum_edges(d, n)[0]),
    "upper_edge": Form("upper edge", lambda d, n: spectrum_edges(d, n)[1]),
    "smallest": Form("smallest eigenvalue", lambda d, n: extreme_eigenvalues(d, n)[0], lambda d, n: 2 * _widths(d, n)[0] ** 2),
    "largest": Form("largest eigenvalue", lambda d, n: extreme_eigenvalues(d, n)[1], lambda d, n: 2 * _widths(d, n)[1] ** 2),
    "top_share": Form("top share, edge", lambda d, n: min(spectrum_edges(d, n)[1] / d, 1.0)),
    "isoscore": Form("IsoScore", isotropic_isoscore, lambda d, n: 2 / (n * d)),
    "rectified": Form("ReLU", lambda d, n: rectified_cosine(d), lambda d, n: 2 / d**2),
}
"""By name. The edges are limits; only the extreme eigenvalues at this n and d are simulated."""


@dataclass(frozen=True)
class SimulatedValue:
    """A simulated value and its standard error."""

    value: float
    error: float

    def agrees(self, form: float, slack: float = 0.0) -> bool:
        """Whether a closed form lies within the error."""
        return abs(self.value - form) <= ERRORS * self.error + slack * abs(form)


def closed_forms(d: int, n: int) -> dict[str, float]:
    """Every form at this d and n, by name."""
    return {name: form.value(d, n) for name, form in FORMS.items()}


def simulate_forms(d: int, n: int, draws: int, seed: int = 0) -> dict[str, SimulatedValue]:
    """Simulate the forms: `draws` pairs, `draws` clouds of n points, and as many spectra as a few seconds allow."""
    rng = np.random.default_rng([seed, d, n])
    plain, positive = (np.concatenate(parts) for parts in zip(*_draw_pairs(rng, d, draws), strict=True))
    averages = _draw_averages(rng, d, n, draws)
    k = min(n - 1, d)  # centring costs one degree of freedom
    spectra = isotropic_spectra(n - 1, d, int(max(8, min(draws, WORK // k**2))), seed)
    scores = (spectra.sum(1) ** 2 / (spectra**2).sum(1) - 1) / (d - 1)
    estimates = {
        "pair_95": _quantile_estimate(plain),
        "pair_sd": _sd_estimate(plain),
        "average_sd": _sd_estimate(averages),
        "average_95": _quantile_estimate(averages),
        "largest": _mean_estimate(spectra[:, 0]),
        "isoscore": _mean_estimate(scores),
        "rectified": _mean_estimate(positive),
    }
    return estimates | ({} if np.isnan(extreme_eigenvalues(d, n)[0]) else {"smallest": _mean_estimate(spectra[:, -1])})


def simulate_heads(d: int, heads: int, draws: int, seed: int = 0) -> tuple[SimulatedValue, float]:
    """How often any of `heads` pairs exceeds `head_threshold`, and how often it should: 1 − (1 − 0.05/heads)^heads."""
    rng = np.random.default_rng([seed, d, heads])
    cosines = np.concatenate([plain for plain, _ in _draw_pairs(rng, d, draws * heads)]).reshape(draws, heads)
    expected = 1 - (1 - LEVEL / heads) ** heads
    exceeding = (np.abs(cosines).max(1) > head_threshold(d, heads)).mean()
    return SimulatedValue(float(exceeding), (expected * (1 - expected) / draws) ** 0.5), expected


def simulate_two_nn(d: int, n: int, draws: int = 4, seed: int = 0) -> SimulatedValue:
    """Simulate TwoNN (maximum likelihood) for n isotropic Gaussian points: far below d if d is high. n is at most 4,096."""
    rng = np.random.default_rng([seed, d, n])
    clouds = (rng.standard_normal((n, d), dtype=np.float32) for _ in range(draws))
    return _mean_estimate(np.array([mle(neighbours(points, 2).distances).value for points in clouds]))


def isotropic_tables(dimensions: Iterable[int], n: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables as figures take them, of kind `isotropic`: the forms, and the densities as series whose `weight` is d."""
    columns = {"model": "isotropic", "kind": "isotropic", "policy": "all"}
    rows: list[dict[str, object]] = []
    points: list[dict[str, object]] = []
    for d in dimensions:
        rows += [columns | {"metric": name, "value": value, "n": n, "d": d} for name, value in closed_forms(d, n).items()]
        # The density narrows as 1/√d; 4.5 standard deviations show all of it. Both ends ±1 are left out, where it may be infinite.
        c = np.linspace(-1, 1, 161) * min(4.5 * d**-0.5, 0.999)
        density = zip(c.tolist(), pair_density(c, d).tolist(), strict=True)
        points += [columns | {"name": "cosine_density", "x": x, "y": y, "weight": d} for x, y in density]
    return make_table(rows, TABLE_COLUMNS), make_table(points, SERIES_COLUMNS)


def _draw_pairs(rng: np.random.Generator, d: int, count: int) -> Iterator[tuple[Floats, Floats]]:
    """Cosines of pairs of Gaussian vectors, and of the same vectors rectified, by blocks; a rectified vector of zeros has none."""
    for start in range(0, count, max(1, BLOCK // d)):
        x, y = rng.standard_normal((2, min(count - start, max(1, BLOCK // d)), d))
        yield _cosines(x, y), _cosines(np.maximum(x, 0), np.maximum(y, 0))


def _cosines(x: Floats, y: Floats) -> Floats:
    lengths = np.sqrt((x * x).sum(1) * (y * y).sum(1))
    return np.asarray(np.einsum("ij,ij->i", x, y)[lengths > 0] / lengths[lengths > 0])


def _draw_averages(rng: np.random.Generator, d: int, n: int, draws: int) -> Floats:
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


def _mean_estimate(values: Floats) -> SimulatedValue:
    return SimulatedValue(float(values.mean()), float(values.std(ddof=1)) / len(values) ** 0.5)


def _sd_estimate(values: Floats) -> SimulatedValue:
    """The standard deviation, whose own error depends on the fourth moment."""
    sd = float(values.std(ddof=1))
    fourth = float(((values - values.mean()) ** 4).mean()) / sd**4
    return SimulatedValue(sd, sd * (max(fourth - 1, 0.0) / 4 / len(values)) ** 0.5)


def _quantile_estimate(values: Floats, q: float = 1 - LEVEL) -> SimulatedValue:
    """A quantile; one standard error is how far it moves when q does by √(q(1−q)/draws)."""
    step = (q * (1 - q) / len(values)) ** 0.5
    low, value, high = np.quantile(values, [q - step, q, min(q + step, 1.0)])
    return SimulatedValue(float(value), float(high - low) / 2)
