"""The estimators of intrinsic dimension once more, from all pairs of distances in float64, sharing no code with isoscope."""

import numpy as np
from scipy.optimize import minimize_scalar

NAN = float("nan")


def sorted_distances(x):
    """(n, n − 1) the distances of each point to all others, in order, by direct differences."""
    x = np.asarray(x, dtype=np.float64)
    out = np.empty((len(x), len(x) - 1))
    for i, row in enumerate(x):
        out[i] = np.sort(np.sqrt(((np.delete(x, i, axis=0) - row) ** 2).sum(1)))
    return out


def distinct(x):
    return np.unique(np.asarray(x, dtype=np.float64), axis=0)


def facco(r):
    mu = np.sort(r[:, 1] / r[:, 0])
    n, keep = len(mu), int(len(mu) * 0.9)
    x, y = np.log(mu[:keep]), -np.log(1 - np.arange(1, keep + 1) / n)
    return (x * y).sum() / (x * x).sum()


def razzhigaev(x):
    """The authors' procedure, step by step, in float64 throughout."""
    x = np.asarray(x, dtype=np.float64)
    x = x - x.mean(0)
    x = x / np.sqrt((x * x).sum(1)).mean()
    r = sorted_distances(x)
    near, far = r[:, 0], r[:, 1]
    mu = np.array([-1.0 if a < 1e-8 else b / a for a, b in zip(near, far, strict=True)])
    mu.sort()
    useless = int((mu <= 1 + 1e-8).sum())
    mu = mu[useless:]
    left = len(mu)
    f = np.arange(1 + useless, left + 1 + useless) / (left + useless)
    dots = min(left // 5, left - 1)
    if dots < 1:
        return NAN
    a, b = np.log(mu)[:dots], -np.log(1 - f[:dots])
    return (a * b).sum() / (a * a).sum()


def mle(r):
    return (len(r) - 1) / np.log(r[:, 1] / r[:, 0]).sum()


def gride(r, m):
    """The maximum of the likelihood itself, its factor d^n taken as d^(n − 1)."""
    logs = np.log(r[:, 2 * m - 1] / r[:, m - 1])
    logs = logs[logs > 0]

    def minus(log_d):
        d = np.exp(log_d)
        return -((len(logs) - 1) * log_d + (m - 1) * np.log(np.expm1(d * logs)).sum() - (2 * m - 1) * d * logs.sum()) / len(logs)

    guess = np.log(sum(1 / j for j in range(m, 2 * m)) / logs.mean())
    return float(np.exp(minimize_scalar(minus, bracket=(guess - 0.3, guess + 0.3), tol=1e-12).x))


def levina_bickel(r, k=20):
    local = np.array([(k - 1) / np.log(row[k - 1] / row[: k - 1]).sum() for row in r])
    return 1 / (1 / local).mean()


def brute_dimensions(x):
    """Name → value for the points x (n, d), in the precision that they have."""
    seen = np.asarray(x).astype(np.float64)
    points = distinct(seen)
    names = ("two_nn", "two_nn_razzhigaev", "two_nn_mle", "two_nn_batches", "gride", "levina_bickel")
    if len(points) < 10:
        return dict.fromkeys(names, NAN)
    r, theirs = sorted_distances(points), razzhigaev(seen)
    wide, wider = (gride(r, 8) if len(points) > 16 else NAN), (levina_bickel(r) if len(points) > 20 else NAN)
    return dict(zip(names, (facco(r), theirs, mle(r), theirs, wide, wider), strict=True))
