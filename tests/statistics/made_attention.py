"""Statistics of rows of attention, made up as the kernel gives them."""

import numpy as np

from isoscope.statistics.attention_statistics import EDGES, AttentionStatistics

NAMES = ["special", "first", "body"]
B, H, T, S = 5, 3, 11, 13


def batch(b=B, seed=0):
    """Rows as the kernel gives them, made up; codes with padding; groups."""
    rng = np.random.default_rng(seed)
    count = rng.integers(1, S + 1, (b, H, T))
    rows = {name: rng.random((b, H, T)) for name in ("entropy", "maximum", "minimum", "median", "sd", "first")}
    rows |= {"open": count, "mean": rng.standard_normal((b, H, T)) * 3, "received": rng.random((b, H, S)) * 6}
    rows["sees_first"] = rng.random((b, H, T)) < 0.7
    codes = rng.integers(-1, 3, (b, T)).astype(np.int16)
    codes[:, 0] = 2
    padding = np.broadcast_to((codes < 0)[:, None], count.shape)
    for name in ("entropy", "maximum", "minimum", "median", "mean", "sd", "first"):
        rows[name][padding] = np.nan
    rows["open"][padding] = 0
    return rows, codes, rng.integers(0, 64, b)


def filled(*seeds, **made):
    statistics = AttentionStatistics(H, 8, NAMES, scale=0.5, median=True, histogram=True)
    for seed in seeds:
        assert statistics.update(*batch(seed=seed, **made)) == 0
        statistics.count(counts(seed))
    return statistics


def counts(seed):
    return np.random.default_rng(seed).integers(0, 9, (H, len(EDGES) - 1))
