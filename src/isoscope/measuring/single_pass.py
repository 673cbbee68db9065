"""One pass over batches: it finds the sites of a model with a first forward pass, and reduces every batch to their statistics.

A model by name, a module and a watched model differ in the `Feeder` that makes their batches, and in nothing else.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import BODY, SINGLE_KINDS, Site
from isoscope.estimation.matrix_cloud import accumulate
from isoscope.measuring.attention_sites import AttentionSites
from isoscope.measuring.cost_estimate import StatisticsSize
from isoscope.measuring.options import Options
from isoscope.measuring.pooling import ItemPool, Pooling, find_pooled_sites
from isoscope.models.loading.family import Stack
from isoscope.models.tapping.blocks import Blocks, number_stages, points_of
from isoscope.models.tapping.device_statistics import DeviceStatistics, Origin
from isoscope.models.tapping.layout import BatchLayout, Slicer
from isoscope.models.tapping.reduction import reduce_state
from isoscope.models.tapping.tap import Tap
from isoscope.runs.states import mistake_in_statistics
from isoscope.runs.tensors import group_by_site, unpack_statistics
from isoscope.statistics.any_statistics import Statistics, layout_of
from isoscope.statistics.site_statistics import SiteStatistics

TABLE_ROWS = 1024
"""Rows of an embedding table that are read at a time."""


class StateMisfitError(Exception):
    """A saved state that does not belong to the sites that are measured."""


@dataclass(frozen=True)
class Batch:
    """One batch: its forward pass, and which of its positions is which."""

    run: Callable[[], object]
    rehearse: Callable[[], object]
    """The same forward pass on a copy of the batch, because a module may change its input."""
    layout: BatchLayout


class Feeder(ABC):
    """Makes the batches of one model and feeds them to it."""

    name: str
    stacks: dict[str, Stack]
    slicer: Slicer
    unit: str
    """The unit of progress: items or batches."""
    counted_unit: str
    """The unit of measurement: tokens, frames, images or rows."""
    inner: bool = False
    """Whether states around the last norm and the last activation of a block are sites too."""
    has_maps: bool = True
    """Whether states may be maps of images."""
    channels: str | None = None
    """How the channels of maps lie, `first` or `last`; None: find out."""
    longest: int | None = None
    """The most positions that a sequence may have, if that is known."""
    ordered: bool = True
    """Whether the positions of states have an order: those of a map have none, nor has a single vector. The first pass shows it."""

    pooled_output: Tensor | None = None
    """The pooled vectors that the model gave for the last batch, if it gives any."""

    def pooling(self) -> Pooling | None:
        """How the states of an item become one vector; known after a forward pass."""
        return None

    @abstractmethod
    def progress(self) -> tuple[int, int]:
        """How many units are done, and how many tokens, frames, images or rows were measured."""

    def total(self) -> int | None:
        """How many units there are; None if that is not known before they are read, as of a source."""
        return None

    @abstractmethod
    def windows(self) -> Iterator[Iterable[Batch]]:
        """Batches, in groups between which a measurement may be interrupted and resumed."""

    @abstractmethod
    def calibration_batches(self, first: Batch) -> Iterable[Batch]:
        """The batches from which mean queries and largest dimensions are computed; `first` is about to be measured."""

    @abstractmethod
    def check_not_empty(self) -> None:
        """Refuse a source that gave nothing."""

    def tables(self) -> dict[Site, Tensor]:
        """The embedding tables of the model."""
        return {}

    def check_blocks(self, blocks: Blocks) -> None:  # noqa: B027 (nothing to do for most)
        """Refuse blocks that cannot be measured."""

    def finish_batch(self, batch: Batch) -> None:  # noqa: B027 (nothing to do for most)
        """Count a batch that was measured."""

    def cursor(self) -> dict[str, int]:
        """How far the source was read."""
        return {}

    def move_to(self, cursor: dict[str, int]) -> None:  # noqa: B027 (nothing to do for most)
        """Continue to read the source from there."""


class Pass:
    """A tap on the model of a feeder, and the statistics of every site that the options ask for."""

    tap: Tap
    """This and all that follow are known after `learn`."""
    attention: AttentionSites | None
    statistics: Statistics

    def __init__(self, feeder: Feeder, options: Options) -> None:
        self.feeder, self.options = feeder, options
        self.is_ready = False
        """Whether the sites are known."""
        self._dimensions: dict[Site, int] = {}
        self._pool: ItemPool | None = None
        self._pooled: dict[Site, Site] = {}
        """By state, the site of the vectors that are pooled of it."""
        self._origins: dict[Site, Origin] = {}
        self.statistics: Statistics = {}
        self.on_device = DeviceStatistics()
        """The statistics of the sites whose states lie on a device."""
        self._layout: BatchLayout | None = None
        self._calibrated = not options.ablate_queries

    def learn(self, run: Callable[[], object]) -> None:
        """Find every site and its dimension with one forward pass, and make empty statistics for those that are wanted."""
        feeder, options = self.feeder, self.options
        self.tap = Tap(feeder.stacks, self._receive, inner=feeder.inner, channels=feeder.channels)
        slices, longest = feeder.slicer.names, feeder.longest
        self.attention = AttentionSites(self.tap, options, slices, feeder.name, longest) if options.attention else None
        for blocks in self.tap.stacks.values():
            feeder.check_blocks(blocks)
        shapes = self.tap.learn(run, None if self.attention is None else self.attention.mode)
        readings = [reading for site, shape in shapes.items() for reading in self._readings(site, shape)]
        self._dimensions = {site: int(points_of(state).shape[-1]) for site, state in readings}
        if (pooling := feeder.pooling()) is not None:
            self._pool = ItemPool(pooling, feeder.counted_unit, feeder.name)
            self._pooled, widths = find_pooled_sites(pooling, shapes, self.tap.depth, self.options, feeder.pooled_output)
            self._dimensions |= widths
        self._origins = {site: self._origin(site, points_of(state)) for site, state in readings}
        feeder.ordered = {shape.dim() for site, shape in shapes.items() if site.kind == "hidden" and site.layer} == {3}
        for stack, depth in self.tap.depth.items():
            if depth == 0:
                raise IsoscopeError(f"The {stack} of {feeder.name} received no points; its blocks are not called in a forward pass.")
        attends = self.attention.sizes if self.attention is not None else ()
        options.check_layers([*self._dimensions, *attends, *feeder.tables()], self.tap.depth, feeder.name)
        self.empty()
        self.is_ready = True

    def empty(self) -> None:
        """Start with empty statistics for every known site that is wanted."""
        self.statistics, self.on_device = {}, DeviceStatistics()
        for site, d in self._dimensions.items():
            if self.options.wants(site, self.tap.depth[site.stack]):
                second = self._has_second_moments(site)
                slices = [BODY] if site.kind in SINGLE_KINDS else self.feeder.slicer.names
                cosine, sample = self.options.cosine_sd and second, self.options.sample_at(site, d)
                self.statistics[site] = empty = SiteStatistics(d, slices, second=second, cosine=cosine, sample=sample)
                # A sink is told by norms, and directions have no second moments on a device: such states are copied to the host.
                origin = self._origins.get(site)  # pooled vectors have none: they are few, and come to the host
                if origin is not None and not (origin.on_host or cosine or "sink" in self.options.split_body):
                    self.on_device.add(site, origin, empty)
        if self.attention is not None:
            self.attention.begin(self.statistics, self.on_device)
            if not self.attention.sizes:
                raise IsoscopeError(f"{self.feeder.name} has no attention in its blocks; measure it without --taps attention.")
        self.on_device.allocate()
        if not self.statistics:
            raise IsoscopeError(f"--layers {self.options.layers} chooses no layer of {self.feeder.name}.")

    def _origin(self, site: Site, points: Tensor) -> Origin:
        state = Site(site.stack, "hidden", site.layer) if site.kind == "map" else site
        return Origin.of(points, self.tap.devices[state])

    def _has_second_moments(self, site: Site) -> bool:
        return self.options.wants_second(site, self.tap.depth[site.stack], self._dimensions[site])

    def reduce(self, batch: Batch) -> None:
        """Run one batch and reduce each of its states to the statistics of its site."""
        # A module's sites are known only after a forward pass, so the first batch runs twice: on a copy to learn, then to be measured.
        if not self.is_ready:
            self.learn(batch.rehearse)
        if not self._calibrated:
            self._calibrate(batch)
        self._layout = batch.layout
        if self.attention is not None:
            self.attention.layout = batch.layout
        self._run_tapped(batch.run)
        if self._pool is not None and self._pool.pooling.is_output and (output := self.feeder.pooled_output) is not None:
            for pooled in self._pooled.values():
                self._pool.add_vectors(self._statistics_of(pooled), pooled, output.flatten(1).cpu(), np.ones(len(output)), batch.layout)
        self._layout = None  # it holds the batch, which need not stay in memory while the next one is made
        if self.attention is not None:
            self.attention.layout = None
        for stack, calls in self.tap.calls.items():
            if calls != self.tap.depth[stack]:
                raise IsoscopeError(
                    f"The blocks of {self.feeder.name} were called {self.tap.depth[stack]} times in the first batch and {calls} times in a "
                    "later one; layers can be told apart only where every batch calls them alike."
                )
        self.on_device.end_batch()
        self.feeder.finish_batch(batch)

    def _calibrate(self, first: Batch) -> None:
        """Learn from a few batches which part of the queries `--ablate-queries` removes."""
        assert self.attention is not None
        with self._ignoring_states():
            for batch in self.feeder.calibration_batches(first):
                self.attention.calibrate(partial(self._run_tapped, batch.rehearse), batch.layout)
        self._calibrated = True

    def follow(self, run: Callable[[], object], mode: contextlib.AbstractContextManager[Any]) -> None:
        """Run one forward pass under a mode of the caller, which may ask `tap.running` for the current block; nothing is reduced."""
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
        # Attached for one pass only: between two of them, and after an exception, the model is as its owner made it.
        with torch.inference_mode(), self.tap.attach(), mode:
            run()

    def _readings(self, site: Site, tensor: Tensor) -> Iterator[tuple[Site, Tensor]]:
        """Yield the readings of a state: as it is, and on request one vector per image for a map."""
        maps = self.options.image_maps if self.feeder.has_maps and site.kind == "hidden" else "per-position"
        if maps != "per-image":
            yield site, tensor
        if maps != "per-position":
            yield Site(site.stack, "map", site.layer), tensor.flatten(1)

    def _receive(self, site: Site, tensor: Tensor) -> None:
        """Reduce a state that the tap hands over, in the middle of a forward pass."""
        for reading, state in self._readings(site, tensor):
            statistics = self.statistics.get(reading)
            if isinstance(statistics, SiteStatistics) and self._layout is not None:
                points = points_of(state)
                b, t = points.shape[:2]
                layout = self._layout.of_maps(b) if reading.kind == "map" else self._layout.of_states(reading.stack, b, t)
                if reading in self.on_device:
                    self.on_device.reduce([reading], [points[:, None]], layout)
                else:
                    reduce_state(statistics, points.cpu(), layout, reading, self.feeder.name)
        if self._pool is not None and self._layout is not None and site in self._pooled and not self._pool.pooling.is_output:
            points = points_of(tensor)
            layout = self._layout.of_states(site.stack, *points.shape[:2])
            self._pool.add_states(self._statistics_of(self._pooled[site]), self._pooled[site], points.cpu(), layout, self._layout)

    def _statistics_of(self, site: Site) -> SiteStatistics:
        statistics = self.statistics[site]
        assert isinstance(statistics, SiteStatistics)
        return statistics

    def collect(self) -> Statistics:
        """The statistics so far, on the host; those on a device come in one transfer."""
        return self.on_device.collect(self.statistics, self.feeder.name)

    def resume(self, cursor: dict[str, int], arrays: dict[str, np.ndarray]) -> None:
        """Continue from a saved state; raise a `StateMisfitError`, and change nothing, if it does not belong to these sites."""
        # All checks come before the first change: a state that is refused must leave the empty statistics as they are.
        if cursor.keys() != self.feeder.cursor().keys():
            raise StateMisfitError("the state counts other things")
        if mistake := mistake_in_statistics(group_by_site(arrays)):
            raise StateMisfitError(f"the state is damaged: {mistake}")
        saved = unpack_statistics(arrays)
        # What else decides what is kept, such as the size of the sample, is part of the key under which the state was saved.
        if {site: layout_of(kept) for site, kept in saved.items()} != {site: layout_of(empty) for site, empty in self.statistics.items()}:
            raise StateMisfitError("the state is of other sites, or of sites with other widths, heads or slices")
        # In place: the attention sites hold the same dictionary.
        self.statistics.update(saved)
        self.feeder.move_to(cursor)

    def finish(self) -> Statistics:
        """The statistics of every site and of the embedding tables, in the order of a table. All hold points, or none of a shard."""
        self.statistics = self.collect()
        self.on_device.clear()
        if self.options.shard[1] == 1 or any(statistics.slices_in_use for statistics in self.statistics.values()):
            self.feeder.check_not_empty()
            for site, statistics in self.statistics.items():
                if not statistics.slices_in_use:
                    raise IsoscopeError(f"{site.label} of {self.feeder.name} received no points.")
        if self.options.shard[0] == 0:  # the tables belong to the whole source: the first shard has them
            for site, table in self._wanted_tables().items():
                self.statistics[site] = self._reduce_table(site, table)
        return dict(sorted(self.statistics.items(), key=lambda pair: pair[0].order))

    def _wanted_tables(self) -> dict[Site, Tensor]:
        return {site: table for site, table in self.feeder.tables().items() if self.options.wants(site, 0)}

    def _reduce_table(self, site: Site, table: Tensor) -> SiteStatistics:
        n, d = table.shape
        reads = ["directions", "sums", "groups", "sample", *(["second"] if self.options.wants_second(site, 0, d) else [])]
        held = table.detach().cpu()  # from a device in one transfer
        # In blocks: a table may be half of the model, and a float32 copy of it would not fit next to the model.
        rows = (held[i : i + TABLE_ROWS].float().numpy() for i in range(0, n, TABLE_ROWS))
        name = f"{site.kind} of {self.feeder.name}"
        return accumulate(rows, n, d, reads, allow_wide=True, sample=self.options.sample, seed=self.options.seed, name=name)

    def sizes(self, tokens: int | None) -> list[StatisticsSize]:
        """The size of the statistics of every site and table; `tokens` is how many points a site will see, if that is known."""
        sizes = [] if self.attention is None else self.attention.statistics_sizes()
        for site, d in self._dimensions.items():
            if site in self.statistics:
                matrices = self._has_second_moments(site) * (1 + self.options.cosine_sd)
                slices = 1 if site.kind in SINGLE_KINDS else len(self.feeder.slicer.names)
                sizes.append(StatisticsSize.of_points(d, slices, matrices, self.options.sample_at(site, d), tokens))
        for site, table in self._wanted_tables().items():
            n, d = table.shape
            sizes.append(StatisticsSize.of_points(d, 1, int(self.options.wants_second(site, 0, d)), self.options.sample, n))
        return sizes

    def marks(self) -> dict[str, Any]:
        """The settings about the taps for every row: stages, layout of channels, autocast, and cosines of activations alone."""
        tap = self.tap
        by_stage = {stack: of_blocks for stack, blocks in tap.stacks.items() if (of_blocks := number_stages(blocks)) is not None}
        layouts = {site.label: layout for site, layout in tap.layouts.items()} if tap.channels is None else {}
        channels: Any = next(iter(layouts.values())) if len(set(layouts.values())) == 1 else layouts
        pool = "" if self._pool is None else str(self._pool.pooling)
        marks = {"pool": pool, "stages": by_stage, "channels": channels, "activation_nulls": tap.nulls, "autocast": tap.autocast}
        return {name: value for name, value in marks.items() if value}
