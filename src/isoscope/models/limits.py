"""Whether a configuration can be believed, before memory is taken for what it describes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from isoscope.core.bounded import read_json
from isoscope.core.errors import IsoscopeError
from isoscope.core.memory import check_room, memory_left
from isoscope.models.formats.weights import weights_in
from isoscope.models.hook_guard import HookGuard
from isoscope.models.model_errors import is_raised_by_us, model_errors_as_user_errors
from isoscope.models.reference import ModelReference, weight

REPEATED = re.compile(r"(?:layers?|depths?|blocks?|heads?|heads_kv|stages|experts|groups|repeats|copies)$")
"""What is made one by one: each costs time and memory even where its weights do not."""
SIZES = re.compile(r"size|dim|width|vocab|position|labels|channels|state$|model$|n_ctx|embd")
MOST_REPEATED, LARGEST, MOST_LABELS = 1 << 14, 1 << 31, 1 << 20
"""Of what is repeated, of any one size, and of labels, which are listed by name."""
RATIO = 32
"""Numbers for each byte of a checkpoint: weights of one bit each have eight, and ties and buffers some more."""
FREE = 1 << 26
"""Numbers that are believed of any checkpoint."""
FREE_PARTS, BYTES_A_PART, MOST_PARTS = 1 << 14, 16, 1 << 19
"""Modules and tensors that are believed of any checkpoint, and more for so many of its bytes each (the name and place of a tensor take
sixty); and those of a configuration alone. The largest mixtures of experts have a few hundred thousand."""
EDGE = 1 << 12
PREPARED = dict.fromkeys(("size", "image_size", "crop_size", "height", "width", "shortest_edge"), EDGE)
PREPARED |= {"sampling_rate": 768_000, "feature_size": 1 << 12, "n_fft": 1 << 16, "chunk_length": 3600, "n_samples": 1 << 28}
PREPARED |= {"extra_ids": 1 << 16, "max_word_length": 1 << 12}
"""The most of what says how inputs are prepared: sides of an image, clips and their spectra, tokens and words."""


def check_numbers(config: dict[str, Any], reference: ModelReference) -> None:
    """Refuse counts and sizes that no model has: millions of layers would be made one by one, without an end in sight."""
    for name, value in _numbers(config, ""):
        sized = LARGEST if SIZES.search(name) else value
        most = MOST_LABELS if name.endswith("labels") else MOST_REPEATED if REPEATED.search(name) else sized
        _believe("configuration", name, value, EDGE if name == "image_size" else most, reference)


def check_prepared(reference: ModelReference) -> None:
    """Refuse images, clips and tokens of sizes that no model was given, as the files beside its weights may ask for them."""
    for path in (reference.folder / f"{what}_config.json" for what in ("tokenizer", "preprocessor", "processor")):
        try:
            said = read_json(path) if path.is_file() else None
        except (OSError, ValueError) as error:
            raise IsoscopeError(f"{path} cannot be read: {error}.") from error
        for name, value in _numbers(said, ""):
            _believe(path.name, name, value, PREPARED.get(name, value), reference)


def _believe(where: str, name: str, value: int, most: int, reference: ModelReference) -> None:
    if value > most:
        raise IsoscopeError(
            f"The {where} of {reference.spec} says {name[:60]} = {value:,}, and {most:,} is the most that is believed; mend it."
        )


def _numbers(value: Any, name: str) -> Iterator[tuple[str, int]]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _numbers(one, str(key))
    elif isinstance(value, list | tuple):
        for one in value[:1000]:
            yield from _numbers(one, name)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield name, value


def check_size(kind: Any, config: Any, reference: ModelReference, itemsize: int) -> None:
    """Refuse a model whose configuration describes far more than its weights hold, or at initialisation more than there is memory for.

    The model is made without memory for its numbers. One that cannot be made, or cannot be made so, is judged by what was made of it: what
    its architecture has against the configuration is reported when it is made in earnest.
    """
    limits = Limits(reference, itemsize)
    try:
        with limits.counting(), torch.device("meta"):
            made = _make(kind, config)
        limits.numbers = sum(tensor.numel() for tensor in [*made.parameters(), *made.buffers()])  # some are tied only at the end
    except IsoscopeError:
        raise
    except Exception as error:  # architectures refuse a bad configuration with any type of exception
        if is_raised_by_us(error):
            raise
    limits.check()


def make(kind: Any, config: Any, reference: ModelReference, itemsize: int) -> Any:
    """The model at initialisation, in earnest; refused as soon as it has more numbers than `check_size` lets pass."""
    limits = Limits(reference, itemsize)
    with limits.counting(limits.check), model_errors_as_user_errors(reference):
        return _make(kind, config)


def _make(kind: Any, config: Any) -> Any:
    return kind.from_config(config) if hasattr(kind, "from_config") else kind(config)


class Limits:
    """How much a model may have: for the weights that lie there, and for the memory that is free now."""

    def __init__(self, reference: ModelReference, itemsize: int) -> None:
        self.reference, self.itemsize = reference, itemsize
        self.alone = reference.untrained and not (reference.gguf or reference.whisper or weights_in(reference.folder))
        self.size, self.there = weight(reference), memory_left()
        self.parts = self.numbers = 0

    def check(self) -> None:
        """Refuse numbers that the weights cannot have, or that have no room."""
        if not self.alone and self.numbers > FREE + RATIO * self.size:
            raise self._misfit(self.numbers, "numbers")
        if self.reference.untrained:
            check_room(self.reference.spec, self.numbers * self.itemsize, "choose a smaller model", self.there)

    def _misfit(self, count: int, what: str) -> IsoscopeError:
        if self.alone:
            return IsoscopeError(f"The configuration of {self.reference.spec} describes {count:,} {what}; mend it.")
        return IsoscopeError(
            f"The weights of {self.reference.spec} do not fit its architecture: its configuration describes {count:,} {what}, and its "
            f"files have {self.size:,} bytes; copy or download them again."
        )

    @contextlib.contextmanager
    def counting(self, check: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Counts what models have while they are made, and calls `check` at each step, before numbers are drawn."""
        most = MOST_PARTS if self.alone else FREE_PARTS + self.size // BYTES_A_PART
        seen: dict[int, Any] = {}  # tied ones are the same, and counted once

        def add(module: Any, name: str, part: Any) -> None:
            self.parts += 1
            if self.parts > most:
                raise self._misfit(self.parts, "parts and more")
            if isinstance(part, torch.Tensor) and id(part) not in seen:
                seen[id(part)] = part
                self.numbers += part.numel()
                check()

        of, guard = nn.modules.module, HookGuard()
        count = guard.wrap(add)
        hooks = [
            of.register_module_parameter_registration_hook(count),
            of.register_module_buffer_registration_hook(count),
            of.register_module_module_registration_hook(count),
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            guard.raise_own_error()
