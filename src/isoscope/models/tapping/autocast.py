"""Measuring without autocast, which would round states and products to a shorter type without a trace in the results."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu", "mtia", "xla", "privateuseone")
"""The types of device that autocast knows."""


def autocast_dtypes() -> dict[str, str]:
    """The type in which autocast computes now, per type of device on which it is on."""
    return {device: str(torch.get_autocast_dtype(device)).removeprefix("torch.") for device in DEVICES if torch.is_autocast_enabled(device)}


@contextlib.contextmanager
def autocast_off() -> Iterator[None]:
    """Turn autocast off on every device within this context.

    A context nested in the caller's own neither reads nor clears the cache of cast weights, which belongs to the caller's forward pass.
    """
    with contextlib.ExitStack() as contexts:
        for device in autocast_dtypes():
            contexts.enter_context(torch.autocast(device, enabled=False))
        yield
