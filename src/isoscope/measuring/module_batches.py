"""Batches that the user makes: how they are checked, copied, told apart, and given to a module."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isoscope.core.errors import IsoscopeError

MASKS = ("attention_mask", "key_padding_mask", "src_key_padding_mask", "tgt_key_padding_mask")
"""What a batch may call its mask. In the first, values above 0 count; in those of torch, values other than 0 (True, -inf) are padding."""
Feed = Callable[[Any, Any], object]


def check_module(module: Any, batches: Any) -> None:
    """Refuse what is no module, and what is no iterable of batches."""
    if not isinstance(module, nn.Module):
        raise IsoscopeError(f"isoscope.measure takes a torch.nn.Module or names of models; got {type(module).__name__}.")
    if isinstance(batches, Tensor | Mapping):
        raise IsoscopeError(f"A module is measured over an iterable of batches; got one {type(batches).__name__}, which goes into a list.")
    if isinstance(batches, str | bytes) or not (isinstance(batches, Iterable) or hasattr(batches, "__getitem__")):
        raise IsoscopeError(
            f"A module is measured over an iterable of batches, each a tensor, a tuple or a dict; got {type(batches).__name__}."
        )


def find_mask(arguments: Mapping[str, Any]) -> np.ndarray | None:
    """The positions of a batch that count, (rows, positions); None if it has no mask or the mask leaves nothing out."""
    names = [name for name in MASKS if isinstance(arguments.get(name), Tensor)]
    if not names:
        return None
    if len(names) > 1:
        raise IsoscopeError(f"A batch has both {names[0]} and {names[1]}; rename the one that padding is not to be read from, with feed=….")
    given = arguments[names[0]].detach().cpu()
    mask: np.ndarray = (given > 0 if names[0] == MASKS[0] else given == 0).numpy()
    if not mask.any():
        meaning = "1 is what counts" if names[0] == MASKS[0] else "True is padding"
        raise IsoscopeError(f"The {names[0]} of a batch leaves no position; {meaning}.")
    return None if mask.all() else mask


def call_module(module: Any, batch: Any) -> object:
    """Call the module with a batch."""
    arguments = bind_batch(module, batch)
    if not any(isinstance(value, Tensor) for value in (arguments.args + tuple(arguments.kwargs.values()))):
        raise IsoscopeError(
            f"A batch must hold a tensor; got {type(batch).__name__}. To make tensors of it on the way give feed=lambda module, batch: …."
        )
    return module(*arguments.args, **arguments.kwargs)


def bind_batch(module: Any, batch: Any) -> inspect.BoundArguments:
    """A batch as the arguments of the module."""
    args, named = ((), batch) if isinstance(batch, Mapping) else (batch if isinstance(batch, tuple | list) else (batch,), {})
    called = getattr(module, "_orig_mod", module).forward
    try:
        return inspect.signature(called).bind(*args, **named)
    except TypeError as error:
        raise IsoscopeError(
            f"{type(module).__name__} cannot be called with a batch as it is ({error}); say how with feed=lambda module, batch: …."
        ) from error


def copy_batch(value: Any, device: torch.device | None = None) -> Any:
    """A copy of a batch, on another device if one is given."""
    if isinstance(value, Tensor):
        return value.detach().to(device, copy=True)
    if type(value) in (tuple, list):
        return type(value)(copy_batch(held, device) for held in value)
    if type(value) is dict:
        return {key: copy_batch(held, device) for key, held in value.items()}
    made = copy.deepcopy(value)
    return made.to(device) if device is not None and hasattr(made, "to") else made


def add_to_digest(digest: Any, value: Any) -> None:
    """Add a value to a digest: tensors by content, containers by what they hold, anything else by its pickle."""
    if isinstance(value, Tensor):
        digest.update(str((value.dtype, tuple(value.shape))).encode())
        digest.update(memoryview(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()))
    elif isinstance(value, Mapping | tuple | list):
        digest.update(f"{type(value).__name__} {len(value)}".encode())
        for pair in value.items() if isinstance(value, Mapping) else enumerate(value):
            digest.update(str(pair[0]).encode())
            add_to_digest(digest, pair[1])
    else:
        try:
            digest.update(pickle.dumps(value))
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise IsoscopeError(
                f"A batch holds a {type(value).__name__}, which cannot be fingerprinted; give tensors, arrays, strings, or lists of them."
            ) from error
