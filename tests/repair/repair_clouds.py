"""Clouds that go wrong in the ways that embeddings do."""

from __future__ import annotations

import numpy as np

from isoscope.core.site import Site
from isoscope.repair import AllButTheTop, Centre, CentreClusters, LinearRepair, Standardise, Whiten
from isoscope.statistics.site_statistics import Moments, SiteStatistics


def anisotropic(n: int = 400, d: int = 12, offset: float = 5.0, seed: int = 0) -> np.ndarray:
    """Correlated dimensions, sd from 3 down to 0.3, away from the origin; float64."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return rng.normal(size=(n, d)) * np.geomspace(3, 0.3, d) @ turn + offset


def moments_of(*shards: np.ndarray) -> Moments:
    """The merged moments of shards."""
    merged = Moments(shards[0].shape[1])
    for shard in shards:
        part = Moments(shard.shape[1])
        part.update(shard)
        merged = merged.merge(part)
    return merged


class OpenRun:
    """The least that `from_run` asks of a run: encoder layers 0 and 1 and decoder layer 1, in three slices."""

    def __init__(self, d: int = 6) -> None:
        self.asked: list[str | None] = []
        self.points: dict[Site, dict[str, np.ndarray]] = {}
        self.sites: dict[Site, SiteStatistics] = {}
        labels = ("encoder.hidden.0", "encoder.hidden.1", "decoder.hidden.1", "decoder.final", "encoder.hidden.7")
        for seed, site in enumerate(map(Site.parse, labels)):
            counts = {"special": 10, "first": 5, "body": 100} if site.layer != 7 else {"special": 10, "first": 0, "body": 0}
            self.points[site] = {name: anisotropic(n, d, offset=seed + 1, seed=10 * seed + n) for name, n in counts.items()}
            self.sites[site] = SiteStatistics(d, list(counts), sample=0)
            for moments, points in zip(self.sites[site].moments, self.points[site].values(), strict=True):
                if len(points):
                    moments.update(points)

    def statistics(self, model: str | None = None) -> dict[Site, SiteStatistics]:
        """The statistics, whichever model is asked for; which one was is kept."""
        self.asked.append(model)
        return self.sites


REPAIRS = [
    Centre(),
    Standardise(),
    AllButTheTop(k=0),
    AllButTheTop(k=3),
    Whiten(),
    Whiten(n_components=4, ridge=0.1),
    Whiten("zca"),
    Whiten("zca", n_components=4),
    Whiten("zca", ridge=0.1),
    CentreClusters(k=3),
    CentreClusters(k=3, directions=2),
]
"""Every repair, and every form of its map."""
LINEAR = [repair for repair in REPAIRS if isinstance(repair, LinearRepair)]


def two_balls(n: int = 300, offset: float = 5.0) -> np.ndarray:
    """Anisotropic points of which every second lies far from the others, and a constant dimension; float64."""
    X = anisotropic(n, offset=offset)
    X[::2, 0] += 40
    X[:, 7] = 3.0
    return X
