"""The attention of one model and its statistics: rows of each head, and their queries and keys."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from isoscope.core.site import ABLATIONS, Site
from isoscope.measuring.cost_estimate import StatisticsSize
from isoscope.measuring.options import Options
from isoscope.models.tapping.attention_call import AttentionCall
from isoscope.models.tapping.attention_rows import ablate_queries, attention_rows, count_scores
from isoscope.models.tapping.attention_tap import AttentionTap
from isoscope.models.tapping.device_statistics import DeviceStatistics, Origin
from isoscope.models.tapping.layout import BatchLayout, Layout
from isoscope.models.tapping.reduction import reduce_heads, reduce_rows
from isoscope.models.tapping.tap import Tap
from isoscope.statistics.any_statistics import Statistics
from isoscope.statistics.attention_statistics import AttentionStatistics
from isoscope.statistics.head_statistics import HEAD_SAMPLE, Heads
from isoscope.statistics.site_statistics import SiteStatistics

HISTOGRAM_ROWS = 8
"""Rows of the longest sequence whose scores are counted in a histogram: counting takes longest of all, and a curve needs few rows."""


@dataclass
class Size:
    """The size of one attention, which a first pass shows."""

    heads: int
    key_heads: int
    e: int
    scale: float
    queries: Origin
    keys: Origin


@dataclass
class QueryKeySums:
    """Sums over the queries and keys of one attention, which give its mean query and its largest dimensions."""

    n: int = 0
    keys: int = 0
    sums: dict[str, Tensor] = field(default_factory=dict)

    def add(self, call: AttentionCall, queries: np.ndarray, keys: np.ndarray) -> None:
        """Add the counted queries (b, t) and keys (b, s) of a call, as attention takes them."""
        for name, tensor, counted in (("q", call.query, queries), ("k", call.key, keys)):
            # In float64: the variance of the keys is a difference of two sums that may be nearly equal.
            points = tensor.double() * torch.as_tensor(counted)[:, None, :, None]
            for power, key in ((1, name), (2, name + name)):
                total = (points**power).sum((0, 2))
                self.sums[key] = self.sums[key] + total if key in self.sums else total
        self.n += int(queries.sum())
        self.keys += int(keys.sum())

    @property
    def mean_query(self) -> Tensor:
        """(h, e)."""
        return self.sums["q"] / self.n

    def largest(self, count: int) -> Tensor:
        """(h, count) the dimensions that make most of the variance of scores within rows: those of the largest E q² · var k."""
        spread = self.sums["kk"] / self.keys - (self.sums["k"] / self.keys) ** 2
        # With grouped queries several heads share one key head.
        spread = spread.repeat_interleave(len(self.sums["q"]) // len(spread), 0)
        return (self.sums["qq"] / self.n * spread).argsort(1, descending=True)[:, :count]


class AttentionSites:
    """The attention tap of a model, and the statistics of its rows, queries and keys."""

    def __init__(self, tap: Tap, options: Options, slices: list[str], name: str, longest: int | None) -> None:
        self.tap, self.options, self.slices, self.name, self.longest = tap, options, slices, name, longest
        self.mode = AttentionTap(tap.running, self._learn)
        self.mode.wants_bias = options.ablate_queries
        self.sizes: dict[Site, Size] = {}
        self.sums: dict[Site, QueryKeySums] = {}
        self.statistics: Statistics = {}
        self.layout: BatchLayout | None = None

    def _learn(self, call: AttentionCall) -> None:
        (_, h, _, e), heads = call.query.shape, call.key.shape[1]
        self.sizes.setdefault(call.site, Size(h, heads, e, call.scale, Origin.of(call.query), Origin.of(call.key)))

    def begin(self, statistics: Statistics, on_device: DeviceStatistics) -> None:
        """Add empty statistics for every attention that the first pass has shown and the options ask for.

        Medians, and attention with other queries, are not computed on a device: such calls are copied to the host.
        """
        self.statistics, self.on_device = statistics, on_device
        moves = self.options.attention_median or self.options.ablate_queries
        for site, size in self.sizes.items():
            if not self.options.wants(site, self.tap.depth[site.stack]):
                continue
            for kind in self._row_kinds(site):
                place = Site(site.stack, kind, site.layer)
                statistics[place] = rows = AttentionStatistics(
                    size.heads, size.e, self.slices, scale=size.scale, median=self.options.attention_median, histogram=kind == site.kind
                )
                if not (size.queries.on_host or moves):
                    on_device.add_rows(place, size.queries, rows)
            for kind, heads in self._vector_kinds(site).items():
                place, sample = Site(site.stack, kind, site.layer), min(HEAD_SAMPLE, self.options.sample)
                statistics[place] = points = Heads(heads, size.e, self.slices, sample=sample)
                if not (size.queries.on_host or moves):
                    on_device.add(place, size.keys if kind.endswith("key") else size.queries, points)
        self.mode.receive = self._receive

    def _row_kinds(self, site: Site) -> list[str]:
        """The kinds of rows of one attention."""
        return [site.kind, *(f"{site.kind}_without_{part}" for part in ABLATIONS if self.options.ablate_queries)]

    def _vector_kinds(self, site: Site) -> dict[str, int]:
        """The kinds of queries and keys of one attention, and how many heads each has."""
        size = self.sizes[site]
        prefixes = ["cross_"] if site.kind.startswith("cross") else ["", *(["rotated_"] if self.options.after_rotary else [])]
        return {prefix + kind: heads for prefix in prefixes for kind, heads in (("query", size.heads), ("key", size.key_heads))}

    def calibrate(self, run: Callable[[], object], layout: BatchLayout) -> None:
        """Run one forward pass and add it to the sums that give mean queries and largest dimensions."""

        def receive(call: AttentionCall) -> None:
            queries, keys = self._layouts(call)
            self.sums.setdefault(call.site, QueryKeySums()).add(call.on_host(), queries.codes >= 0, keys.codes >= 0)

        # The taps stay the same and only their receiver changes: calibration must see the queries exactly as the measurement does.
        self.layout, before = layout, self.mode.receive
        self.mode.receive = receive
        try:
            run()
        finally:
            self.mode.receive = before

    def _layouts(self, call: AttentionCall) -> tuple[Layout, Layout]:
        """The layouts of the queries and of the keys of a call."""
        assert self.layout is not None
        (b, _, t, _), (rows, _, s, _) = call.query.shape, call.key.shape
        return self.layout.of_attention(call.site, list(self.tap.stacks), self.tap.width, (b, t), (rows, s))

    def _receive(self, call: AttentionCall) -> None:
        if call.site not in self.statistics:
            return
        queries, keys = self._layouts(call)
        if call.site in self.on_device:
            self._reduce_on_device(call, queries, keys)
            return
        call = call.on_host()
        self._add_rows(call.site, call, queries)
        for kind, tensor, layout in self._vectors(call, queries, keys):
            site = Site(call.site.stack, kind, call.site.layer)
            statistics = self.statistics[site]
            assert isinstance(statistics, Heads)
            reduce_heads(statistics, tensor, layout, site, self.name)
        if self.options.ablate_queries:
            sums = self.sums[call.site]
            self._add_rows(_site_without(call, ABLATIONS[0]), ablate_queries(call, mean_query=sums.mean_query), queries)
            largest = sums.largest(len(ABLATIONS) - 1)
            for count, part in enumerate(ABLATIONS[1:], 1):
                self._add_rows(_site_without(call, part), ablate_queries(call, dimensions=largest[:, :count]), queries)

    def _reduce_on_device(self, call: AttentionCall, queries: Layout, keys: Layout) -> None:
        vectors = [
            (Site(call.site.stack, kind, call.site.layer), tensor, layout) for kind, tensor, layout in self._vectors(call, queries, keys)
        ]
        # Queries and keys of one attention are points of as many heads, and see the same positions: one step reduces both.
        together = queries is keys and self.on_device.share_bank([site for site, _, _ in vectors])
        for part in [vectors] if together else [[vector] for vector in vectors]:
            joined = self.on_device.reduce([site for site, _, _ in part], [tensor for _, tensor, _ in part], part[0][2])
        if together and call.plain_query is call.query and call.plain_key is call.key:
            call = replace(call, query=joined[0], key=joined[1])  # they lie as a product needs them
        rows, few = (self._choose_rows(call.query.shape[2], count) for count in (self.options.query_rows, HISTOGRAM_ROWS))
        assert few is not None
        if rows is None or len(rows):
            self.on_device.reduce_rows(call.site, call, queries, rows, few)

    def _vectors(self, call: AttentionCall, queries: Layout, keys: Layout) -> list[tuple[str, Tensor, Layout]]:
        """The queries and keys of a call, each with its kind of site and its layout."""
        if call.site.kind.startswith("cross"):
            return [("cross_query", call.plain_query, queries), ("cross_key", call.plain_key, keys)]
        plain = [("query", call.plain_query, queries), ("key", call.plain_key, keys)]
        return plain + ([("rotated_query", call.query, queries), ("rotated_key", call.key, keys)] if self.options.after_rotary else [])

    def _add_rows(self, site: Site, call: AttentionCall, layout: Layout) -> None:
        statistics = self.statistics[site]
        assert isinstance(statistics, AttentionStatistics)
        counted = torch.from_numpy(layout.codes >= 0)
        query_rows = self._choose_rows(call.query.shape[2], self.options.query_rows)
        if query_rows is None or len(query_rows):
            numbers = None if query_rows is None else torch.from_numpy(query_rows)
            rows = attention_rows(call, counted=counted, rows=numbers, median=self.options.attention_median)
            reduce_rows(statistics, rows, layout, site, self.name, query_rows)
        few = self._choose_rows(call.query.shape[2], HISTOGRAM_ROWS)
        if statistics.histogram is not None and few is not None and len(few):
            statistics.count(count_scores(call, torch.from_numpy(few), counted))

    def _choose_rows(self, t: int, count: int | None) -> np.ndarray | None:
        """The numbers of `count` of t rows, spread evenly over the longest sequence so that the batch does not matter; None for all."""
        if count is None:
            return None
        # The step follows from the longest sequence there may be, not from this batch: how sequences are batched must not change a number.
        step = max(1, math.ceil((self.longest or t) / count))
        return np.arange(step // 2, t, step)

    def statistics_sizes(self) -> list[StatisticsSize]:
        """The size of the statistics of each site."""
        return [size_of(statistics) for statistics in self.statistics.values() if not isinstance(statistics, SiteStatistics)]


def _site_without(call: AttentionCall, part: str) -> Site:
    return Site(call.site.stack, f"{call.site.kind}_without_{part}", call.site.layer)


def size_of(statistics: Heads | AttentionStatistics) -> StatisticsSize:
    """The size of statistics from their arrays, which are allocated at the start."""
    if isinstance(statistics, AttentionStatistics):
        total = sum(array.nbytes for array in statistics.state().values())
        return StatisticsSize(total, total, 0)
    arrays = sum(a.nbytes for a in (statistics.counts, statistics.sums, statistics.squared, statistics.products, statistics.units))
    matrices = sum(second.outer.nbytes for second in statistics.second)
    drawn = statistics.sample
    sample = 0 if drawn is None else drawn.k * drawn.d * np.dtype(np.float32).itemsize
    # A sample has room for twice its points; of a symmetric matrix only half is written.
    return StatisticsSize(arrays + matrices + 2 * sample, arrays + matrices // 2, sample)
