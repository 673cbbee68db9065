"""One pass of one model over one shard of a source: everything between a loaded model and its statistics."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.core.source import Source
from isoscope.core.version import __version__
from isoscope.engine.announce import SitePlan, forget_peak, give_back, human, peak_memory
from isoscope.engine.options import Options
from isoscope.engine.stream import WINDOW_BATCHES, Cursor, Sequence, Slicer, Stream, batches, frequency_bins, last_parts
from isoscope.models.load import load
from isoscope.models.reference import ModelReference
from isoscope.models.tap import Layout, Tap, absorb
from isoscope.models.tokens import encode
from isoscope.statistics.matrix import accumulate
from isoscope.statistics.site_statistics import SiteStatistics
from isoscope.store.cell import unpack

DEFAULT_SEQ_LEN = 512
STATIC_ROWS = 1024
PAGE = 1024


class Pass:
    """Loads the model, finds its sites with a short first pass, and reduces the rest of the source to their statistics."""

    def __init__(self, reference: ModelReference, source: Source, options: Options) -> None:
        self.reference, self.source, self.options = reference, source, options
        self.model = load(
            reference,
            dtype=options.dtype,
            device=options.device,
            trust_remote_code=options.trust_remote_code,
            allow_partial=options.allow_partial,
            seed=options.seed,
        )
        self.seq_len = self._seq_len()
        self.batch_tokens = options.batch_size * self.seq_len
        self.stream = Stream(source, self._encode, options.max_tokens, options.shard)
        self.by_sequence = self.stream.by_sequence()
        bins = frequency_bins(self.stream) if "frequency" in options.split else None
        self.slicer = Slicer(options.split, self.seq_len, bins)
        self.layouts: dict[str, Layout] = {}
        self.sites: dict[Site, SiteStatistics] = {}
        self.second: dict[Site, bool] = {}
        self.tap = Tap(self.model.family.stacks(self.model.base), self._receive)
        self.shapes = self._probe()
        self._prepare()

    def _encode(self, text: str) -> list[Any]:
        return encode(self.model.tokenizer, text, self.seq_len)

    def _seq_len(self) -> int:
        longest = self.model.longest()
        if self.options.seq_len is None:
            return min(DEFAULT_SEQ_LEN, longest or DEFAULT_SEQ_LEN)
        if longest is not None and self.options.seq_len > longest:
            raise IsoscopeError(f"{self.reference.name} takes at most {longest} tokens a sequence; --seq-len was {self.options.seq_len}.")
        return self.options.seq_len

    def _probe(self) -> dict[Site, int]:
        """Every site and its dimension, from a forward pass over four tokens."""
        shapes: dict[Site, int] = {}
        self.tap.receive = lambda site, tensor: shapes.__setitem__(site, int(tensor.shape[-1]))
        ids = torch.ones((1, 4), dtype=torch.long, device=self.model.device)
        self._forward(ids, torch.ones_like(ids))
        self.tap.receive = self._receive
        for stack in self.tap.stacks:
            if Site(stack, "hidden", 0) not in shapes or self.tap.calls[stack] == 0:
                raise IsoscopeError(
                    f"The {stack} of {self.reference.name} received no points; its blocks are not called in a forward pass."
                )
        return shapes

    def _forward(self, ids: Tensor, mask: Tensor) -> None:
        self.tap.begin()
        with torch.inference_mode(), self.tap.attached():
            try:
                self.model.base(**self.model.family.feed(self.model.base, ids, mask))
            except IndexError as error:
                raise IsoscopeError(
                    f"{self.reference.name} has no embedding for a token or position it was given ({error}); its tokenizer and its "
                    "weights do not belong together, or --seq-len is too long."
                ) from error

    def _prepare(self) -> None:
        """Statistics for every site that is wanted, and those of the static tables at once."""
        for site, d in self.shapes.items():
            depth = self.tap.calls[site.stack]
            if self.options.wants(site, depth):
                self.second[site] = self.options.wants_second(site, depth, d)
                self.sites[site] = SiteStatistics(
                    d, self.slicer.names, second=self.second[site], cosine=self.options.cosine_sd, sample=self.options.sample
                )
        if not self.sites:
            raise IsoscopeError(f"--layers {self.options.layers} chooses no layer of {self.reference.name}.")

    def static_tables(self) -> dict[Site, Tensor]:
        """The embedding tables as sites; the output table only where it is not the input table."""
        stacks = list(self.tap.stacks)
        first, last = stacks[0], stacks[-1]
        inner, outer = self.model.whole.get_input_embeddings(), self.model.whole.get_output_embeddings()
        found: dict[Site, Tensor] = {}
        if inner is not None and hasattr(inner, "weight"):
            found[Site(first, "input_embedding")] = inner.weight
        if outer is not None and hasattr(outer, "weight") and (inner is None or outer.weight.data_ptr() != inner.weight.data_ptr()):
            found[Site(last, "output_embedding")] = outer.weight
        return {site: table for site, table in found.items() if self.options.wants(site, 0)}

    def _receive(self, site: Site, tensor: Tensor) -> None:
        if site in self.sites:
            absorb(self.sites[site], tensor, self.layouts[site.stack], site, self.reference.name)

    def resume(self, cursor: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Go on from a saved state."""
        self.sites = unpack(arrays)
        self.stream.cursor = Cursor(**cursor)

    def run(self) -> Iterator[None]:
        """Measure window after window; between two the state may be saved."""
        for window in self.stream.windows(WINDOW_BATCHES * self.batch_tokens, by_sequence=self.by_sequence):
            batched = list(batches(window, self.batch_tokens))
            for batch, last in zip(batched, last_parts(batched), strict=True):
                self._measure(batch, last)
                give_back()
            yield

    def _measure(self, batch: list[Sequence], last: np.ndarray) -> None:
        width = len(batch[0].tokens.ids)
        ids = torch.full((len(batch), width), self._padding, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, sequence in enumerate(batch):
            n = len(sequence.tokens.ids)
            ids[row, :n] = torch.from_numpy(sequence.tokens.ids)
            mask[row, :n] = 1
        start = self.model.family.start(self.model.config)
        for number, stack in enumerate(self.tap.stacks):
            self.layouts[stack] = self.slicer.layout(batch, last, self.options.seed, start=start if number else None)
        self._forward(ids.to(self.model.device), mask.to(self.model.device))

    @cached_property
    def _padding(self) -> int:
        for token in (self.model.tokenizer.pad_token_id, getattr(self.model.config, "pad_token_id", None)):
            if token is not None:
                return int(token)
        return 0

    def finish(self) -> None:
        """The static tables, and the check that every site saw points."""
        if not self.stream.cursor.measured_tokens:
            if self.options.shard[1] == 1:
                raise IsoscopeError(f"{self.source.name} gives {self.reference.name} no tokens.")
            i, k = self.options.shard
            raise IsoscopeError(f"Shard {i + 1}/{k} of {self.source.name} holds no documents; use fewer shards.")
        for site, statistics in self.sites.items():
            if not statistics.filled:
                raise IsoscopeError(f"{site.label} of {self.reference.name} received no points.")
        if self.options.shard[0] == 0:
            for site, table in self.static_tables().items():
                self.sites[site] = self._static(site, table)
                give_back()
        self.sites = dict(sorted(self.sites.items(), key=lambda pair: pair[0].order))

    def _static(self, site: Site, table: Tensor) -> SiteStatistics:
        n, d = table.shape
        reads = ["directions", "sums", "groups", "sample", *(["second"] if self.options.wants_second(site, 0, d) else [])]
        rows = (table[i : i + STATIC_ROWS].detach().float().cpu().numpy() for i in range(0, n, STATIC_ROWS))
        name = f"{site.kind} of {self.reference.name}"
        return accumulate(rows, n, d, reads, allow_wide=True, sample=self.options.sample, seed=self.options.seed, name=name)

    def expected_items(self) -> int | None:
        """How many items there are, where counting them is cheap; a bar needs it."""
        return None if self.options.max_tokens is not None else getattr(self.source, "count", lambda: None)()

    def _plans(self) -> list[SitePlan]:
        o = self.options
        plans = [SitePlan(self.shapes[site], 3, self.second[site], o.cosine_sd, o.sample, o.max_tokens) for site in self.sites]
        return plans + [
            SitePlan(int(t.shape[1]), 1, t.shape[1] <= 2048, False, o.sample, int(t.shape[0])) for t in self.static_tables().values()
        ]

    def disk(self) -> int:
        """Bytes the cell will take on disk."""
        return sum(plan.disk(self.options.keep) for plan in self._plans())

    def memory(self) -> int:
        """The peak to expect: what the process holds, a forward pass of the largest batch (tried here) and the statistics."""
        gc.collect()
        for weight in self.model.whole.parameters():
            weight.detach().reshape(-1)[::PAGE].sum()  # a file's weights come into memory when they are read: read a bit of every page
        forget_peak()
        ids = torch.full((self.options.batch_size, self.seq_len), 1, dtype=torch.long, device=self.model.device)
        mask = torch.ones_like(ids)
        mask[0, 1:] = 0  # with padding, as batches have it: a mask of its own takes memory too
        with torch.inference_mode():
            self.model.base(**self.model.family.feed(self.model.base, ids, mask))
        return peak_memory() + sum(plan.memory() for plan in self._plans()) + self._working()

    def _working(self) -> int:
        """What reducing one state takes for a moment: shifted rows, their products, and a full sample while it is cut to size."""
        widest = max(self.shapes[site] for site in self.sites)
        cut = 3 * self.options.sample + 2 * self.batch_tokens if self.options.sample else 0
        return 4 * (self.batch_tokens + cut) * widest + 8 * widest**2

    def notes(self) -> list[str]:
        """What a user should know before it starts."""
        layers = "1 layer" if len(self.sites) == 1 else f"{len(self.sites)} layers"
        said = [f"{layers}, about {human(self.memory())} of memory at the peak and {human(self.disk())} on disk"]
        if self.by_sequence:
            said.append("fewer than 30 documents: intervals are over sequences, which are less independent than documents")
        if self.reference.untrained:
            said.append(f"weights at initialisation, seed {self.options.seed}")
        return said

    def columns(self) -> dict[str, Any]:
        """What the table says of the model in every row."""
        return {
            "model": self.reference.name,
            "revision": self.reference.revision,
            "step": 0 if self.reference.untrained else None,
            "seed": self.options.seed if self.reference.untrained else None,
            "modality": self.model.family.modality,
            "family": self.model.family.name,
        }

    def spec(self) -> dict[str, Any]:
        """What moves a number: data, lengths, types, seeds, versions."""
        cursor, o = self.stream.cursor, self.options
        return {
            "data": self.source.name,
            "fingerprint": self.source.fingerprint,
            "weights": self.reference.weights,
            "architecture": type(self.model.whole).__name__,
            "documents": cursor.measured_items,
            "tokens": cursor.measured_tokens,
            "max_tokens": o.max_tokens,
            "seq_len": self.seq_len,
            "dtype": o.dtype,
            "partial_weights": o.allow_partial,
            "sample": o.sample,
            "seed": o.seed,
            "shard": f"{o.shard[0] + 1}/{o.shard[1]}",
            "unit": "sequence" if self.by_sequence else "document",
            "isoscope": __version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "numpy": np.__version__,
        }
