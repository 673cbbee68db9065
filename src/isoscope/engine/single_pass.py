"""One pass of one model over one shard of a source: everything between a loaded model and its statistics."""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import islice
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.core.source import Source
from isoscope.core.version import __version__
from isoscope.engine.announce import Plan, SitePlan, forget_peak, give_back, human, peak_memory, steady
from isoscope.engine.options import SAMPLE_UP_TO, Options
from isoscope.engine.sites import Sites
from isoscope.engine.stream import WINDOW_BATCHES, Cursor, Sequence, Slicer, Stream, batches, frequency_bins, last_parts
from isoscope.models.device_map import weight_of
from isoscope.models.load import LoadedModel, load
from isoscope.models.model_errors import CANNOT_RUN, model_errors_as_user_errors
from isoscope.models.piece import Fed
from isoscope.models.reference import ModelReference
from isoscope.statistics.kept import Statistics, fits, state_of
from isoscope.statistics.kernel import warm_up
from isoscope.statistics.matrix import accumulate
from isoscope.statistics.site_statistics import SiteStatistics
from isoscope.store.cell import by_label, unpack
from isoscope.store.states import mistake_in_statistics

STATIC_ROWS = 1024
"""Rows of an embedding table that are read at a time."""
CALIBRATE = 64
"""Sequences by which mean queries and largest dimensions are found."""
PAGE = 1024
"""Numbers of four bytes to a page of memory."""


_held: dict[tuple[Any, ...], LoadedModel] = {}
"""The model that shards of one corpus share in this process; tapped or not it computes the same, so it need not be loaded again."""


def _loaded(reference: ModelReference, options: Options, *, hold: bool) -> LoadedModel:
    """The model, loaded or held; with `hold` it is there for the next shard, and no other is."""
    chosen: dict[str, Any] = {
        "dtype": options.dtype,
        "device": options.device,
        "trust_remote_code": options.trust_remote_code,
        "allow_partial": options.allow_partial,
        "seed": options.seed,
        "device_map": options.device_map,
    }
    key = (reference.weights, *chosen.values())
    if hold and key in _held:
        return _held[key]
    _held.clear()
    model = load(reference, **chosen)
    if hold:
        _held[key] = model
    return model


class StateMisfitError(Exception):
    """A saved state that is not one of the sites which are measured."""


class Pass:
    """Loads the model, finds its sites with a short first pass, and reduces the rest of the source to their statistics."""

    def __init__(self, reference: ModelReference, source: Source, options: Options, *, hold: bool = False) -> None:
        self.reference, self.source, self.options = reference, source, options
        self.model = _loaded(reference, options, hold=hold)
        self.reader = self.model.family.reader(self.model, options.seq_len)
        if self.reader.unit != "tokens" and (of_tokens := [one for one in options.split_body if one != "sink"]):
            raise IsoscopeError(f"--split-body {of_tokens[0]} divides tokens; {reference.name} reads {self.reader.unit}.")
        self.batch_tokens = options.batch_size * self.reader.seq_len
        self.stream = Stream(source, self.reader.pieces, options.max_tokens, options.shard, options.max_items)
        self.by_sequence = self.stream.by_sequence()
        bins = frequency_bins(self.stream) if "frequency" in options.split_body else None
        self.slicer = Slicer(options.split_body, self.reader.seq_len, bins)
        family = self.model.family
        images = self.reader.unit == "images"
        self.taps = Sites(
            family.stacks(self.model.base),
            options,
            self.slicer.names,
            reference.name,
            inner=family.inner,
            maps=images,
            longest=None if images else self.reader.seq_len,
        )
        probe = self.reader.feed(self.reader.probe(1, 4))
        self.taps.learn(lambda: self._forward(probe), self._tables())

    @property
    def sites(self) -> Statistics:
        """The statistics by site."""
        return self.taps.statistics

    def _forward(self, fed: Fed) -> None:
        with torch.inference_mode(), model_errors_as_user_errors(self.reference, CANNOT_RUN):
            try:
                self.model.base(**fed.arguments)
            except IndexError as error:
                raise IsoscopeError(
                    f"{self.reference.name} has no embedding for a token or position it was given ({error}); its tokenizer and its "
                    "weights do not belong together, or --seq-len is too long."
                ) from error

    def static_tables(self) -> dict[Site, Tensor]:
        """The embedding tables that the options ask for."""
        return {site: table for site, table in self._tables().items() if self.options.wants(site, 0)}

    def _tables(self) -> dict[Site, Tensor]:
        """The embedding tables as sites; the output table only if the checkpoint has it and it is not the input table."""
        inner, outer = self._table(self.model.whole.get_input_embeddings), self._table(lambda: self.model.output_embedding)
        found: dict[Site, Tensor] = {}
        if inner is not None:
            found[Site(self._owner(inner), "input_embedding")] = weight_of(inner)
        if outer is not None and (inner is None or weight_of(outer).data_ptr() != weight_of(inner).data_ptr()):
            found[Site(list(self.taps.tap.stacks)[-1], "output_embedding")] = weight_of(outer)
        return found

    def _table(self, ask: Callable[[], Any]) -> Any:
        """A table of embeddings; models of images or sound have none, and say so in their own ways."""
        with contextlib.suppress(NotImplementedError):
            found = ask()
            weight = getattr(found, "weight", None)
            return found if weight is not None and weight.dim() == 2 and self.model.family.source in ("text", "speech") else None
        return None

    def _owner(self, table: torch.nn.Module) -> str:
        """The stack that a table belongs to: the one that holds it, or the first."""
        held = [
            name for name, stack in self.model.family.stacks(self.model.base).items() if any(m is table for m in stack.module.modules())
        ]
        return (held or list(self.taps.tap.stacks))[0]

    def resume(self, cursor: dict[str, int], arrays: dict[str, np.ndarray]) -> None:
        """Continue from a saved state; a `StateMisfitError` where it is not one of these sites'."""
        states = by_label(arrays)
        if cursor.keys() != {field.name for field in fields(Cursor)}:
            raise StateMisfitError("the state counts other things")
        if states.keys() != {site.label for site in self.sites}:
            raise StateMisfitError("the state is of other sites")
        if not all(fits(states[site.label], state_of(kept)) for site, kept in self.sites.items()):
            raise StateMisfitError("the state is of sites that are kept otherwise")
        if wrong := mistake_in_statistics(states):
            raise StateMisfitError(f"the state is damaged: {wrong}")
        self.sites.update(unpack(arrays))
        self.stream.cursor = Cursor(**cursor)

    def run(self) -> Iterator[None]:
        """Measure window after window; between two the state may be saved."""
        self._settle()
        self.taps.reserve(self._points)
        if self.options.ablate_queries:
            self._calibrate()
        # Only where lengths can be mixed is it worth holding many inputs, to sort them.
        held = WINDOW_BATCHES if self.reader.unit == "tokens" else 1
        for window in self.stream.windows(held * self.batch_tokens, by_sequence=self.by_sequence):
            batched = list(batches(window, self.batch_tokens, pads=self.reader.pads))
            for batch, last in zip(batched, last_parts(batched), strict=True):
                self._measure(batch, last)
                give_back()
            del window, batched, batch  # or they would lie beside the next window while it is read
            yield

    def _settle(self) -> None:
        """Have all that the first batch would bring into memory, so that later ones find the room in which it was measured."""
        steady()
        warm_up()
        for weight in self.model.whole.parameters():
            weight.detach().reshape(-1)[::PAGE].sum()  # a file's weights come into memory when they are read: read a bit of every page

    def _calibrate(self) -> None:
        """The first sequences of the whole source, whatever the shard: what is taken out of queries is found from them."""
        first = Stream(self.source, self.reader.pieces, None, max_items=self.options.max_items)
        sequences = islice((sequence for window in first.windows(1, by_sequence=True) for sequence in window), CALIBRATE)
        for batch in batches(list(sequences), self.batch_tokens, pads=self.reader.pads):
            fed = self.reader.feed([sequence.piece for sequence in batch])
            laid = self.slicer.laid(batch, np.ones(len(batch), dtype=bool), self.options.seed, fed.positions)
            self.taps.calibrate(functools.partial(self._forward, fed), laid)

    def _measure(self, batch: list[Sequence], last: np.ndarray) -> None:
        fed = self.reader.feed([sequence.piece for sequence in batch])
        laid = self.slicer.laid(batch, last, self.options.seed, fed.positions)
        self.taps.measure(lambda: self._forward(fed), laid)

    def finish(self, *, empty: bool = False) -> None:
        """The static tables, and the check that every site saw points, unless there may be none."""
        if not empty and not self.stream.cursor.measured_tokens:
            if self.options.shard[1] == 1:
                raise IsoscopeError(f"{self.source.name} gives {self.reference.name} no {self.reader.unit}.")
            i, k = self.options.shard
            raise IsoscopeError(f"Shard {i + 1}/{k} of {self.source.name} holds no items; use fewer shards.")
        if not empty:
            self.taps.check()
        if self.options.shard[0] == 0:
            for site, table in self.static_tables().items():
                self.sites[site] = self._static(site, table)
                give_back()
        self.taps.statistics = dict(sorted(self.sites.items(), key=lambda pair: pair[0].order))

    def _static(self, site: Site, table: Tensor) -> SiteStatistics:
        n, d = table.shape
        reads = ["directions", "sums", "groups", "sample", *(["second"] if self.options.wants_second(site, 0, d) else [])]
        rows = (table[i : i + STATIC_ROWS].detach().float().cpu().numpy() for i in range(0, n, STATIC_ROWS))
        name = f"{site.kind} of {self.reference.name}"
        return accumulate(rows, n, d, reads, allow_wide=True, sample=self.options.sample, seed=self.options.seed, name=name)

    def expected_items(self) -> int | None:
        """How many items there are, where counting them is cheap; a bar needs it."""
        if self.options.max_tokens is not None:
            return None
        counted: int | None = getattr(self.source, "count", lambda: None)()
        return min(counted, self.options.max_items or counted) if counted is not None else None

    @property
    def _points(self) -> int | None:
        """How many points a site will see, where that is known."""
        return self.options.max_tokens if self.reader.unit == "tokens" else None

    def _plans(self) -> list[Plan]:
        o = self.options
        plans = self.taps.plans(self._points)
        return plans + [
            SitePlan(int(table.shape[1]), 1, o.wants_second(site, 0, int(table.shape[1])), False, o.sample, int(table.shape[0]))
            for site, table in self.static_tables().items()
        ]

    def disk(self) -> int:
        """Bytes the cell will take on disk."""
        return sum(plan.disk(self.options.store) for plan in self._plans())

    def memory(self) -> int:
        """The peak to expect: what the process holds, a forward pass of the largest batch (tried here) and the statistics."""
        gc.collect()
        self._settle()
        forget_peak()
        pieces = self.reader.probe(self.options.batch_size, self.reader.seq_len)
        if self.reader.unit == "tokens" and len(pieces) > 1 and self.reader.pads:
            pieces[0] = self.reader.probe(1, 1)[0]  # with padding, as batches have it: a mask of its own takes memory too
        self._forward(self.reader.feed(pieces))
        return peak_memory() + sum(plan.memory() for plan in self._plans()) + self._working()

    def _working(self) -> int:
        """What reducing one state takes for a moment: shifted rows, their products, and a full sample while it is cut to size."""
        widest = max((d for d in self.taps.shapes.values() if d <= SAMPLE_UP_TO), default=0)
        cut = 3 * self.options.sample + 2 * self.batch_tokens if self.options.sample else 0
        return 4 * (self.batch_tokens + cut) * widest + 8 * widest**2

    def notes(self) -> list[str]:
        """What a user should know before it starts."""
        layers = "1 site" if len(self.sites) == 1 else f"{len(self.sites)} sites"
        said = [f"{layers}, about {human(self.memory())} of memory at the peak and {human(self.disk())} on disk"]
        if self.by_sequence and self.reader.unit != "images":
            said.append("fewer than 30 items: intervals are over the pieces that they were cut into, which are less independent than items")
        if self.reference.untrained:
            said.append(f"weights at initialisation, seed {self.options.seed}")
        if self.reader.special_tokens:
            said.append(f"special tokens fed: {self.reader.special_tokens}")
        return said

    def columns(self) -> dict[str, Any]:
        """What the table says of the model in every row."""
        return {
            "model": self.reference.name,
            "revision": self.reference.revision,
            "step": 0 if self.reference.untrained else self.reference.step,
            "seed": self.options.seed if self.reference.untrained else self.reference.seed,
            "modality": self.model.modality,
            "family": self.model.family.name,
        }

    def spec(self) -> dict[str, Any]:
        """What moves a number: data, lengths, types, seeds, versions."""
        cursor, o, fit = self.stream.cursor, self.options, self.model.fit
        return {
            "data": self.source.name,
            "fingerprint": self.source.fingerprint,
            "weights": self.reference.weights,
            "architecture": type(self.model.whole).__name__,
            "documents": cursor.measured_items,
            "tokens": cursor.measured_tokens,
            "max_tokens": o.max_tokens,
            "seq_len": self.reader.seq_len,
            "counted": self.reader.unit,
            **({"special_tokens": self.reader.special_tokens} if self.reader.special_tokens else {}),
            "dtype": o.dtype,
            "partial_weights": o.allow_partial,
            **({"weights_that_do_not_fit": misfit} if (misfit := "; ".join(filter(None, (fit.inside, fit.outside)))) else {}),
            "sample": o.sample,
            "seed": o.seed,
            "shard": f"{o.shard[0] + 1}/{o.shard[1]}",
            "unit": "sequence" if self.by_sequence else "document",
            "isoscope": __version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "numpy": np.__version__,
        } | self.taps.marks()
