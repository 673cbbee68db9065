"""A training run is left alone: what a look at the model could move is put back as it was."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isoscope.core.errors import IsoscopeError
from isoscope.engine.module_pass import evaluating


@contextlib.contextmanager
def untouched(module: nn.Module) -> Iterator[None]:
    """The module evaluates within this context; after it modes, buffers and every random state are what they were."""
    with same_chance(), _same_buffers(module), evaluating(module):
        yield


@contextlib.contextmanager
def same_chance() -> Iterator[None]:
    """The random states of python, numpy and torch, on every device, are after this context what they were before."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002 (the state of a user's own code)
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
def _same_buffers(module: nn.Module) -> Iterator[None]:
    """Buffers hold what they held: a module may count or average its inputs even where it evaluates."""
    held = [
        (part, name, buffer, buffer.detach().clone())
        for part in module.modules()
        for name, buffer in part._buffers.items()
        if buffer is not None
    ]
    try:
        yield
    finally:
        with torch.no_grad():
            for part, name, buffer, before in held:
                part._buffers[name] = buffer
                if not _same(buffer, before):
                    buffer.copy_(before)


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and bool(((a == b) | ((a != a) & (b != b))).all())  # NaN is the same as NaN


def watched(model: Any) -> tuple[nn.Module, bool]:
    """The module that is to be watched, out of what wraps it, and whether this process is the one that watches it."""
    if not isinstance(model, nn.Module):
        raise IsoscopeError(f"isoscope.watch takes a torch.nn.Module; got {type(model).__name__}.")
    while True:
        if isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):  # what torch.compile was given
            model = inner
        else:
            break
    if _sharded(model):
        raise IsoscopeError(
            "This model's parameters are divided among processes (FSDP, DTensor or ZeRO-3), and a watched step runs on one process alone; "
            "save checkpoints and measure them with isoscope sweep."
        )
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return model, not distributed or torch.distributed.get_rank() == 0


def _sharded(model: nn.Module) -> bool:
    """Whether no process holds the whole model: told by names, so that nothing of it need be installed."""
    held = [tensor for parameter in model.parameters() for tensor in (parameter, parameter.data)]
    return (
        any(type(part).__name__ == "FullyShardedDataParallel" for part in model.modules())
        or any(kind.__name__ == "DTensor" for tensor in held for kind in type(tensor).__mro__)
        or any(hasattr(tensor, "ds_id") for tensor in held)
    )
