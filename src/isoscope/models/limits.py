"""Whether a configuration can be believed, before memory is taken for what it describes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch

from isoscope.core.bounded import memory_left
from isoscope.core.errors import IsoscopeError
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
    """Refuse a model whose configuration describes far more than its files hold, or at initialisation more than this machine does.

    The model is made without memory for its numbers; one that cannot be made so is left to whoever makes it in earnest.
    """
    try:
        with torch.device("meta"):
            made = kind.from_config(config) if hasattr(kind, "from_config") else kind(config)
        count = sum(tensor.numel() for tensor in [*made.parameters(), *made.buffers()])
    except Exception:  # whatever an architecture makes of a bad configuration is said when it is made in earnest
        return
    if reference.untrained:
        there = memory_left()
        if count * itemsize > there:
            raise IsoscopeError(
                f"{reference.spec} would take {count * itemsize >> 30:,} GB, and {there >> 30:,} GB are free; choose a smaller model."
            )
    elif count > FREE + RATIO * weight(reference):
        raise IsoscopeError(
            f"The weights of {reference.spec} do not fit its architecture: its configuration describes {count:,} numbers, and its files "
            f"have {weight(reference):,} bytes; copy or download them again."
        )
