"""Every metric of points once more, in float64, from its definition: slow, and sharing no code with isoscope.

A new metric is added to `brute_force`, and to the tables below if it has a unit or a value for equal points.
"""

import numpy as np
from brute_dimension import brute_dimensions, distinct
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import skew

NAN = float("nan")
LENGTHS = ("mean_norm", "drift_norm")
"""Metrics in the unit of the points."""
NO_UNIT = ("partition_isotropy",)
"""Metrics that change with the unit of the points in no simple way: exp(c·x) has a scale. All others do not depend on it."""


def pairs(u):
    """The products uᵢ·uⱼ of all ordered pairs i ≠ j; of unit vectors these are cosines."""
    return (u @ u.T)[~np.eye(len(u), dtype=bool)]


def directions(x):
    norms = np.sqrt((x * x).sum(1))
    return x[norms > 0] / norms[norms > 0, None]


def singular(x):
    return np.linalg.svd(x, compute_uv=False)


def entropy(weights):
    p = weights[weights > 0] / weights.sum()
    return float(-(p * np.log(p)).sum())


def dimension_parts(u):
    """Each dimension's part of the mean cosine, from the products of all pairs."""
    n, d = u.shape
    parts = []
    for k in range(d):
        products = np.outer(u[:, k], u[:, k])
        parts.append((products.sum() - np.trace(products)) / (n * (n - 1)))
    return np.sort(parts)[::-1]


def decay(values):
    last = min(100, len(values))
    if len(values) < 20 or values[last - 1] <= 1e-12 * values[0]:
        return NAN
    rank = np.arange(4, last + 1)
    return float(np.polyfit(-np.log(rank), np.log(values[3:last]), 1, w=np.sqrt(1 / rank))[0])


def partition(x):
    _, _, rows = np.linalg.svd(x, full_matrices=True)
    logs = [logsumexp(sign * (x @ row)) for row in rows for sign in (1, -1)]
    return float(min(logs) - max(logs))


def norm_edge(x):
    """The upper edge of the spectrum of Σr²uuᵀ, by the root of the derivative of its function, over Σr²."""
    r2 = ((x - x.mean(0)) ** 2).sum(1)
    d, top = x.shape[1], r2.max()

    def slope(mu):
        return 1 / mu**2 - ((r2 / (1 + r2 * mu)) ** 2).sum() / d

    mu = brentq(slope, -1 / top * (1 - 1e-13), -1e-12 / top, xtol=1e-18 / top, rtol=1e-14)
    return float((-1 / mu + (r2 / (1 + r2 * mu)).sum() / d) / r2.sum())


def isotropy(cosine, d):
    """One less the drift's part of the squared length, to first order in 1/d; a cosine below 0 is only scaled."""
    part = cosine + cosine / (2 * d) if cosine < 0 else cosine + (cosine - 4 * cosine**2 + 3 * cosine**3) / (2 * d)
    return 1 - part


def hubness(x, k=10):
    """The skewness of how many points have each point among their k nearest."""
    n = len(x)
    if n <= k:
        return NAN
    counts = np.zeros(n)
    for i in range(n):
        distance = np.sqrt(((x - x[i]) ** 2).sum(1))
        distance[i] = np.inf
        order = np.argsort(distance, kind="stable")
        if distance[order[k]] <= distance[order[k - 1]] * (1 + 1e-12):
            return None  # two points are the tenth: either may be counted
        counts[order[:k]] += 1
    return float(skew(counts)) if counts.std() > 0 else 0.0


def corrected(y):
    """(tr Σ)²/tr(Σ²) of centred rows, each an item, with the sums over pairs, triples and quadruples of different rows."""
    n, d = y.shape
    gram = y @ y.T
    lengths = np.diag(gram)
    second = (gram**2).sum() - (lengths**2).sum()
    third = 2 * (lengths**2).sum() - (gram**2).sum()  # the sums of a triple's ends over all rows are 0
    squared = (second - 2 * third / n + lengths.sum() ** 2 / n**2) / (n * (n - 1))
    return np.clip((lengths.sum() / (n - 1)) ** 2 / squared, 1.0, d) if n >= 4 and squared > 0 else NAN


def equal_points(x):
    """Name → value if all points x (n, d) are equal, None for any value; metrics that are not here are NaN with a note."""
    length = np.linalg.norm(x[0])
    line = np.eye(1, min(x.shape))[0] + 1e-7  # singular values of equal points, as RankMe takes them
    known = {"mean_cosine": 1, "between_cosine": 1, "cosine_sd": 0, "mean_norm": length, "drift_norm": length, "drift_ratio": 1}
    known |= {"isotropy_score": 0, "stable_rank": 1, "rankme": np.exp(-(line * np.log(line)).sum())}
    return known | dict.fromkeys(("top_dimension_share", "top3_dimension_share", "partition_isotropy"))


def brute_force(x):
    """Name → value for the points x (n, d), each row an item of its own."""
    x = np.asarray(x, dtype=np.float64)
    n, d = x.shape
    u, seen = directions(x), x.astype(np.float64)
    norms = np.sqrt((x * x).sum(1))
    cosines, size = pairs(u), min(n - 1, d)
    mean = x.mean(0)
    sigma = singular(x - mean)[:size]
    variances, whole = sigma**2 / (n - 1), singular(x)
    ratio = variances.sum() ** 2 / (variances**2).sum()
    parts = dimension_parts(u)
    p = whole / whole.sum() + 1e-7
    return {
        "mean_cosine": cosines.mean(),
        "cosine_sd": cosines.std(),
        "between_cosine": cosines.mean(),
        "within_cosine": NAN,
        "mean_norm": norms.mean(),
        "drift_norm": np.sqrt(max(pairs(x).mean(), 0.0)),
        "drift_ratio": max(pairs(x).mean(), 0.0) / (norms**2).mean(),
        "centred_cosine": pairs(directions(seen - seen.mean(0))).mean(),
        "isotropy_score": isotropy(cosines.mean(), d),
        "top_share": variances[0] / variances.sum(),
        "top_share_linear": sigma[0] / sigma.sum(),
        "top_share_norm_null": min(norm_edge(seen), 1.0),
        "effective_rank": np.exp(entropy(sigma)),
        "rankme": np.exp(-(p * np.log(p)).sum()),
        "matrix_entropy": entropy(variances),
        "participation_ratio": ratio,
        "participation_ratio_corrected": corrected(x - mean),
        "isoscore": (ratio - 1) / (d - 1),
        "stable_rank": (x * x).sum() / whole[0] ** 2,
        "spectral_decay": decay(variances),
        "partition_isotropy": partition(seen),
        "top_dimension_share": parts[0] / parts.sum(),
        "top3_dimension_share": parts[:3].sum() / parts.sum(),
        "hubness": hubness(distinct(seen)),
    } | brute_dimensions(seen)
