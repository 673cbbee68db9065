"""Weights by name, whatever file they came in and whatever prefix their names have."""

from __future__ import annotations

import contextlib
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from isoscope.core.errors import IsoscopeError
from isoscope.trust.model_files import weights_in
from isoscope.trust.pickles import check_archive, check_tensors, is_archive

NESTED = ("state_dict", "model_state_dict", "model", "module")
"""Names under which a training loop saves the weights, next to an optimiser's state, counters and options."""
ENOUGH = 0.9
"""The share of the expected names that must be present before a prefix is removed."""


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
    """All weights of a folder under the model's own names, or those of its base; None if no prefix turns them into these."""
    state = read_state(folder)
    for part in (model, getattr(model, "base_model", model)):
        if names := strip_prefix(part.state_dict(), state):
            return {new: state[old] for old, new in names.items()}
    return None


@contextlib.contextmanager
def damaged_safetensors_as_user_errors(path: Path) -> Iterator[None]:
    """Turn an exception of safetensors into one sentence. It also raises torch's errors, for a shape that torch cannot have."""
    from safetensors import SafetensorError

    try:
        yield
    except (SafetensorError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise IsoscopeError(f"The weights in {path} are damaged ({error}); copy or download the file again.") from error


def read_file(path: Path) -> dict[str, Tensor]:
    """The weights in one file by name."""
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        with damaged_safetensors_as_user_errors(path):
            return load_file(path)
    content = unpickle(path)
    for _ in range(2):  # a wrapper within a checkpoint
        for name in NESTED:
            if isinstance(content, dict) and isinstance(content.get(name), dict):
                content = content[name]
                break
    tensors = {str(name): value for name, value in content.items() if isinstance(value, Tensor)} if isinstance(content, dict) else {}
    if not tensors:
        raise IsoscopeError(f"{path} holds no weights by name; save model.state_dict() instead.")
    check_tensors(path, tensors.values())  # a stride of 0 makes one number a tensor of any size
    return tensors


def unpickle(path: Path) -> Any:
    """Load a file of torch.save on the CPU; anything but tensors, numbers, strings and containers of them is refused."""
    check_archive(path)
    try:
        # Mapped if the format allows it: tensors that are not used are not read.
        return torch.load(path, map_location="cpu", weights_only=True, mmap=is_archive(path))
    except pickle.UnpicklingError as error:
        raise IsoscopeError(f"{path} holds a pickle that is more than weights; it was not opened. Ask for safetensors.") from error
    except Exception as error:  # given rubbish, torch's reader fails with any type of exception
        raise IsoscopeError(f"{path} is damaged or is not a file of torch.save; copy or download it again.") from error


def strip_prefix(expected_names: Iterable[str], saved_names: Iterable[str]) -> dict[str, str] | None:
    """The saved names with their new names, without the prefix that hides the expected names; None if there is no such prefix.

    DataParallel puts `module.` before each name, torch.compile `_orig_mod.`, Lightning the attribute (`model.`, `net.`), and they
    stack. Names without the prefix are no part of the model and are left out.

    >>> strip_prefix(["a.weight", "a.bias"], ["model._orig_mod.a.weight", "model._orig_mod.a.bias", "loss.scale"])
    {'model._orig_mod.a.weight': 'a.weight', 'model._orig_mod.a.bias': 'a.bias'}
    >>> strip_prefix(["a.weight", "a.bias"], ["b.weight", "b.bias"])
    """
    expected, saved = set(expected_names), list(saved_names)
    hits = Counter(prefix for name in saved for prefix in _prefixes(name) if name[len(prefix) :] in expected)
    # Among equals the shortest prefix wins, so that names that fit as they are stay as they are.
    best = min(hits, key=lambda prefix: (-hits[prefix], len(prefix)), default=None)
    if best is None or hits[best] < ENOUGH * len(expected):
        return None
    return {name: name[len(best) :] for name in saved if name.startswith(best)}


def _prefixes(name: str) -> list[str]:
    """Every prefix of a dotted name, the empty one first: `a.b.c` → ``, `a.`, `a.b.`."""
    parts = name.split(".")
    return ["".join(f"{part}." for part in parts[:count]) for count in range(len(parts))]
