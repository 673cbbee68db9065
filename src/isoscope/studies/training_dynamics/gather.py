"""Walk once over the statistics of a suite's checkpoints, and keep what the dynamics need of each."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from isoscope.core import site as slices
from isoscope.core.errors import IsoscopeError
from isoscope.core.number import Number
from isoscope.core.numerics import Floats
from isoscope.core.site import Site
from isoscope.core.table import TABLE_COLUMNS, concat_tables
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.inference import Estimate
from isoscope.estimation.isotropic_quantiles import head_threshold
from isoscope.estimation.metric import Metric
from isoscope.estimation.site_clouds import AttentionCloud
from isoscope.metrics import registry
from isoscope.runs.stored_cell import Cell
from isoscope.statistics.any_statistics import AnyStatistics, Layout, Statistics, layout_of
from isoscope.statistics.attention_statistics import ROW_SUMS, SEQUENCE_SUMS
from isoscope.statistics.head_statistics import Heads
from isoscope.statistics.jackknife_groups import PRODUCTS, Groups
from isoscope.statistics.site_statistics import Moments, SiteStatistics
from isoscope.studies.training_dynamics.checkpoint_measures import POINTS, HeadSums, Levels, measure_levels, split_documents

DRIFT, SHARPNESS, COSINE = "drift_ratio", "attention_entropy_normalised", "qk_cosine"
CHANGES = (("hidden", "between_cosine"), ("hidden", "top_share"), ("hidden", DRIFT), ("attention", "attention_entropy"))
"""Kinds and metrics whose change from the first to the last step is a row, for each layer and for the mean over blocks."""
NEEDED = {DRIFT, SHARPNESS, COSINE, *(metric for _, metric in CHANGES)}
RULE = "the head with the {} cos(Q̄, K̄) at the last step, over all layers of the first seed with the most steps"
BASES = ("union", "query", "key")
NAN = float("nan")
Seed = int | None
Points = dict[str, Any]
"""Part of a series: columns, each with one value for all points or an array with one value per point; `y` is an array."""


class Place(NamedTuple):
    """A layer of a stack."""

    stack: str
    layer: int


class Head(NamedTuple):
    """A head of a layer."""

    place: Place
    head: int


@dataclass(frozen=True)
class MeasuredSuite:
    """The checkpoints of a suite, and the columns and settings that every derived row repeats."""

    columns: dict[str, Any]
    spec: dict[str, Any]
    checkpoints: tuple[tuple[Seed, int], ...]
    policy: str = "all"

    @property
    def seeds(self) -> list[Seed]:
        """In order."""
        return list(dict.fromkeys(seed for seed, _ in self.checkpoints))

    def steps_of(self, seed: Seed) -> list[int]:
        """The steps of a seed, in order."""
        return [step for own, step in self.checkpoints if own == seed]

    @cached_property
    def main(self) -> Seed:
        """The first seed of those with the most steps."""
        return max(self.seeds, key=lambda seed: len(self.steps_of(seed)))

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last step of that seed."""
        steps = self.steps_of(self.main)
        return steps[0], steps[-1]

    @property
    def complete_seeds(self) -> list[Seed]:
        """The seeds that have that first and that last step."""
        return [seed for seed in self.seeds if set(self.ends) <= set(self.steps_of(seed))]

    @property
    def curve_seeds(self) -> list[Seed]:
        """The seeds that also have a step between these."""
        return [seed for seed in self.complete_seeds if len(self.steps_of(seed)) >= 3]


@dataclass
class Gathered:
    """The result of one walk over a suite's statistics."""

    means: dict[Place, dict[tuple[Seed, int], tuple[Floats, Floats]]] = field(default_factory=dict)
    """By layer, seed and step: Q̄ and the K̄ of each query's key, (h, e)."""
    sums: dict[tuple[Seed, Place], tuple[HeadSums, HeadSums]] = field(default_factory=dict)
    """By seed and layer: sums over all steps of queries and of keys."""
    joined: dict[tuple[Place, Seed, int], Number] = field(default_factory=dict)
    """cos(Q̄, K̄) with a layer's heads concatenated."""
    clouds: dict[tuple[Head, int], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    """By head and step: a few queries and keys (m, e)."""
    levels: dict[Place, dict[tuple[Seed, int], Levels]] = field(default_factory=dict)
    """Intrinsic dimensions of hidden states."""
    points: int = 0
    """The number of points of each half behind them, the same at every layer, step and seed."""


def read_rows(tables: Iterable[pd.DataFrame], policy: str) -> pd.DataFrame:
    """The rows of all checkpoints from which the dynamics are derived."""
    needed = [rows[rows["policy"].eq(policy) & rows["metric"].isin(NEEDED)] for rows in tables]
    return concat_tables(needed, TABLE_COLUMNS).sort_values("step", kind="stable")


def extreme_heads(suite: MeasuredSuite, rows: pd.DataFrame) -> tuple[Head | None, Head | None]:
    """The heads whose mean query and key point most the same way, and most opposite ways, at the last step; None if no head does."""
    last = last_cosines(suite, rows)
    heads: list[Head | None] = []
    for sign in (1, -1):
        own = last[sign * last["value"] > 0]
        best = own.iloc[int((sign * own["value"]).to_numpy().argmax())] if len(own) else None
        heads.append(None if best is None else Head(Place(str(best["stack"]), int(best["layer"])), int(best["head"])))
    return heads[0], heads[1]


def last_cosines(suite: MeasuredSuite, rows: pd.DataFrame) -> pd.DataFrame:
    """cos(Q̄, K̄) of all heads of the main seed at the last step."""
    seed = rows["seed"].isna() if suite.main is None else rows["seed"].eq(suite.main)
    own = rows["metric"].eq(COSINE) & rows["kind"].eq("attention") & rows["head"].notna() & rows["value"].notna()
    return rows[(own & seed & rows["step"].eq(suite.ends[1])).fillna(False)].sort_values(["stack", "layer", "head"]).reset_index(drop=True)


def chance_levels(suite: MeasuredSuite, rows: pd.DataFrame) -> dict[str, float]:
    """By stack, the |cos(Q̄, K̄)| that any of its heads exceeds with a chance of at most 5 %."""
    return {str(stack): head_threshold(int(own["d"].iloc[0]), len(own)) for stack, own in last_cosines(suite, rows).groupby("stack")}


def make_row(suite: MeasuredSuite, metric: str, value: Estimate, *, note: str = "", verdict: str = "", **more: Any) -> dict[str, Any]:
    """A row of the table; `more` are columns."""
    words = "; ".join(part for part in (value.note, note) if part)
    spec = suite.spec | ({"note": words} if words else {}) | ({"verdict": verdict} if verdict else {})
    own = {"metric": metric, "value": value.value, "low": value.low, "high": value.high, "policy": suite.policy}
    return suite.columns | own | {"spec": json.dumps(spec, sort_keys=True, ensure_ascii=False)} | more


CLOUD = 64
"""The number of points of a cloud that are stored per step."""


def gather(suite: MeasuredSuite, cells: Sequence[Cell], rows: pd.DataFrame) -> Gathered:
    """Gather means, sums over steps, a few points of the chosen heads, and intrinsic dimensions of halves, cell by cell."""
    walk = Walk(suite, [head for head in extreme_heads(suite, rows) if head is not None])
    layouts: dict[Site, Layout] = {}
    for (seed, step), cell in zip(suite.checkpoints, cells, strict=True):
        if cell.has_statistics:
            sites = cell.statistics()
            check_layouts(sites, layouts, walk.chosen, cell)
            walk.visit(seed, step, sites)
    return walk.gathered


def check_layouts(sites: Statistics, layouts: dict[Site, Layout], chosen: list[Head], cell: Cell) -> None:
    """Refuse a checkpoint whose sites differ from those of the others, or of the rows: the cells may come from different models.

    `layouts` holds those of earlier checkpoints, and those of this one are added.
    """
    again = f"delete {cell.folder} and measure it again."
    for site, statistics in sites.items():
        if layouts.setdefault(site, layout_of(statistics)) != layout_of(statistics):
            raise IsoscopeError(f"{site.label} has other widths, heads or slices in {cell.folder} than at earlier steps; {again}")
    for place, head in chosen:
        queries = sites.get(Site(place.stack, "query", place.layer))
        if isinstance(queries, Heads) and head >= queries.h:
            raise IsoscopeError(f"Rows speak of head {head} of layer {place.layer}, and {cell.folder} has {queries.h} heads; {again}")


@dataclass
class Walk:
    """Takes what the dynamics need from one checkpoint after the other."""

    suite: MeasuredSuite
    chosen: list[Head]
    gathered: Gathered = field(default_factory=Gathered)

    def visit(self, seed: int | None, step: int, sites: Statistics) -> None:
        """Take what is needed from one checkpoint."""
        for site, queries in sites.items():
            keys = sites.get(Site(site.stack, "key", site.layer))
            if site.kind == "query" and isinstance(queries, Heads) and isinstance(keys, Heads) and queries.e == keys.e:
                self._add_heads(seed, step, Place(site.stack, site.layer or 0), queries, keys)
        if len(self.suite.steps_of(seed)) >= 3:
            self._add_dimensions(seed, step, sites)

    def _add_heads(self, seed: int | None, step: int, place: Place, queries: Heads, keys: Heads) -> None:
        both = [HeadSums.of(heads, self._slices(heads)) for heads in (queries, keys)]
        if not both[0].n or not both[1].n:
            return
        shared = np.arange(queries.h) * keys.h // queries.h  # grouped queries share a key: the number of each query's key
        both[1] = both[1].at(shared)
        before = self.gathered.sums.get((seed, place))
        self.gathered.sums[seed, place] = (both[0], both[1]) if before is None else (before[0] + both[0], before[1] + both[1])
        self.gathered.means.setdefault(place, {})[seed, step] = both[0].mean, both[1].mean
        self.gathered.joined[place, seed, step] = joined_cosine(queries, keys, self._slices(queries), shared)
        for head in self.chosen if seed == self.suite.main else []:
            if head.place == place:
                pair = self._first_points(queries, head.head), self._first_points(keys, int(shared[head.head]))
                if pair[0] is not None and pair[1] is not None:
                    self.gathered.clouds[head, step] = pair[0], pair[1]

    def _slices(self, kept: AnyStatistics) -> list[int]:
        return [kept.names.index(name) for name in slices.slices_of_policy(self.suite.policy, kept.names)]

    def _first_points(self, heads: Heads, j: int) -> np.ndarray | None:
        """(m, e) the first points of a head's sample."""
        if heads.sample is None:
            return None
        among = np.flatnonzero(np.isin(heads.sample.slice, self._slices(heads)))[:CLOUD]
        return np.asarray(heads.sample.points[among, j * heads.e : (j + 1) * heads.e], dtype=np.float64)

    def _add_dimensions(self, seed: int | None, step: int, sites: Statistics) -> None:
        layers = {Place(site.stack, site.layer or 0): kept for site, kept in sites.items() if site.kind == "hidden"}
        clouds = {place: Cloud.of(kept, self.suite.policy) for place, kept in layers.items() if isinstance(kept, SiteStatistics)}
        samples = {place: cloud.sample for place, cloud in clouds.items() if cloud is not None and cloud.sample is not None}
        if not samples:
            return
        # TwoNN depends on the number of points, so the first checkpoint sets it for all others, and a half with fewer has no number.
        sizes = [len(half) for sample in samples.values() for half in split_documents(sample)]
        self.gathered.points = self.gathered.points or min(POINTS, *sizes)

        def levels_of(place: Place) -> Levels:
            cloud = clouds[place]
            second = cloud.moments.second if cloud is not None and cloud.n > 1 else None
            return measure_levels(samples[place], self.gathered.points, None if second is None else second.covariance)

        # Threads are enough: the neighbour search spends its time in BLAS and compiled passes, which release Python's lock.
        with ThreadPoolExecutor(min(os.cpu_count() or 1, len(samples))) as pool:
            for place, levels in zip(samples, pool.map(levels_of, samples), strict=True):
                self.gathered.levels.setdefault(place, {})[seed, step] = levels


def joined_cosine(queries: Heads, keys: Heads, chosen: list[int], shared: np.ndarray) -> Number:
    """cos(Q̄, K̄) with the heads of a layer concatenated into one long vector."""
    pair = _joined_cloud(queries, chosen, np.arange(queries.h)), _joined_cloud(keys, chosen, shared)
    sums = np.zeros((1, len(ROW_SUMS)))
    sums[0, 0] = pair[0].n
    metric = registry["qk_cosine"]
    assert isinstance(metric, Metric)
    return metric(AttentionCloud(pair[0].d, sums, np.zeros((1, len(SEQUENCE_SUMS))), pair=pair))


def _joined_cloud(heads: Heads, chosen: list[int], order: np.ndarray) -> Cloud:
    """The sums of a layer's heads, concatenated as those of one vector."""
    # All heads of a layer see the same tokens, so their concatenated sums are the sums of the joined vectors: no points are needed.
    counts, sums = heads.counts[:, chosen].sum(1), heads.sums[:, chosen].sum(1)[:, :, order]
    d = len(order) * heads.e
    moments, groups = Moments(d, second=False), Groups(d)
    moments.n, moments.total = round(float(counts[0, :, 0].sum())), sums[0].sum(0).reshape(d)
    groups.count = counts.shape[1]
    groups.counts, groups.sums = counts[:, None, :, 0], sums.reshape(2, 1, groups.count, d)
    groups.products = np.zeros((PRODUCTS, groups.count, 1, 1))
    return Cloud(moments, groups)
