"""Whether a configuration can be believed, before memory is taken for what it describes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from isoscope.core.errors import IsoscopeError
from isoscope.core.memory import memory_left
from isoscope.models.formats.weights import weights_in
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


def check_numbers(config: dict[str, Any], reference: ModelReference) -> None:
    """Refuse counts and sizes that no model has: millions of layers would be made one by one, without an end in sight."""
    for name, value in _numbers(config, ""):
        sized = LARGEST if SIZES.search(name) else value
        most = MOST_LABELS if name.endswith("labels") else MOST_REPEATED if REPEATED.search(name) else sized
        if value > most:
            raise IsoscopeError(
                f"The configuration of {reference.spec} says {name[:60]} = {value:,}, and {most:,} is the most that is believed; mend it."
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

    The model is made without memory for its numbers. One that cannot be made, or cannot be made so, is judged by what was made of it.
    """
    count = 0

    def note(so_far: int) -> None:
        nonlocal count
        count = so_far

    # whatever an architecture makes of a bad configuration is said when it is made in earnest
    with contextlib.suppress(Exception), _counted(note), torch.device("meta"):
        made = _make(kind, config)
        count = sum(tensor.numel() for tensor in [*made.parameters(), *made.buffers()])  # some are tied only at the end
    _limit(reference, itemsize)(count)


def make(kind: Any, config: Any, reference: ModelReference, itemsize: int) -> Any:
    """The model at initialisation, in earnest; refused as soon as it has more numbers than `check_size` lets pass."""
    with _counted(_limit(reference, itemsize)):
        return _make(kind, config)


def _make(kind: Any, config: Any) -> Any:
    return kind.from_config(config) if hasattr(kind, "from_config") else kind(config)


@contextlib.contextmanager
def _counted(note: Callable[[int], None]) -> Iterator[None]:
    """Tells how many numbers modules have, whenever one gets some: before they are drawn, and even if the model is never finished."""
    seen: dict[int, Any] = {}  # tied ones are the same, and counted once
    count = 0

    def add(module: Any, name: str, tensor: torch.Tensor | None) -> None:
        nonlocal count
        if tensor is not None and id(tensor) not in seen:
            seen[id(tensor)] = tensor
            count += tensor.numel()
            note(count)

    hooks = (
        nn.modules.module.register_module_parameter_registration_hook(add),
        nn.modules.module.register_module_buffer_registration_hook(add),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _limit(reference: ModelReference, itemsize: int) -> Callable[[int], None]:
    """What refuses a count of numbers that is too large for the weights of a model, or for the memory that is free now."""
    alone = reference.untrained and not (reference.gguf or reference.whisper or weights_in(reference.folder))
    size, there = weight(reference), memory_left()

    def check(count: int) -> None:
        if not alone and count > FREE + RATIO * size:
            raise IsoscopeError(
                f"The weights of {reference.spec} do not fit its architecture: its configuration describes {count:,} numbers, and its "
                f"files have {size:,} bytes; copy or download them again."
            )
        if reference.untrained and count * itemsize > there:
            raise IsoscopeError(
                f"{reference.spec} would take {count * itemsize >> 30:,} GB, and {there >> 30:,} GB are free; choose a smaller model."
            )

    return check
