"""The clouds of each site: rows of attention, which metrics of attention read, and every cloud of a measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from isoscope.core import site as slices
from isoscope.core.numerics import Floats
from isoscope.core.site import Site
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.resampled_neighbours import SharedSearch
from isoscope.statistics.any_statistics import Statistics
from isoscope.statistics.attention_statistics import ROW_SUMS, SEQUENCE_SUMS, AttentionStatistics
from isoscope.statistics.head_statistics import Heads
from isoscope.statistics.jackknife_groups import PRODUCTS, Groups
from isoscope.statistics.site_statistics import SiteStatistics

ATTENTION_PARTS = ("attention", "medians", "scores", "queries_keys")
"""The parts of attention a metric may read: sums over rows; medians of rows; a histogram of scores; the queries and keys behind them."""

ByName = Callable[[dict[str, Floats]], Floats]
"""A function of sums, which it gets by name."""
Bounds = tuple[float, float]


@dataclass
class AttentionCloud:
    """The rows of attention of one head under one policy, as the statistics know them: the input of every metric of attention."""

    d: int
    """The head's dimensions."""
    sums: Floats
    """(groups, row sums)"""
    sequences: Floats
    """(groups, sequence sums)"""
    median: bool = False
    histogram: np.ndarray | None = None
    pair: tuple[Cloud, Cloud] | None = None
    """The queries and the keys behind the scores."""
    scale: float = 1.0

    @classmethod
    def of(
        cls,
        statistics: AttentionStatistics,
        policy: str,
        head: int | None = None,
        *,
        queries: SiteStatistics | None = None,
        keys: SiteStatistics | None = None,
    ) -> AttentionCloud | None:
        """Return the rows of a head, or of all heads together, under a token policy; None if it leaves no row.

        Args:
            statistics: the sums over the rows of this site.
            policy: which slices. Numbers about whole sequences always use all rows.
            head: which head; all if None.
            queries: the statistics of this head's queries.
            keys: the statistics of the keys that it looks at.
        """
        chosen = [statistics.names.index(name) for name in slices.slices_of_policy(policy, statistics.names)]
        heads: slice | list[int] = slice(None) if head is None else [head]
        sums = statistics.sums[heads][:, chosen].sum((0, 1))
        if not sums[:, 0].any():
            return None
        histogram = None if statistics.histogram is None else statistics.histogram[heads].sum(0)
        query_cloud = None if queries is None else Cloud.of(queries, policy)
        key_cloud = None if keys is None else Cloud.of(keys, policy)
        pair = None if query_cloud is None or key_cloud is None else (query_cloud, key_cloud)
        return cls(statistics.e, sums, statistics.sequences[heads].sum(0), statistics.median, histogram, pair, statistics.scale)

    @property
    def n(self) -> int:
        """Rows counted."""
        return round(float(self.sums[:, 0].sum()))

    def has(self, part: str) -> bool:
        """Whether this part of `ATTENTION_PARTS` was kept."""
        kept = {"attention": True, "medians": self.median, "scores": self.histogram is not None, "queries_keys": self.pair is not None}
        return kept.get(part, False)

    def total(self, name: str) -> float:
        """A sum over rows."""
        return float(self.sums[:, ROW_SUMS.index(name)].sum())

    def mean(self, name: str) -> float:
        """A mean over rows."""
        return self.total(name) / self.n

    @property
    def queries(self) -> Cloud:
        """The queries of this head."""
        assert self.pair is not None
        return self.pair[0]

    @property
    def keys(self) -> Cloud:
        """The keys that this head looks at."""
        assert self.pair is not None
        return self.pair[1]

    def rows_estimate(self, estimate: ByName, bounds: Bounds) -> tuple[float, float, float]:
        """Return a function of the sums over rows: its value and its 95 % interval, by the jackknife over groups of items."""
        return _jackknife(self.sums, self.sums[:, 0], lambda total: estimate(_by_name(ROW_SUMS, total)), bounds)

    def sequences_estimate(
        self, estimate: Callable[[dict[str, Floats]], Floats], bounds: tuple[float, float]
    ) -> tuple[float, float, float]:
        """Return a function of the sums over sequences, with its interval."""
        return _jackknife(self.sequences, self.sequences[:, 1], lambda total: estimate(_by_name(SEQUENCE_SUMS, total)), bounds)

    def means_estimate(self, estimate: Callable[[Floats, Floats], Floats], bounds: Bounds) -> tuple[float, float, float]:
        """Return a function of the mean query and the mean key, with its interval."""
        sides = [side.groups for side in (self.queries, self.keys)]
        means = self.queries.moments.mean, self.keys.moments.mean
        value = float(estimate(*means))
        if sides[0] is None or sides[1] is None:
            return value, np.nan, np.nan
        # Queries and keys come from the same items, so each group is left out of both at once: their common movement cancels in a cosine.
        columns = np.concatenate([np.column_stack([side.counts[0, 0], side.sums[0, 0]]) for side in sides if side is not None], axis=1)

        def of(total: Floats) -> Floats:
            q, k = total[..., : 1 + self.d], total[..., 1 + self.d :]
            return estimate(q[..., 1:] / q[..., :1], k[..., 1:] / k[..., :1])

        _, low, high = _jackknife(columns, sides[0].counts[0, 0], of, bounds)
        return value, low, high


def _by_name(names: tuple[str, ...], total: Floats) -> dict[str, Floats]:
    return dict(zip(names, np.moveaxis(total, -1, 0), strict=True))


def _jackknife(sums: Floats, sizes: Floats, estimate: Callable[[Floats], Floats], bounds: Bounds) -> tuple[float, float, float]:
    """Return a function of sums over groups (groups, sums), and its interval within bounds."""
    # `Groups` knows the jackknife, and its Σx serves for any sum: the other parts stay empty, and `estimate` reads only the total.
    groups = Groups(sums.shape[1])
    groups.counts, groups.sums = np.zeros((4, 1, len(sums))), np.zeros((2, 1, *sums.shape))
    groups.products = np.zeros((PRODUCTS, len(sums), 1, 1))
    groups.counts[0, 0], groups.sums[0, 0] = sizes, sums
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(estimate(sums.sum(0)))
        low, high = groups.interval(lambda t: estimate(t.total))
    return value, max(low, bounds[0]), min(high, bounds[1])


class Clouds:
    """The clouds of every site under any policy; neighbours are searched for once per site, and the statistics of heads are split once."""

    def __init__(self, sites: Statistics) -> None:
        self.sites = sites
        self._search: tuple[Site, SharedSearch] | None = None
        self._split: tuple[tuple[Site, ...], dict[Site, list[SiteStatistics]]] = ((), {})

    def of(self, site: Site, policy: str) -> Iterator[tuple[int | None, Cloud | AttentionCloud]]:
        """Yield each cloud with its head, None if the site has no heads; for attention, first the cloud of all heads together."""
        statistics = self.sites[site]
        clouds: list[tuple[int | None, Cloud | AttentionCloud | None]]
        if isinstance(statistics, SiteStatistics):
            clouds = [(site.head, Cloud.of(statistics, policy, self._shared_search(site, statistics)))]
        elif isinstance(statistics, Heads):
            clouds = [(j, Cloud.of(head, policy)) for j, head in enumerate(self._split_heads(site)[site])]
        else:
            queries, keys = self._queries_and_keys(site)
            clouds = [(None, AttentionCloud.of(statistics, policy))]
            for j in range(statistics.h):
                # With grouped queries, several query heads look at one key head.
                pair = (queries[j], keys[j * len(keys) // statistics.h]) if queries and keys else (None, None)
                clouds.append((j, AttentionCloud.of(statistics, policy, j, queries=pair[0], keys=pair[1])))
        return ((head, cloud) for head, cloud in clouds if cloud is not None)

    def _shared_search(self, site: Site, statistics: SiteStatistics) -> SharedSearch | None:
        """Return the search among the points of a site. Only that of the last site is held."""
        if statistics.sample is None:
            return None
        if self._search is None or self._search[0] != site:
            self._search = site, SharedSearch(statistics.sample.points)
        return self._search[1]

    def _queries_and_keys(self, site: Site) -> tuple[list[SiteStatistics], list[SiteStatistics]]:
        """Return the queries and keys of each head behind rows of attention; empty if they were not kept."""
        before = {"attention": "", "cross_attention": "cross_"}.get(site.kind)
        if before is None:
            return [], []
        query, key = (Site(site.stack, before + kind, site.layer) for kind in ("query", "key"))
        split = self._split_heads(query, key)
        return split.get(query, []), split.get(key, [])

    def _split_heads(self, *sites: Site) -> dict[Site, list[SiteStatistics]]:
        """Return the statistics of each head of these sites. Only the last result is held: a split copies everything."""
        if self._split[0] != sites:
            self._split = sites, {site: heads.split() for site in sites if isinstance(heads := self.sites.get(site), Heads)}
        return self._split[1]
