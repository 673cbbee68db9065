"""Clouds that break searches for neighbours: doubled, shifted, stretched, clustered, and of every precision."""

import numpy as np


def cloud(n: int = 1300, d: int = 48, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)


def tripled() -> np.ndarray:
    x = cloud()
    return np.random.default_rng(1).permutation(np.concatenate([x, x[:130], x[:130]]))


def near_duplicates() -> np.ndarray:
    x = cloud(700)
    return np.concatenate([x, x + np.float32(1e-4) * cloud(700, seed=1)])


def tight_clusters() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.float32(10) * cloud(5, seed=2)[rng.integers(5, size=1100)] + np.float32(1e-3) * cloud(1100)


def stretched() -> np.ndarray:
    x = cloud()
    x[:, [3, 17]] *= 100
    return x


def sinks() -> np.ndarray:
    x = cloud()
    x[::100] *= 1000
    return x


def far_sinks() -> np.ndarray:
    """Points of enormous length that lie close together, and all to one side."""
    x = cloud()
    x[::60] = np.float32(1e6) + x[::60]
    return x


CLOUDS = {
    "clean": cloud,
    "one dimension": lambda: cloud(d=1),
    "wide": lambda: cloud(60, 300),
    "float64": lambda: cloud().astype(np.float64) + 1e-9 * cloud(seed=1),
    "float16": lambda: cloud().astype(np.float16),
    "columns first": lambda: np.asfortranarray(cloud()),
    "offset 30": lambda: cloud() + np.float32(30),
    "offset 300": lambda: cloud() + np.float32(300),
    "offset 3000": lambda: cloud() + np.float32(3000),
    "float64 offset 1e9": lambda: cloud().astype(np.float64) + 1e9,
    "tripled": tripled,
    "all twice": lambda: np.repeat(cloud(600), 2, axis=0),
    "near duplicates": near_duplicates,
    "tight clusters": tight_clusters,
    "two dimensions stretched": stretched,
    "sinks": sinks,
    "far sinks": far_sinks,
    "huge": lambda: cloud() * np.float32(1e18),
    "tiny": lambda: cloud() * np.float32(1e-18),
    "below normal numbers": lambda: cloud() * np.float32(1e-39),
    "a grid": lambda: np.stack(np.meshgrid(*[np.arange(6)] * 4), -1).reshape(-1, 4).astype(np.float32),
    "integers": lambda: np.random.default_rng(0).integers(-2, 3, (900, 12)),
    "at zero": lambda: np.concatenate([np.zeros((1, 48), np.float32), cloud(600) * np.float32(1e-30), cloud(600)]),
}
