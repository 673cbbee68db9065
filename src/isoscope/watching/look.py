"""What the training hands to the process that computes its numbers, and what comes back. Nothing here needs torch."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.watching.collapse import Limits


@dataclass(frozen=True)
class Look:
    """The statistics of one look, and what its cell says about them."""

    identity: dict[str, Any]
    columns: dict[str, Any]
    spec: dict[str, Any]
    layers: str
    keep: str
    seconds: float
    arrays: dict[str, np.ndarray]


@dataclass(frozen=True)
class TrainingNumber:
    """One number about the training at a step; without a layer it belongs to the whole stack."""

    step: int
    metric: str
    value: float
    kind: str = "hidden"
    layer: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Problem:
    """An exception in one part of a look, in words."""

    step: int
    part: str
    text: str
    error: Exception

    @property
    def kind(self) -> str:
        """Problems of one kind are reported once."""
        return f"{self.part} {type(self.error).__name__}"


@dataclass(frozen=True)
class Entry:
    """All that one step adds to the run; `look` is None if the model was not measured."""

    step: int
    look: Look | None = None
    numbers: list[TrainingNumber] = field(default_factory=list)
    failures: list[tuple[int, str]] = field(default_factory=list)
    """Steps and reports of what went wrong in the training's own process, for the diary."""


@dataclass(frozen=True)
class Outcome:
    """What came of an entry: its values by name, problems on the way, and sentences for the user by their kind."""

    step: int
    values: dict[str, float] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    news: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Setting:
    """The run that a watch writes, from which step on, and when it warns of collapse."""

    run: Path
    columns: dict[str, Any]
    stack: str
    start: int
    limits: Limits


@contextlib.contextmanager
def surviving(problems: list[Problem], step: int, part: str, words: str) -> Iterator[None]:
    """Note an exception in this part of a look instead of raising it, so that the other parts are still done.

    Anything but a user error keeps its traceback: a bug must look like one, even if it must not end a training.
    """
    try:
        yield
    except Exception as error:  # not KeyboardInterrupt, not SystemExit: these are meant to end a training
        text = f"{words}: {error}"
        if not isinstance(error, IsoscopeError):
            text = f"{words} ({type(error).__name__}: {error}); the training continues.\n{traceback.format_exc()}"
        problems.append(Problem(step, part, text, error))
