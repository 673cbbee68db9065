"""Feeds a model by name: its reader makes batches from the items of a source."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor

from isoscope import __version__
from isoscope.core.errors import IsoscopeError
from isoscope.core.machine import check_disk
from isoscope.core.site import Site
from isoscope.core.source import Source
from isoscope.core.wording import format_bytes
from isoscope.measuring.cost_estimate import estimate_peak, note_call_sizes
from isoscope.measuring.options import DEFAULT_BATCH, TEXT_BATCH_ON_CPU, Options
from isoscope.measuring.pooling import Pooling, choose_pooling, declared_pooling
from isoscope.measuring.single_pass import Batch, Feeder, Pass
from isoscope.measuring.stream import WINDOW_BATCHES, Cursor, Sequence, Stream, frequency_bins, make_batches, mark_last_parts
from isoscope.models.loading.chunk import ModelInput
from isoscope.models.loading.family import LoadedModel
from isoscope.models.loading.load import load_model, weight_of
from isoscope.models.model_errors import CANNOT_RUN, model_errors_as_user_errors
from isoscope.models.naming.model_name import ModelReference
from isoscope.models.tapping.layout import BatchLayout, Rows, Slicer

CALIBRATION_SEQUENCES = 64
"""Sequences from which mean queries and largest dimensions are computed."""
PROBE_TOKENS = 4
BYTES = 4
"""Of a float32."""

_held: dict[tuple[Any, ...], LoadedModel] = {}
"""The model that the shards of one source share in this process. Taps do not change what it computes, so it is loaded once."""


def _load_or_reuse(reference: ModelReference, options: Options, *, hold: bool) -> LoadedModel:
    """The model, loaded, held or lent; with `hold` it stays for the next shard, and no other does."""
    settings = _loading_settings(options)
    key = (reference.weights, *settings.values())
    if key in _held and (hold or _held[key].borrowed):
        return _held[key]
    _held.clear()  # before the next model is loaded: two of them might not fit
    model = load_model(reference, **settings)
    if hold:
        _held[key] = model
    return model


def release_model() -> None:
    """Let go of the model that is held for the next shard: there is none."""
    _held.clear()


def _loading_settings(options: Options) -> dict[str, Any]:
    return {
        "dtype": options.dtype,
        "device": options.device,
        "trust_remote_code": options.trust_remote_code,
        "allow_partial": options.allow_partial,
        "seed": options.seed,
        "device_map": options.device_map,
        "tokenizer": options.tokenizer,
    }


@contextlib.contextmanager
def lend_model(reference: ModelReference, options: Options, model: LoadedModel) -> Iterator[None]:
    """Within this context the reference is of a model that is in memory already."""
    _held.clear()
    _held[(reference.weights, *_loading_settings(options).values())] = model
    try:
        yield
    finally:
        _held.clear()


class ModelFeeder(Feeder):
    """A loaded model, its reader and the stream of sequences that it is fed."""

    channels = "first"
    unit = "items"

    def __init__(self, reference: ModelReference, source: Source, options: Options, *, hold: bool = False) -> None:
        self.reference, self.source, self.options, self.name = reference, source, options, reference.name
        self.model = _load_or_reuse(reference, options, hold=hold)
        family = self.model.family
        self.stacks, self.inner = family.stacks(self.model.base), family.inner
        self.reader = family.reader(self.model, options.seq_len)
        self.counted_unit = self.reader.unit
        if self.reader.unit != "tokens" and (of_tokens := [split for split in options.split_body if split != "sink"]):
            raise IsoscopeError(f"--split-body {of_tokens[0]} divides tokens; {reference.name} reads {self.reader.unit}.")
        self.has_maps = self.reader.unit == "images"
        self.longest = None if self.has_maps else self.reader.seq_len
        batch = options.batch_size or DEFAULT_BATCH
        # Sequences of text differ in length, so several batches of them are held and sorted. Images and frames would only take more memory.
        self.held_tokens = (WINDOW_BATCHES if self.reader.unit == "tokens" else 1) * batch * self.reader.seq_len
        if options.batch_size is None and self.reader.unit == "tokens" and self.model.device.type == "cpu" and options.device_map is None:
            # They take no longer on a CPU, and the C library keeps fewer freed blocks, whose sizes differ from batch to batch.
            batch = TEXT_BATCH_ON_CPU
        self.batch_tokens = batch * self.reader.seq_len
        self.stream = Stream(source, self.reader.chunks, options.max_tokens, options.shard, options.max_items)
        self.by_sequence = self.stream.has_few_items()
        bins = frequency_bins(self.stream) if "frequency" in options.split_body else None
        self.slicer = Slicer(options.split_body, self.reader.seq_len, bins)
        self._largest_call = 0

    def progress(self) -> tuple[int, int]:
        """How many items of the source were read, and how many tokens, frames or images were measured."""
        return self.stream.cursor.items, self.stream.cursor.measured_tokens

    def probe(self) -> Callable[[], None]:
        """A forward pass of a small made-up input, which shows the sites of the model and how much memory its calls take."""
        pieces = self.reader.probe(1, PROBE_TOKENS)
        fed = self.reader.feed(pieces)

        def run() -> None:
            with note_call_sizes(self.model.base) as sizes:
                self._forward(fed)
            self._largest_call = max(sizes, default=0) * self.batch_tokens // sum(piece.batch_cost for piece in pieces)

        return run

    def pooling(self) -> Pooling | None:
        """The pooling that `--pool` asks for, checked against the model."""
        if self.options.pool is None:
            return None
        random = [name for name in self.model.fit.random_names if "pooler." in name]
        output = None if random and not self.reference.untrained else self.pooled_output
        declared = self.model.pooling
        if declared is None and self.options.pool == "own":
            declared = declared_pooling(self.reference.folder)
        return choose_pooling(self.options.pool, declared, self.reader.unit, output, self.reference.name)

    def _batch_bytes(self) -> int:
        """Memory that a forward pass of the largest batch takes, as far as the probe shows, and that of weights not yet read from disk."""
        if self.model.device.type != "cpu":
            return 0
        # A state waits next to the largest call, in its residual stream and in the tap. Weights that are mapped from a file come into
        # memory when they are read, and the probe has read all but the embedding tables.
        scores: int = 0
        heads = getattr(self.model.config, "num_attention_heads", None)
        if getattr(self.model.config, "_attn_implementation", None) == "eager" and isinstance(heads, int):
            scores = 2 * heads * self.batch_tokens * self.reader.seq_len * BYTES  # they grow with the square of the length
        return self._largest_call + scores + sum(int(table.nbytes) for table in self.tables().values())

    def _forward(self, fed: ModelInput) -> None:
        # What a model keeps from a pass in inference mode, such as angles of rotary embeddings, could not be used in training later.
        mode = torch.inference_mode(mode=not self.model.borrowed)
        with mode, torch.no_grad(), model_errors_as_user_errors(self.reference, CANNOT_RUN):
            try:
                output = self.model.base(**fed.arguments)
            except IndexError as error:
                raise IsoscopeError(
                    f"{self.reference.name} has no embedding for a token or position it was given ({error}); its tokenizer and its "
                    "weights do not belong together, or --seq-len is too long."
                ) from error
        self.pooled_output = getattr(output, "pooler_output", None)

    def windows(self) -> Iterator[Iterable[Batch]]:
        """The batches of whole items, window by window."""
        for window in self.stream.windows(self.held_tokens, by_sequence=self.by_sequence):
            yield self._batches(window)
            del window  # it need not stay in memory while the next one is read

    def _batches(self, sequences: list[Sequence]) -> Iterator[Batch]:
        groups = list(make_batches(sequences, self.batch_tokens, pads=self.reader.pads))
        of_items = mark_last_parts(groups, lambda sequence: sequence.item)
        for group, last, ends_item in zip(groups, mark_last_parts(groups), of_items, strict=True):
            yield self._batch(group, last, ends_item)

    def _batch(self, sequences: list[Sequence], last: np.ndarray, ends_item: np.ndarray | None = None) -> Batch:
        fed = self.reader.feed([sequence.piece for sequence in sequences])
        rows = Rows.of([sequence.item for sequence in sequences], [sequence.unit for sequence in sequences], last, ends_item)
        layout = BatchLayout(self.slicer, self.options.seed, lambda b: rows, lambda stack, b, t: fed.positions(stack, t))
        run = partial(self._forward, fed)
        return Batch(run, run, layout)

    def calibration_batches(self, first: Batch) -> Iterator[Batch]:
        """The first sequences of the whole source, whatever the shard, so that all shards remove the same part of the queries."""
        # A stream of its own, so that the cursor of the measurement does not move and a resumed cell calibrates on the same sequences.
        beginning = Stream(self.source, self.reader.chunks, None, max_items=self.options.max_items)
        sequences = (sequence for window in beginning.windows(1, by_sequence=True) for sequence in window)
        for group in make_batches(list(islice(sequences, CALIBRATION_SEQUENCES)), self.batch_tokens, pads=self.reader.pads):
            yield self._batch(group, np.ones(len(group), dtype=bool))

    def check_not_empty(self) -> None:
        """Refuse a source that gave nothing."""
        if not self.stream.cursor.measured_tokens:
            raise IsoscopeError(f"{self.source.name} gives {self.reference.name} no {self.reader.unit}.")

    def cursor(self) -> dict[str, int]:
        """How far the source was read."""
        return asdict(self.stream.cursor)

    def move_to(self, cursor: dict[str, int]) -> None:
        """Continue to read the source from there."""
        self.stream.cursor = Cursor(**cursor)

    def tables(self) -> dict[Site, Tensor]:
        """The embedding tables as sites; the output table only if the checkpoint has it and it is not the input table."""
        inner, outer = self._table(self.model.with_head.get_input_embeddings), self._table(lambda: self.model.output_embedding)
        tables: dict[Site, Tensor] = {}
        if inner is not None:
            tables[Site(self._owner(inner), "input_embedding")] = weight_of(inner)
        # By memory address: tied tables are two modules with one weight, and would be measured twice.
        if outer is not None and (inner is None or weight_of(outer).data_ptr() != weight_of(inner).data_ptr()):
            tables[Site(list(self.stacks)[-1], "output_embedding")] = weight_of(outer)
        return tables

    def _table(self, ask: Callable[[], Any]) -> Any:
        """The module that holds a table of embeddings; models of images or sound have none, and say so in their own ways."""
        with contextlib.suppress(NotImplementedError):
            module = ask()
            weight = getattr(module, "weight", None)
            return module if weight is not None and weight.dim() == 2 and self.model.family.source in ("text", "speech") else None
        return None

    def _owner(self, table: torch.nn.Module) -> str:
        """The stack that holds a table, or else the first."""
        holders = [name for name, stack in self.stacks.items() if any(module is table for module in stack.module.modules())]
        return (holders or list(self.stacks))[0]

    def announce_size(self, single_pass: Pass, folder: Path) -> str:
        """Return in words the memory and the disk that the cell will take; refuse a cell that does not fit on the disk of this folder."""
        sizes = single_pass.sizes(self.options.max_tokens if self.reader.unit == "tokens" else None)
        memory = estimate_peak(sizes, self._batch_bytes(), self.batch_tokens, self.options.sample)
        disk = sum(size.disk(self.options.store) for size in sizes)
        check_disk(folder, disk)
        sites = "1 site" if len(single_pass.statistics) == 1 else f"{len(single_pass.statistics)} sites"
        return f"{sites}, about {format_bytes(memory)} of memory at the peak and {format_bytes(disk)} on disk"

    def notes(self) -> list[str]:
        """Notes for the user about how the model is fed."""
        notes = []
        if self.by_sequence and self.reader.unit != "images":
            notes.append(
                "fewer than 30 items: intervals are over the pieces that they were cut into, which are less independent than items"
            )
        if self.reference.untrained:
            notes.append(f"weights at initialisation, seed {self.options.seed}")
        if self.reader.special_tokens:
            notes.append(f"special tokens fed: {self.reader.special_tokens}")
        return notes

    def columns(self) -> dict[str, Any]:
        """The table's columns about the model, the same in every row."""
        return {
            "model": self.reference.name,
            "revision": self.reference.revision,
            "step": 0 if self.reference.untrained else self.reference.step,
            "seed": self.options.seed if self.reference.untrained else self.reference.seed,
            "modality": self.model.modality,
            "family": self.model.family.name,
        }

    def spec(self) -> dict[str, Any]:
        """Everything that can change a number: data, lengths, types, seeds, versions."""
        cursor, o, fit = self.stream.cursor, self.options, self.model.fit
        return {
            "data": self.source.name,
            "fingerprint": self.stream.content.fingerprint,
            "weights": self.reference.weights,
            "architecture": type(self.model.with_head).__name__,
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
        }
