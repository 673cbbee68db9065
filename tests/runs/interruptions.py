"""Failures at the n-th call to the system: an error, an interrupt right after the call, or the end of the process."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator

import pandas as pd
import pytest

OF_THE_SYSTEM = "open close mkdir rename replace fsync fstat stat lstat unlink rmdir scandir listdir"
CALLS = [*((os, name) for name in OF_THE_SYSTEM.split()), (io, "open"), (pd.DataFrame, "to_parquet")]
"""Every way in which writing a cell calls the system. Parquet is written by a library, whose calls count as one."""
KINDS = ("error", "interrupt", "kill")


class KilledError(BaseException):
    """The process is no more: nothing that it would still do happens."""


class Interruption:
    """Lets the n-th call fail; `calls` counts them all, so that an n beyond them fails nothing."""

    def __init__(self, kind: str, at: int) -> None:
        self.kind, self.at, self.calls, self.name = kind, at, 0, ""

    @property
    def happened(self) -> bool:
        return self.calls >= self.at

    def wrap(self, name, real):
        def call(*args, **kwargs):
            if self.kind == "kill" and self.calls >= self.at:
                raise KilledError
            self.calls += 1
            if self.calls != self.at:
                return real(*args, **kwargs)
            self.name = name
            if self.kind == "error":
                raise OSError(5, "Input/output error")
            if self.kind == "kill":
                raise KilledError
            real(*args, **kwargs)
            raise KeyboardInterrupt

        return call


@contextlib.contextmanager
def interrupted(kind: str, at: int) -> Iterator[Interruption]:
    """Run what follows with a failure at its n-th call to the system."""
    fault = Interruption(kind, at)
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in CALLS:
            patch.setattr(owner, name, fault.wrap(name, getattr(owner, name)))
        with contextlib.suppress(KilledError, KeyboardInterrupt, Exception):
            yield fault
