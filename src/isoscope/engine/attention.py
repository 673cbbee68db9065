"""The attention of one model and its statistics: rows of each head, and the queries and keys behind them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from isoscope.core.site import WITHOUT, Site
from isoscope.engine.announce import HeldPlan
from isoscope.engine.options import Options
from isoscope.engine.places import Places
from isoscope.models.attention import Attended, AttentionTap
from isoscope.models.attention_rows import attention_rows, count_scores, without
from isoscope.models.heads import absorb_heads, absorb_rows
from isoscope.models.tap import Layout, Tap
from isoscope.statistics.attention import AttentionStatistics
from isoscope.statistics.heads import HEAD_SAMPLE, Heads
from isoscope.statistics.kept import Statistics
from isoscope.statistics.site_statistics import SiteStatistics

HISTOGRAM_ROWS = 8
"""Rows of the longest sequence whose scores are counted in a histogram: counting takes longer than all else, and a curve needs few."""


@dataclass
class Size:
    """What a first pass shows of one attention."""

    heads: int
    key_heads: int
    e: int
    scale: float


@dataclass
class Parts:
    """Of one attention the sums by which its mean query and its largest dimensions are found."""

    n: int = 0
    keys: int = 0
    sums: dict[str, Tensor] = field(default_factory=dict)

    def add(self, call: Attended, queries: np.ndarray, keys: np.ndarray) -> None:
        """Add the counted queries (b, t) and keys (b, s) of a call, as attention takes them."""
        for name, tensor, counted in (("q", call.query, queries), ("k", call.key, keys)):
            points = tensor.double() * torch.as_tensor(counted, device=tensor.device)[:, None, :, None]
            for power, what in ((1, name), (2, name + name)):
                added = (points**power).sum((0, 2)).cpu()
                self.sums[what] = self.sums[what] + added if what in self.sums else added
        self.n += int(queries.sum())
        self.keys += int(keys.sum())

    @property
    def mean_query(self) -> Tensor:
        """(h, e)."""
        return self.sums["q"] / self.n

    def largest(self, count: int) -> Tensor:
        """(h, count) the dimensions that make most of the variance of scores within rows: E q² · var k is largest."""
        spread = self.sums["kk"] / self.keys - (self.sums["k"] / self.keys) ** 2
        spread = spread.repeat_interleave(len(self.sums["q"]) // len(spread), 0)
        return (self.sums["qq"] / self.n * spread).argsort(1, descending=True)[:, :count]


class AttentionSites:
    """The attention tap of a model, and the statistics of what it gives."""

    def __init__(self, tap: Tap, options: Options, slices: list[str], name: str, longest: int | None) -> None:
        self.tap, self.options, self.slices, self.name, self.longest = tap, options, slices, name, longest
        self.mode = AttentionTap(tap.running, self._learn)
        self.sizes: dict[Site, Size] = {}
        self.parts: dict[Site, Parts] = {}
        self.statistics: Statistics = {}
        self.places: Places | None = None

    def _learn(self, call: Attended) -> None:
        self.sizes.setdefault(call.site, Size(call.query.shape[1], call.key.shape[1], call.query.shape[-1], call.scale))

    def begin(self, statistics: Statistics) -> None:
        """Empty statistics for what the first pass has shown and the options ask for, among the others of the model."""
        self.statistics = statistics
        for site, size in self.sizes.items():
            if not self.options.wants(site, self.tap.depth[site.stack]):
                continue
            for kind in self._rows(site):
                found = AttentionStatistics(
                    size.heads, size.e, self.slices, scale=size.scale, median=self.options.attention_median, histogram=kind == site.kind
                )
                statistics[Site(site.stack, kind, site.layer)] = found
            for kind, heads in self._vectors(site).items():
                made = Heads(heads, size.e, self.slices, sample=min(HEAD_SAMPLE, self.options.sample))
                statistics[Site(site.stack, kind, site.layer)] = made
        self.mode.receive = self._receive

    def _rows(self, site: Site) -> list[str]:
        """The kinds of rows of one attention."""
        return [site.kind, *(f"{site.kind}_without_{what}" for what in WITHOUT if self.options.ablate_queries)]

    def _vectors(self, site: Site) -> dict[str, int]:
        """The kinds of queries and keys of one attention, and how many heads each has."""
        size = self.sizes[site]
        before = ["cross_"] if site.kind.startswith("cross") else ["", *(["rotated_"] if self.options.after_rotary else [])]
        return {prefix + kind: heads for prefix in before for kind, heads in (("query", size.heads), ("key", size.key_heads))}

    def calibrate(self, run: Callable[[], object], places: Places) -> None:
        """One forward pass by which mean queries and largest dimensions are found."""

        def receive(call: Attended) -> None:
            queries, keys = self._laid(call)
            self.parts.setdefault(call.site, Parts()).add(call, queries.codes >= 0, keys.codes >= 0)

        self.places, before = places, self.mode.receive
        self.mode.receive = receive
        try:
            run()
        finally:
            self.mode.receive = before

    def _laid(self, call: Attended) -> tuple[Layout, Layout]:
        assert self.places is not None
        (b, _, t, _), (rows, _, s, _) = call.query.shape, call.key.shape
        return self.places.of(call.site, self.tap.width, (b, t), (rows, s))

    def _receive(self, call: Attended) -> None:
        if call.site not in self.statistics:
            return
        queries, keys = self._laid(call)
        self._add_rows(call.site, call, queries)
        for kind, tensor, layout in self._given(call, queries, keys):
            site = Site(call.site.stack, kind, call.site.layer)
            kept = self.statistics[site]
            assert isinstance(kept, Heads)
            absorb_heads(kept, tensor, layout, site, self.name)
        if self.options.ablate_queries:
            parts = self.parts[call.site]
            self._add_rows(self._named(call, WITHOUT[0]), without(call, mean_query=parts.mean_query), queries)
            largest = parts.largest(len(WITHOUT) - 1)
            for count, what in enumerate(WITHOUT[1:], 1):
                self._add_rows(self._named(call, what), without(call, dimensions=largest[:, :count]), queries)

    def _named(self, call: Attended, what: str) -> Site:
        return Site(call.site.stack, f"{call.site.kind}_without_{what}", call.site.layer)

    def _given(self, call: Attended, queries: Layout, keys: Layout) -> list[tuple[str, Tensor, Layout]]:
        if call.site.kind.startswith("cross"):
            return [("cross_query", call.plain_query, queries), ("cross_key", call.plain_key, keys)]
        plain = [("query", call.plain_query, queries), ("key", call.plain_key, keys)]
        return plain + ([("rotated_query", call.query, queries), ("rotated_key", call.key, keys)] if self.options.after_rotary else [])

    def _add_rows(self, site: Site, call: Attended, layout: Layout) -> None:
        kept = self.statistics[site]
        assert isinstance(kept, AttentionStatistics)
        counted = torch.from_numpy(layout.codes >= 0)
        chosen = self._chosen(call.query.shape[2], self.options.query_rows)
        if chosen is None or len(chosen):
            rows = None if chosen is None else torch.from_numpy(chosen)
            absorb_rows(
                kept,
                attention_rows(call, counted=counted, rows=rows, median=self.options.attention_median),
                layout,
                site,
                self.name,
                chosen,
            )
        few = self._chosen(call.query.shape[2], HISTOGRAM_ROWS)
        if kept.histogram is not None and few is not None and len(few):
            kept.count(count_scores(call, torch.from_numpy(few), counted))

    def _chosen(self, t: int, count: int | None) -> np.ndarray | None:
        """So many rows of t, spread evenly over the longest sequence, so that they do not depend on the batch; None for all."""
        if count is None:
            return None
        step = max(1, math.ceil((self.longest or t) / count))
        return np.arange(step // 2, t, step)

    def plans(self) -> list[HeldPlan]:
        """The size of the statistics of each site."""
        return [plan_of(kept) for kept in self.statistics.values() if not isinstance(kept, SiteStatistics)]


def plan_of(kept: Heads | AttentionStatistics) -> HeldPlan:
    """The size of statistics, from their arrays."""
    if isinstance(kept, AttentionStatistics):
        return HeldPlan(sum(array.nbytes for array in kept.state().values()))
    arrays = (kept.counts, kept.sums, kept.squared, kept.products, kept.units)
    sample = 0 if kept.sample is None else kept.sample.k * kept.sample.d * np.dtype(np.float32).itemsize
    return HeldPlan(sum(array.nbytes for array in arrays), sum(second.outer.nbytes for second in kept.second), sample)
