"""Weights by name, whatever file they came in and whatever was put before their names."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from isoscope.core.errors import IsoscopeError
from isoscope.models.formats.pickles import check_archive, check_tensors, is_archive
from isoscope.models.formats.weights import weights_in

NESTED = ("state_dict", "model_state_dict", "model", "module")
"""Where a training loop puts the weights among an optimiser's state, counters and options."""
ENOUGH = 0.9
"""The part of the expected names that must be found before a prefix is believed."""


def read_state(folder: Path) -> dict[str, Tensor]:
    """All weights of a folder by name, shards joined; a pickle is opened for its tensors only."""
    files = weights_in(folder)
    if not files:
        raise IsoscopeError(f"{folder} holds no weights (.safetensors, .bin, .pt or .ckpt).")
    state: dict[str, Tensor] = {}
    for path in files:
        state |= read_file(path)
    return state


def state_for(model: nn.Module, folder: Path) -> dict[str, Tensor] | None:
    """All weights of a folder under the model's own names, or those of its base; None where no prefix makes them so."""
    state = read_state(folder)
    for part in (model, getattr(model, "base_model", model)):
        if names := strip_prefix(part.state_dict(), state):
            return {new: state[old] for old, new in names.items()}
    return None


def read_file(path: Path) -> dict[str, Tensor]:
    """The weights in one file by name."""
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return load_file(path)
        except (SafetensorError, OverflowError, RuntimeError, TypeError, ValueError) as error:  # a shape that torch has no word for
            raise IsoscopeError(f"The weights in {path} are damaged ({error}); copy or download the file again.") from error
    found = unpickle(path)
    for _ in range(2):  # a wrapper within a checkpoint
        for name in NESTED:
            if isinstance(found, dict) and isinstance(found.get(name), dict):
                found = found[name]
                break
    tensors = {str(name): value for name, value in found.items() if isinstance(value, Tensor)} if isinstance(found, dict) else {}
    if not tensors:
        raise IsoscopeError(f"{path} holds no weights by name; save model.state_dict() instead.")
    check_tensors(path, tensors.values())
    return tensors


def unpickle(path: Path) -> Any:
    """What torch.save wrote, on the CPU; anything but tensors, numbers, strings and containers of them is refused."""
    check_archive(path)
    try:
        # Mapped where the format allows: what is not used is not read.
        return torch.load(path, map_location="cpu", weights_only=True, mmap=is_archive(path))
    except pickle.UnpicklingError as error:
        raise IsoscopeError(f"{path} holds a pickle that is more than weights; it was not opened. Ask for safetensors.") from error
    except Exception as error:  # of rubbish, the reader stumbles wherever it is led
        raise IsoscopeError(f"{path} is damaged or is not a file of torch.save; copy or download it again.") from error


def strip_prefix(keys_expected: Iterable[str], keys_found: Iterable[str]) -> dict[str, str] | None:
    """New names by old ones, the prefix that hides the expected names taken off; None where no prefix does.

    DataParallel puts `module.` before each name, torch.compile `_orig_mod.`, Lightning the attribute (`model.`, `net.`), and they
    stack. Names that do not have the prefix are no part of the model and are left out.

    >>> strip_prefix(["a.weight", "a.bias"], ["model._orig_mod.a.weight", "model._orig_mod.a.bias", "loss.scale"])
    {'model._orig_mod.a.weight': 'a.weight', 'model._orig_mod.a.bias': 'a.bias'}
    >>> strip_prefix(["a.weight", "a.bias"], ["b.weight", "b.bias"])
    """
    expected, found = set(keys_expected), list(keys_found)
    hits = Counter(prefix for key in found for prefix in _prefixes(key) if key[len(prefix) :] in expected)
    # Of equals the shortest: names that fit as they are stay as they are.
    best = min(hits, key=lambda prefix: (-hits[prefix], len(prefix)), default=None)
    if best is None or hits[best] < ENOUGH * len(expected):
        return None
    return {key: key[len(best) :] for key in found if key.startswith(best)}


def _prefixes(key: str) -> list[str]:
    """Everything before a name, from nothing on: `a.b.c` → ``, `a.`, `a.b.`."""
    parts = key.split(".")
    return ["".join(f"{part}." for part in parts[:count]) for count in range(len(parts))]
