"""Small random clouds on which extensions are checked: points, attention and stacks."""

from __future__ import annotations

import numpy as np

from isoscope.core.site import POINTS
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.matrix_cloud import cloud_of
from isoscope.estimation.site_clouds import AttentionCloud
from isoscope.statistics.attention_statistics import AttentionStatistics, score_counts
from isoscope.statistics.jackknife_groups import GROUPS

N, D = 240, 24
"""The size of the clouds that a check measures."""


def random_clouds(seed: int = 0) -> dict[str, np.ndarray]:
    """Five matrices (n, d) of different shape, by name: isotropic, drifting, dominated by one direction, heavy norms, duplicates.

    >>> sorted(random_clouds()), random_clouds()["isotropic"].shape
    (['dominated', 'drifting', 'duplicates', 'heavy norms', 'isotropic'], (240, 24))
    """
    rng = np.random.default_rng(seed)
    base = rng.standard_normal((N, D))
    repeated = rng.standard_normal((N, D)) + 0.5
    repeated[: N // 5] = repeated[N // 5 : 2 * (N // 5)]
    return {
        "isotropic": base,
        "drifting": rng.standard_normal((N, D)) + 100,
        "dominated": rng.standard_normal((N, D)) * np.where(np.arange(D) == 3, 50.0, 1.0),
        "heavy norms": rng.standard_normal((N, D)) * rng.lognormal(0, 1.5, (N, 1)) + 0.2,
        "duplicates": repeated,
    }


def random_attention(seed: int = 0) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Queries and keys (sequences, positions, d) of different shape, by name: isotropic, drifting, sharp, with a sink, all equal.

    >>> sorted(random_attention()), random_attention()["sharp"][0].shape
    (['drifting', 'equal', 'isotropic', 'sharp', 'sink'], (20, 12, 24))
    """
    rng = np.random.default_rng(seed)
    shape = (N // 12, 12, D)
    query, key = rng.standard_normal((2, *shape))
    towards = key.copy()
    towards[:, 0] = 30.0
    return {
        "isotropic": (query, key),
        "drifting": (query + 5, key - 5),
        "sharp": (40 * query, key),
        "sink": (query + 1, towards),
        "equal": (np.ones(shape), np.ones(shape)),
    }


def attention_cloud(query: np.ndarray, key: np.ndarray) -> AttentionCloud:
    """The causal attention of queries and keys (sequences, positions, d), a head's, written out: softmax of q·k/√d."""
    b, t, d = query.shape
    scores = np.einsum("bte,bse->bts", query, key)[:, None] / d**0.5
    seen = np.broadcast_to(np.tri(t, dtype=bool), scores.shape)
    count = seen.sum(-1)
    p = np.exp(np.where(seen, scores, -np.inf) - np.where(seen, scores, -np.inf).max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    mean = np.where(seen, scores, 0).sum(-1) / count
    rows = {
        "open": count,
        "entropy": -(p * np.log(np.where(p > 0, p, 1))).sum(-1),
        "maximum": p.max(-1),
        "minimum": np.where(seen, p, 1).min(-1),
        "median": np.nanmedian(np.where(seen, p, np.nan), axis=-1),
        "mean": mean,
        "sd": np.sqrt((np.where(seen, scores - mean[..., None], 0) ** 2).sum(-1) / count),
        "first": p[..., 0],
        "sees_first": seen[..., 0],
        "received": p.sum(2),
    }
    statistics = AttentionStatistics(1, d, [POINTS], scale=d**-0.5, median=True, histogram=True)
    # The group of a sequence comes from its own numbers, so that it keeps it in another order.
    statistics.update(rows, np.zeros((b, t), dtype=np.int16), (np.abs(query[:, 0, 0]) * 1e6).astype(np.int64) % GROUPS)
    statistics.count(score_counts(scores[seen])[None])
    cloud = AttentionCloud.of(statistics, "all")
    assert cloud is not None
    cloud.pair = cloud_of(query.reshape(-1, d)), cloud_of(key.reshape(-1, d))
    return cloud


def random_stack(blocks: int, seed: int = 0) -> dict[int, Cloud]:
    """The clouds of a stack by layer, from 0 to `blocks`: one direction grows and shrinks again, over noise that the layers share.

    >>> sorted(random_stack(6))
    [0, 1, 2, 3, 4, 5, 6]
    """
    rng = np.random.default_rng(seed)
    base = rng.standard_normal((N, D))
    height = 1 + 4 * np.sin(np.pi * np.arange(blocks + 1) / blocks)
    return {layer: cloud_of(base * np.where(np.arange(D) == 3, height[layer], 1.0)) for layer in range(blocks + 1)}
