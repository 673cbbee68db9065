"""One pass over batches: a model by name, a module or a watched model differ in how their batches are made and fed, and in nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from isoscope.core.site import Site
from isoscope.estimation.matrix_cloud import accumulate
from isoscope.measuring.memory_estimate import Plan, SitePlan
from isoscope.measuring.options import Options
from isoscope.measuring.sites import Sites
from isoscope.models.loading.family import Stack
from isoscope.models.tapping.blocks import Blocks
from isoscope.models.tapping.layout import BatchLayout, Slicer
from isoscope.runs.states import mistake_in_statistics
from isoscope.runs.tensors import group_by_site, unpack_statistics
from isoscope.statistics.any_statistics import Statistics, fits, state_of
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
    """The same forward pass, after which the batch is still as it was: a module may change what it is given."""
    layout: BatchLayout


class Feeder(Protocol):
    """Makes the batches of one model and feeds them to it."""

    name: str
    stacks: dict[str, Stack]
    slicer: Slicer
    inner: bool
    """Whether states around the last norm and the last activation of a block are sites too."""
    has_maps: bool
    """Whether states may be maps of images."""
    channels: str | None
    """How the channels of maps lie, `first` or `last`; None: find out."""
    longest: int | None
    """The most positions that a sequence may have, if that is known."""
    unit: str
    """What `done` counts."""
    counted_unit: str
    """What `counted` counts."""

    @property
    def done(self) -> int:
        """How many units are done."""

    @property
    def counted(self) -> int:
        """How many tokens, frames, images or rows were measured."""

    def total(self) -> int | None:
        """How many units there are; None if counting them would be expensive."""

    def tables(self) -> dict[Site, Tensor]:
        """The embedding tables of the model."""

    def check_blocks(self, blocks: Blocks) -> None:
        """Refuse blocks that cannot be measured."""

    def start_measuring(self, sites: Sites) -> None:
        """Take note of what the first pass has shown about the model."""

    def windows(self) -> Iterator[Iterable[Batch]]:
        """Batches, in groups between which a measurement may be interrupted and resumed."""

    def calibration_batches(self, first: Batch) -> Iterable[Batch]:
        """The batches from which mean queries and largest dimensions are computed; `first` is about to be measured."""

    def finish_batch(self, batch: Batch) -> None:
        """Count a batch that was measured."""

    def check_not_empty(self) -> None:
        """Refuse a source that gave nothing."""

    def cursor(self) -> dict[str, int]:
        """How far the source was read."""

    def move_to(self, cursor: dict[str, int]) -> None:
        """Continue to read the source from there."""


class Pass:
    """Finds the sites of a model with a first forward pass and reduces all batches of its feeder to their statistics."""

    def __init__(self, feeder: Feeder, options: Options) -> None:
        self.feeder, self.options = feeder, options
        self._sites: Sites | None = None
        self._calibrated = not options.ablate_queries

    @property
    def is_ready(self) -> bool:
        """Whether the sites are known."""
        return self._sites is not None

    @property
    def sites(self) -> Sites:
        """The sites, once they are known."""
        assert self._sites is not None, "the sites of a pass are known after its first forward pass"
        return self._sites

    @property
    def statistics(self) -> Statistics:
        """The statistics by site."""
        return self.sites.statistics

    def learn(self, run: Callable[[], object]) -> None:
        """Find the sites with one forward pass."""
        feeder = self.feeder
        sites = Sites(
            feeder.stacks,
            self.options,
            feeder.slicer.names,
            feeder.name,
            inner=feeder.inner,
            maps=feeder.has_maps,
            channels=feeder.channels,
            longest=feeder.longest,
        )
        for blocks in sites.tap.stacks.values():
            feeder.check_blocks(blocks)
        sites.learn(run, feeder.tables())
        feeder.start_measuring(sites)
        self._sites = sites

    def reduce(self, batch: Batch) -> None:
        """Run one batch and reduce its states."""
        if not self.is_ready:
            self.learn(batch.rehearse)
        if not self._calibrated:
            for calibration in self.feeder.calibration_batches(batch):
                self.sites.calibrate(calibration.rehearse, calibration.layout)
            self._calibrated = True
        self.sites.reduce(batch.run, batch.layout)
        self.feeder.finish_batch(batch)

    def resume(self, cursor: dict[str, int], arrays: dict[str, np.ndarray]) -> None:
        """Continue from a saved state; raise a `StateMisfitError`, and change nothing, if it does not belong to these sites."""
        states = group_by_site(arrays)
        if cursor.keys() != self.feeder.cursor().keys():
            raise StateMisfitError("the state counts other things")
        if states.keys() != {site.label for site in self.statistics}:
            raise StateMisfitError("the state is of other sites")
        if not all(fits(states[site.label], state_of(empty)) for site, empty in self.statistics.items()):
            raise StateMisfitError("the state is of sites that are kept otherwise")
        if mistake := mistake_in_statistics(states):
            raise StateMisfitError(f"the state is damaged: {mistake}")
        self.statistics.update(unpack_statistics(arrays))
        self.feeder.move_to(cursor)

    def finish(self, *, allow_empty: bool = False) -> Statistics:
        """The statistics of every site and of the embedding tables, in the order of a table; each must hold points, unless none may."""
        if not allow_empty:
            self.feeder.check_not_empty()
            self.sites.check()
        if self.options.shard[0] == 0:  # the tables belong to the whole source: the first shard has them
            for site, table in self._wanted_tables().items():
                self.statistics[site] = self._reduce_table(site, table)
        return dict(sorted(self.statistics.items(), key=lambda pair: pair[0].order))

    def _wanted_tables(self) -> dict[Site, Tensor]:
        return {site: table for site, table in self.feeder.tables().items() if self.options.wants(site, 0)}

    def _reduce_table(self, site: Site, table: Tensor) -> SiteStatistics:
        n, d = table.shape
        reads = ["directions", "sums", "groups", "sample", *(["second"] if self.options.wants_second(site, 0, d) else [])]
        rows = (table[i : i + TABLE_ROWS].detach().float().cpu().numpy() for i in range(0, n, TABLE_ROWS))
        name = f"{site.kind} of {self.feeder.name}"
        return accumulate(rows, n, d, reads, allow_wide=True, sample=self.options.sample, seed=self.options.seed, name=name)

    def plans(self, tokens: int | None) -> list[Plan]:
        """The size of the statistics of every site and table; `tokens` is how many points a site will see, if that is known."""
        plans = self.sites.plans(tokens)
        for site, table in self._wanted_tables().items():
            n, d = table.shape
            plans.append(SitePlan(d, 1, self.options.wants_second(site, 0, d), False, self.options.sample, n))
        return plans

    def marks(self) -> dict[str, Any]:
        """What the settings of every row say about the taps."""
        return self.sites.marks()
