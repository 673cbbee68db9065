"""The sites of one model and their statistics: found with a first forward pass, filled by those that follow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
from torch import Tensor

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import BODY, Site
from isoscope.measuring.attention_sites import AttentionSites
from isoscope.measuring.memory_estimate import Plan, SitePlan
from isoscope.measuring.options import Options
from isoscope.models.loading.family import Stack
from isoscope.models.tapping.blocks import number_stages, points_of
from isoscope.models.tapping.layout import BatchLayout
from isoscope.models.tapping.reduction import reduce_state
from isoscope.models.tapping.tap import Tap
from isoscope.statistics.any_statistics import Statistics
from isoscope.statistics.site_statistics import SiteStatistics


class Sites:
    """A tap, and the statistics of every site that the options ask for."""

    def __init__(
        self,
        stacks: dict[str, Stack],
        options: Options,
        slices: list[str],
        name: str,
        *,
        inner: bool = False,
        maps: bool = False,
        channels: str | None = "first",
        longest: int | None = None,
    ) -> None:
        self.options, self.slices, self.name = options, slices, name
        self.maps = options.image_maps if maps else "per-position"
        self.tap = Tap(stacks, self._receive, inner=inner, channels=channels)
        self.attention = AttentionSites(self.tap, options, slices, name, longest) if options.attention else None
        self.statistics: Statistics = {}
        self.dimensions: dict[Site, int] = {}
        self.ordered = True
        """Whether the positions of states have an order: those of a map have none, nor has a single vector."""
        self._layout: BatchLayout | None = None

    def learn(self, run: Callable[[], object], tables: Collection[Site] = ()) -> None:
        """Find every site and its dimension with one forward pass, and make empty statistics for those that are wanted.

        `tables` are the sites of the model's embedding tables, which no forward pass shows.
        """
        shapes = self.tap.learn(run, None if self.attention is None else self.attention.mode)
        for site, shape in shapes.items():
            for reading, state in self._readings(site, shape):
                self.dimensions[reading] = int(points_of(state).shape[-1])
        self.ordered = {shape.dim() for site, shape in shapes.items() if site.kind == "hidden" and site.layer} == {3}
        for stack, depth in self.tap.depth.items():
            if depth == 0:
                raise IsoscopeError(f"The {stack} of {self.name} received no points; its blocks are not called in a forward pass.")
        attends = self.attention.sizes if self.attention is not None else ()
        self.options.check_layers([*self.dimensions, *attends, *tables], self.tap.depth, self.name)
        self.empty()

    def empty(self) -> None:
        """Start with empty statistics for every known site that is wanted."""
        self.statistics = {}
        for site, d in self.dimensions.items():
            if self.options.wants(site, self.tap.depth[site.stack]):
                self.statistics[site] = SiteStatistics(
                    d,
                    [BODY] if site.kind == "map" else self.slices,
                    second=self.has_second_moments(site),
                    cosine=self.options.cosine_sd and self.has_second_moments(site),
                    sample=self.options.sample_at(site, d),
                )
        if self.attention is not None:
            self.attention.begin(self.statistics)
            if not self.attention.sizes:
                raise IsoscopeError(f"{self.name} has no attention in its blocks; measure it without --taps attention.")
        if not self.statistics:
            raise IsoscopeError(f"--layers {self.options.layers} chooses no layer of {self.name}.")

    def has_second_moments(self, site: Site) -> bool:
        """Whether the second moments of a site are kept."""
        return self.options.wants_second(site, self.tap.depth[site.stack], self.dimensions[site])

    def reduce(self, run: Callable[[], object], layout: BatchLayout) -> None:
        """Run one forward pass and reduce each of its states to the statistics of its site."""
        self._layout = layout
        if self.attention is not None:
            self.attention.layout = layout
        self._run_tapped(run)
        self._layout = None  # it holds the batch, which need not stay in memory while the next one is made
        if self.attention is not None:
            self.attention.layout = None
        for stack, calls in self.tap.calls.items():
            if calls != self.tap.depth[stack]:
                raise IsoscopeError(
                    f"The blocks of {self.name} were called {self.tap.depth[stack]} times in the first batch and {calls} times in a later "
                    "one; layers can be told apart only where every batch calls them alike."
                )

    def calibrate(self, run: Callable[[], object], layout: BatchLayout) -> None:
        """Run one forward pass to learn which part of the queries `--ablate-queries` removes."""
        if self.attention is not None:
            with self._ignoring_states():
                self.attention.calibrate(lambda: self._run_tapped(run), layout)

    def follow(self, run: Callable[[], object], mode: contextlib.AbstractContextManager[Any]) -> None:
        """Run one forward pass under a mode of the caller's, which may ask `tap.running` where it is; nothing is reduced."""
        with self._ignoring_states():
            self._run_tapped(run, mode)

    @contextlib.contextmanager
    def _ignoring_states(self) -> Iterator[None]:
        receive, self.tap.receive = self.tap.receive, lambda site, tensor: None
        try:
            yield
        finally:
            self.tap.receive = receive

    def _run_tapped(self, run: Callable[[], object], mode: contextlib.AbstractContextManager[Any] | None = None) -> None:
        mode = mode or (contextlib.nullcontext() if self.attention is None else self.attention.mode)
        self.tap.begin()
        with torch.inference_mode(), self.tap.attach(), mode:
            run()

    def _readings(self, site: Site, tensor: Tensor) -> Iterator[tuple[Site, Tensor]]:
        """The ways in which a state is read: as it is, and if asked for a map as one vector per image."""
        maps = self.maps if site.kind == "hidden" else "per-position"
        if maps != "per-image":
            yield site, tensor
        if maps != "per-position":
            yield Site(site.stack, "map", site.layer), tensor.flatten(1)

    def _receive(self, site: Site, tensor: Tensor) -> None:
        for reading, state in self._readings(site, tensor):
            statistics = self.statistics.get(reading)
            if isinstance(statistics, SiteStatistics) and self._layout is not None:
                points = points_of(state)
                b, t = points.shape[:2]
                layout = self._layout.of_maps(b) if reading.kind == "map" else self._layout.of_states(reading.stack, b, t)
                reduce_state(statistics, points, layout, reading, self.name)

    def check(self) -> None:
        """Refuse a site that received nothing: it is an error, not a gap."""
        for site, statistics in self.statistics.items():
            if not statistics.slices_in_use:
                raise IsoscopeError(f"{site.label} of {self.name} received no points.")

    def plans(self, tokens: int | None) -> list[Plan]:
        """The size of each site's statistics."""
        heads: list[Plan] = [] if self.attention is None else [*self.attention.plans()]
        return heads + [
            SitePlan(
                self.dimensions[site],
                1 if site.kind == "map" else len(self.slices),
                self.has_second_moments(site),
                self.options.cosine_sd and self.has_second_moments(site),
                self.options.sample_at(site, self.dimensions[site]),
                tokens,
            )
            for site in self.statistics
            if site in self.dimensions
        ]

    def marks(self) -> dict[str, Any]:
        """What the settings of every row say about the taps: stages, layout of channels, autocast, and cosines of activations alone."""
        by_stage = {stack: of_blocks for stack, blocks in self.tap.stacks.items() if (of_blocks := number_stages(blocks)) is not None}
        layouts = {site.label: layout for site, layout in self.tap.layouts.items()} if self.tap.channels is None else {}
        channels: Any = next(iter(layouts.values())) if len(set(layouts.values())) == 1 else layouts
        marks = {"stages": by_stage, "channels": channels, "activation_nulls": self.tap.nulls, "autocast": self.tap.autocast}
        return {name: value for name, value in marks.items() if value}
