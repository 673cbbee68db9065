"""The sites of one model and their statistics: found with a first forward pass, filled by the ones that follow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
from torch import Tensor

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.core.slice import BODY
from isoscope.engine.announce import Plan, SitePlan
from isoscope.engine.attention import AttentionSites
from isoscope.engine.options import Options
from isoscope.engine.places import Laid, Places
from isoscope.models.blocks import stages
from isoscope.models.family import Stack
from isoscope.models.tap import Layout, Tap, absorb, points_of
from isoscope.statistics.kept import Statistics, filled
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
        self.shapes: dict[Site, int] = {}
        self._laid: Laid | None = None
        self._begun: set[str] = set()

    def learn(self, run: Callable[[], object], tables: Collection[Site] = ()) -> None:
        """Every site and its dimension, from a forward pass over a small input, and empty statistics for those that are wanted.

        `tables`: the sites of the model's embedding tables, which no forward pass shows.
        """
        self.tap.learn(run)

        def note(site: Site, tensor: Tensor) -> None:
            for found, state in self._readings(site, tensor):
                self.shapes[found] = int(points_of(state).shape[-1])

        self.tap.receive = note
        self._tapped(run)
        self.tap.receive = self._receive
        for stack in self.tap.stacks:
            if self.tap.calls[stack] == 0:
                raise IsoscopeError(f"The {stack} of {self.name} received no points; its blocks are not called in a forward pass.")
        attends = self.attention.sizes if self.attention is not None else ()
        self.options.check_layers([*self.shapes, *attends, *tables], self.tap.depth, self.name)
        self.empty()

    def empty(self) -> None:
        """Empty statistics for every site that is wanted, of those that are known."""
        self.statistics = {}
        self._begun.clear()
        for site, d in self.shapes.items():
            if self.options.wants(site, self.tap.depth[site.stack]):
                self.statistics[site] = SiteStatistics(
                    d,
                    [BODY] if site.kind == "map" else self.slices,
                    second=self.second(site),
                    cosine=self.options.cosine_sd and self.second(site),
                    sample=self.options.sample_at(site, d),
                )
        if self.attention is not None:
            self.attention.begin(self.statistics)
            if not self.attention.sizes:
                raise IsoscopeError(f"{self.name} has no attention in its blocks; measure it without --taps attention.")
        if not self.statistics:
            raise IsoscopeError(f"--layers {self.options.layers} chooses no layer of {self.name}.")

    def reserve(self, tokens: int | None) -> None:
        """Take the memory that the statistics of so many tokens will need, or of any number."""
        for site, statistics in self.statistics.items():
            if isinstance(statistics, SiteStatistics) and (tokens is None or tokens > self.shapes[site]):
                statistics.reserve()

    def second(self, site: Site) -> bool:
        """Whether second moments are kept."""
        return self.options.wants_second(site, self.tap.depth[site.stack], self.shapes[site])

    def measure(self, run: Callable[[], object], laid: Laid) -> None:
        """One forward pass, every state of which is reduced to its statistics."""
        self._laid = laid
        if self.attention is not None:
            self.attention.places = self._places(laid)
        self._tapped(run)
        self._laid = None  # it holds the batch, which would lie beside the next one
        if self.attention is not None:
            self.attention.places = None

    def calibrate(self, run: Callable[[], object], laid: Laid) -> None:
        """One forward pass of those by which it is found what `--ablate-queries` takes out."""
        if self.attention is not None:
            receive, self.tap.receive = self.tap.receive, lambda site, tensor: None
            try:
                self.attention.calibrate(lambda: self._tapped(run), self._places(laid))
            finally:
                self.tap.receive = receive

    def follow(self, run: Callable[[], object], mode: contextlib.AbstractContextManager[Any]) -> None:
        """One forward pass under a mode of the caller's, which may ask `tap.running` where it is; nothing is reduced."""
        receive, self.tap.receive = self.tap.receive, lambda site, tensor: None
        try:
            self._tapped(run, mode)
        finally:
            self.tap.receive = receive

    def _places(self, laid: Laid) -> Places:
        return Places(laid, list(self.tap.stacks), self.slices, self.options.seed)

    def _tapped(self, run: Callable[[], object], mode: contextlib.AbstractContextManager[Any] | None = None) -> None:
        mode = mode or (contextlib.nullcontext() if self.attention is None else self.attention.mode)
        self.tap.begin()
        with torch.inference_mode(), self.tap.attached(), mode:
            run()

    def _readings(self, site: Site, tensor: Tensor) -> Iterator[tuple[Site, Tensor]]:
        """A state as it is, and where asked for a map as one vector an image."""
        maps = self.maps if site.kind == "hidden" else "per-position"
        if maps != "per-image":
            yield site, tensor
        if maps != "per-position":
            yield Site(site.stack, "map", site.layer), tensor.flatten(1)

    def _receive(self, site: Site, tensor: Tensor) -> None:
        for found, state in self._readings(site, tensor):
            kept = self.statistics.get(found)
            if isinstance(kept, SiteStatistics) and self._laid is not None:
                points, stack = points_of(state), "" if found.kind == "map" else found.stack
                layout = self._laid(stack, *points.shape[:2])
                if stack not in self._begun:
                    self._expect(stack, layout)
                absorb(kept, points, layout, found, self.name)

    def _expect(self, stack: str, layout: Layout) -> None:
        """Before the first state of a stack, what its other layers will take: later batches then find no less room than the first."""
        self._begun.add(stack)
        used = [code for code, *_ in layout.slices()]
        for site, kept in self.statistics.items():
            if isinstance(kept, SiteStatistics) and ("" if site.kind == "map" else site.stack) == stack:
                kept.expect(used)

    def check(self) -> None:
        """A site that saw nothing is an error, not a gap."""
        for site, statistics in self.statistics.items():
            if not filled(statistics):
                raise IsoscopeError(f"{site.label} of {self.name} received no points.")

    def plans(self, tokens: int | None) -> list[Plan]:
        """The size of each site's statistics."""
        heads: list[Plan] = [] if self.attention is None else [*self.attention.plans()]
        return heads + [
            SitePlan(
                self.shapes[site],
                1 if site.kind == "map" else len(self.slices),
                self.second(site),
                self.options.cosine_sd and self.second(site),
                self.options.sample_at(site, self.shapes[site]),
                tokens,
            )
            for site in self.statistics
            if site in self.shapes
        ]

    def marks(self) -> dict[str, Any]:
        """The stages of blocks, how the channels of maps were found to lie, and what an activation alone makes of a cosine."""
        staged = {stack: found for stack, blocks in self.tap.stacks.items() if (found := stages(blocks)) is not None}
        layouts = {site.label: layout for site, layout in self.tap.layouts.items()} if self.tap.channels is None else {}
        channels: Any = next(iter(layouts.values())) if len(set(layouts.values())) == 1 else layouts
        marks = {"stages": staged, "channels": channels, "activation_nulls": self.tap.nulls}
        return {name: value for name, value in marks.items() if value}
