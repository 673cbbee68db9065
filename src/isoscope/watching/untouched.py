"""Leave a training run unchanged: restore everything that a look at the model could change."""

from __future__ import annotations

import contextlib
import copy
import random
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isoscope.core.errors import IsoscopeError
from isoscope.measuring.module_feeder import evaluating
from isoscope.watching.sharded import check_shards, keep_shards

OF_TORCH = frozenset(vars(nn.Module()))
"""The attributes that torch keeps in every module: flags, hooks, parameters, buffers, modules."""
CONTAINERS = (list, dict, set, deque)
DATA = (Tensor, bool, int, float, complex, str, bytes, tuple, type(None), *CONTAINERS)
"""The types of data that a forward pass may keep in an attribute for a later one."""
MISSING = object()


@contextlib.contextmanager
def leave_untouched(module: nn.Module) -> Iterator[None]:
    """Let the module evaluate in this context, then restore modes, buffers, attributes and every random state."""
    with keep_random_states(), keep_shards(module), keep_state(module), evaluating(module):
        yield


@contextlib.contextmanager
def keep_random_states() -> Iterator[None]:
    """Put the random states of python, numpy and torch, on every device, back after this context."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002 (the state of a user's own code)
    # Asking CUDA for its states would initialise it, which takes memory on every device.
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else []
    metal = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        torch.set_rng_state(states[2])
        if devices:
            torch.cuda.set_rng_state_all(devices)
        if metal is not None:
            torch.mps.set_rng_state(metal)


@contextlib.contextmanager
def keep_state(module: nn.Module) -> Iterator[None]:
    """Within this context the module computes with copies of its buffers and of its attributes; after it the originals are back.

    A module may count or average its inputs, or keep a result, even in evaluation mode. Writing the old values back is not enough: each
    write in place raises a tensor's version, and a backward pass that saved the tensor refuses to run. So the originals are never written.
    Parameters are not copied.
    """
    parts = list({id(part): part for part in module.modules()}.values())
    before = [(part, dict(part._buffers.items()), _attributes(part)) for part in parts]
    copies: dict[int, Any] = {}  # two names of one tensor stay two names of one tensor
    try:
        with torch.no_grad():
            for part, buffers, attributes in before:
                for name, buffer in buffers.items():
                    part._buffers[name] = _copy(buffer, copies)
                for name, value in attributes.items():
                    if (own := _copy(value, copies)) is not value:
                        vars(part)[name] = own
        yield
    finally:
        for part, buffers, attributes in before:
            # A forward pass may have registered buffers of its own.
            for name in [name for name in part._buffers if name not in buffers]:
                del part._buffers[name]
            for name, buffer in buffers.items():
                part._buffers[name] = buffer
            _put_back(part, attributes)


def _attributes(part: nn.Module) -> dict[str, Any]:
    """The attributes of a module beyond those of torch itself."""
    return {name: value for name, value in vars(part).items() if name not in OF_TORCH}


def _copy(value: Any, copies: dict[int, Any]) -> Any:
    """A copy of a tensor or a container, but not of its contents; a parameter, and anything else, as it is."""
    is_tensor = isinstance(value, Tensor) and not isinstance(value, nn.Parameter) and not nn.parameter.is_lazy(value)
    if not is_tensor and type(value) not in CONTAINERS:
        return value
    if id(value) not in copies:
        copies[id(value)] = value.detach().clone() if is_tensor else copy.copy(value)
    return copies[id(value)]


def _put_back(part: nn.Module, before: dict[str, Any]) -> None:
    """Put attributes back. Only data is put back: a lazy module that has become another one stays so."""
    now = _attributes(part)
    for name, value in now.items():
        if name not in before and isinstance(value, DATA):
            del vars(part)[name]
    for name, value in before.items():
        if now.get(name, MISSING) is not value and isinstance(value, DATA):
            vars(part)[name] = value


def unwrap_model(model: Any) -> nn.Module:
    """The module to watch, without its wrappers."""
    if not isinstance(model, nn.Module):
        raise IsoscopeError(f"isoscope.watch takes a torch.nn.Module; got {type(model).__name__}.")
    while True:
        if isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):  # what torch.compile was given
            model = inner
        else:
            break
    check_shards(model)
    return model
