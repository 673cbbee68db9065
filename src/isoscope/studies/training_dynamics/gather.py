"""One walk over the statistics of a suite's checkpoints: what the dynamics need of each is taken, and the rest is let go."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from isoscope.core import site as slices
from isoscope.core.errors import IsoscopeError
from isoscope.core.number import Number
from isoscope.core.site import Site
from isoscope.estimation.attention_cloud import AttentionCloud
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.metric import Metric
from isoscope.metrics import registry
from isoscope.runs.stored_cell import Cell
from isoscope.statistics.any_statistics import Kept, Layout, Statistics, layout_of
from isoscope.statistics.attention_statistics import ROW_SUMS, SEQUENCE_SUMS
from isoscope.statistics.head_statistics import Heads
from isoscope.statistics.jackknife_groups import PRODUCTS, Groups
from isoscope.statistics.moments import Moments
from isoscope.statistics.site_statistics import SiteStatistics
from isoscope.studies.training_dynamics.common_basis import HeadSums
from isoscope.studies.training_dynamics.rise_and_fall import POINTS, Levels, halves, levels
from isoscope.studies.training_dynamics.suite_measures import Gathered, Head, MeasuredSuite, Place, extreme_heads

CLOUD = 64
"""Points of a cloud that are kept a step."""


def gather(suite: MeasuredSuite, cells: Sequence[Cell], rows: pd.DataFrame) -> Gathered:
    """Means, sums over steps, a few points of the chosen heads, and intrinsic dimensions of halves, cell by cell."""
    walk = Walk(suite, [head for head in extreme_heads(suite, rows) if head is not None])
    layouts: dict[Site, Layout] = {}
    for (seed, step), cell in zip(suite.checkpoints, cells, strict=True):
        if cell.has_statistics:
            sites = cell.statistics()
            check_layouts(sites, layouts, walk.chosen, cell)
            walk.visit(seed, step, sites)
    return walk.found


def check_layouts(sites: Statistics, layouts: dict[Site, Layout], chosen: list[Head], cell: Cell) -> None:
    """Refuse a checkpoint whose sites are not those of the others, or of the rows: the cells may come from different models.

    `layouts` are those of the checkpoints before, and get those of this one.
    """
    again = f"delete {cell.folder} and measure it again."
    for site, kept in sites.items():
        if layouts.setdefault(site, layout_of(kept)) != layout_of(kept):
            raise IsoscopeError(f"{site.label} has other widths, heads or slices in {cell.folder} than at earlier steps; {again}")
    for place, head in chosen:
        queries = sites.get(Site(place.stack, "query", place.layer))
        if isinstance(queries, Heads) and head >= queries.h:
            raise IsoscopeError(f"Rows speak of head {head} of layer {place.layer}, and {cell.folder} has {queries.h} heads; {again}")


@dataclass
class Walk:
    """What was gathered so far."""

    suite: MeasuredSuite
    chosen: list[Head]
    found: Gathered = field(default_factory=Gathered)

    def visit(self, seed: int | None, step: int, sites: Statistics) -> None:
        """Take what is needed of one checkpoint."""
        for site, queries in sites.items():
            keys = sites.get(Site(site.stack, "key", site.layer))
            if site.kind == "query" and isinstance(queries, Heads) and isinstance(keys, Heads) and queries.e == keys.e:
                self._heads(seed, step, Place(site.stack, site.layer or 0), queries, keys)
        if len(self.suite.steps_of(seed)) >= 3:
            self._dimensions(seed, step, sites)

    def _heads(self, seed: int | None, step: int, place: Place, queries: Heads, keys: Heads) -> None:
        both = [HeadSums.of(heads, self._slices(heads)) for heads in (queries, keys)]
        if not both[0].n or not both[1].n:
            return
        shared = np.arange(queries.h) * keys.h // queries.h  # the key that each query looks at
        both[1] = both[1].at(shared)
        before = self.found.sums.get((seed, place))
        self.found.sums[seed, place] = (both[0], both[1]) if before is None else (before[0] + both[0], before[1] + both[1])
        self.found.means.setdefault(place, {})[seed, step] = both[0].mean, both[1].mean
        self.found.joined[place, seed, step] = joined_cosine(queries, keys, self._slices(queries), shared)
        for head in self.chosen if seed == self.suite.main else []:
            if head.place == place:
                pair = self._drawn(queries, head.head), self._drawn(keys, int(shared[head.head]))
                if pair[0] is not None and pair[1] is not None:
                    self.found.clouds[head, step] = pair[0], pair[1]

    def _slices(self, kept: Kept) -> list[int]:
        return [kept.names.index(name) for name in slices.slices_of_policy(self.suite.policy, kept.names)]

    def _drawn(self, heads: Heads, j: int) -> np.ndarray | None:
        """(m, e) the first points of a head's sample."""
        if heads.sample is None:
            return None
        among = np.flatnonzero(np.isin(heads.sample.slice, self._slices(heads)))[:CLOUD]
        return np.asarray(heads.sample.points[among, j * heads.e : (j + 1) * heads.e], dtype=np.float64)

    def _dimensions(self, seed: int | None, step: int, sites: Statistics) -> None:
        layers = {Place(site.stack, site.layer or 0): kept for site, kept in sites.items() if site.kind == "hidden"}
        clouds = {place: Cloud.of(kept, self.suite.policy) for place, kept in layers.items() if isinstance(kept, SiteStatistics)}
        samples = {place: cloud.sample for place, cloud in clouds.items() if cloud is not None and cloud.sample is not None}
        if not samples:
            return
        self.found.points = self.found.points or min(POINTS, *(len(half) for sample in samples.values() for half in halves(sample)))

        def found(place: Place) -> Levels:
            cloud = clouds[place]
            second = cloud.moments.second if cloud is not None and cloud.n > 1 else None
            return levels(samples[place], self.found.points, None if second is None else second.covariance)

        with ThreadPoolExecutor(min(os.cpu_count() or 1, len(samples))) as pool:
            for place, one in zip(samples, pool.map(found, samples), strict=True):
                self.found.levels.setdefault(place, {})[seed, step] = one


def joined_cosine(queries: Heads, keys: Heads, chosen: list[int], shared: np.ndarray) -> Number:
    """cos(Q̄, K̄) with the heads of a layer side by side, as one long vector."""
    pair = _side(queries, chosen, np.arange(queries.h)), _side(keys, chosen, shared)
    sums = np.zeros((1, len(ROW_SUMS)))
    sums[0, 0] = pair[0].n
    metric = registry["qk_cosine"]
    assert isinstance(metric, Metric)
    return metric(AttentionCloud(pair[0].d, sums, np.zeros((1, len(SEQUENCE_SUMS))), pair=pair))


def _side(heads: Heads, chosen: list[int], order: np.ndarray) -> Cloud:
    """The sums of a layer's heads, one after the other, as those of one point."""
    counts, sums = heads.counts[:, chosen].sum(1), heads.sums[:, chosen].sum(1)[:, :, order]
    d = len(order) * heads.e
    moments, groups = Moments(d, second=False), Groups(d)
    moments.n, moments.total = round(float(counts[0, :, 0].sum())), sums[0].sum(0).reshape(d)
    groups.count = counts.shape[1]
    groups.counts, groups.sums = counts[:, None, :, 0], sums.reshape(2, 1, groups.count, d)
    groups.products = np.zeros((PRODUCTS, groups.count, 1, 1))
    return Cloud(moments, groups)
