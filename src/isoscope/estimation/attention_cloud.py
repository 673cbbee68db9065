"""The rows of attention of one head under one token policy: the input of every metric of attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from isoscope.core import site as slices
from isoscope.core.numerics import Floats
from isoscope.estimation.cloud import Cloud
from isoscope.statistics.attention_statistics import ROW_SUMS, SEQUENCE_SUMS, AttentionStatistics
from isoscope.statistics.jackknife_groups import PRODUCTS, Groups
from isoscope.statistics.site_statistics import SiteStatistics

ATTENTION_PARTS = ("attention", "medians", "scores", "queries_keys")
"""What a metric may read of attention: sums over rows; medians of rows; a histogram of scores; the queries and keys behind them."""


@dataclass
class AttentionCloud:
    """The rows of attention of one head under one policy, as the statistics know them: what a metric of attention is a function of."""

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
        """The rows of a head, or of all heads together, under a token policy; None if it leaves no row.

        Args:
            statistics: what was measured of the rows.
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
        pair = None if queries is None or keys is None else (Cloud.of(queries, policy), Cloud.of(keys, policy))
        both = None if pair is None or pair[0] is None or pair[1] is None else (pair[0], pair[1])
        return cls(statistics.e, sums, statistics.sequences[heads].sum(0), statistics.median, histogram, both, statistics.scale)

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

    def of_rows(self, estimate: Callable[[dict[str, Floats]], Floats], bounds: tuple[float, float]) -> tuple[float, float, float]:
        """A function of the sums over rows, by name: its value and its 95 % interval, by the jackknife over groups of items."""
        return _jackknife(self.sums, self.sums[:, 0], lambda total: estimate(_named(ROW_SUMS, total)), bounds)

    def of_sequences(self, estimate: Callable[[dict[str, Floats]], Floats], bounds: tuple[float, float]) -> tuple[float, float, float]:
        """A function of the sums over sequences."""
        return _jackknife(self.sequences, self.sequences[:, 1], lambda total: estimate(_named(SEQUENCE_SUMS, total)), bounds)

    def of_means(self, estimate: Callable[[Floats, Floats], Floats], bounds: tuple[float, float]) -> tuple[float, float, float]:
        """A function of the mean query and the mean key."""
        sides = [side.groups for side in (self.queries, self.keys)]
        means = self.queries.moments.mean, self.keys.moments.mean
        value = float(estimate(*means))
        if sides[0] is None or sides[1] is None:
            return value, np.nan, np.nan
        columns = np.concatenate([np.column_stack([side.counts[0, 0], side.sums[0, 0]]) for side in sides if side is not None], axis=1)

        def of(total: Floats) -> Floats:
            q, k = total[..., : 1 + self.d], total[..., 1 + self.d :]
            return estimate(q[..., 1:] / q[..., :1], k[..., 1:] / k[..., :1])

        _, low, high = _jackknife(columns, sides[0].counts[0, 0], of, bounds)
        return value, low, high


def _named(names: tuple[str, ...], total: Floats) -> dict[str, Floats]:
    return dict(zip(names, np.moveaxis(total, -1, 0), strict=True))


def _jackknife(
    sums: Floats, sizes: Floats, estimate: Callable[[Floats], Floats], bounds: tuple[float, float]
) -> tuple[float, float, float]:
    """A function of sums over groups (groups, sums), and its interval within bounds."""
    groups = Groups(sums.shape[1])
    groups.counts, groups.sums = np.zeros((4, 1, len(sums))), np.zeros((2, 1, *sums.shape))
    groups.products = np.zeros((PRODUCTS, len(sums), 1, 1))
    groups.counts[0, 0], groups.sums[0, 0] = sizes, sums
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(estimate(sums.sum(0)))
        low, high = groups.interval(lambda t: estimate(t.total))
    return value, max(low, bounds[0]), min(high, bounds[1])
