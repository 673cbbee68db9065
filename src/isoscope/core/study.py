"""What a study is: a question asked of the instrument's tables, and the places where the instrument calls it.

The instrument imports no study. It finds them through the registry below: each folder in `isoscope/studies/`, or in `studies/` of a
plugin folder, may have a file `study.py` that declares one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope.core.errors import Failures
from isoscope.core.progress import Progress
from isoscope.core.registry import Registry

Tables = tuple[pd.DataFrame, pd.DataFrame]
"""The table of numbers and the table of curves."""


@dataclass(frozen=True)
class Section:
    """A part of the report that a study adds."""

    name: str
    about: str
    """What it covers, in a sentence."""
    shown: str
    """What the rest of the page shows of it."""
    sentences: dict[str, str]
    """By topic."""
    charts: list[Any]


def _no_meaning(name: str) -> str | None:
    return None


@dataclass(frozen=True)
class Study:
    """A study, by what it adds to the instrument. Everything but its name is optional."""

    name: str
    question: str
    """What it asks, in one sentence."""
    meaning: Callable[[str], str | None] = _no_meaning
    """What a metric or series that the study adds to the tables means; None for any other name."""
    sentences: Mapping[str, Callable[[Any], str | None]] = field(default_factory=dict)
    """By topic, what the page says about one model: a function of its `isoscope.report.line.Line`."""
    sections: Callable[[pd.DataFrame, pd.DataFrame, Failures], list[Section]] | None = None
    """Sections of the page, from both tables."""
    select_rows: Callable[[pd.DataFrame, pd.DataFrame], Tables] | None = None
    """Which rows and points the page carries, where all of them would be too many."""
    derive: Callable[[Path], None] | None = None
    """Adds to a run what its cells say together. It is called after a sweep."""
    experiment: Callable[[Path, Mapping[str, Any], Progress], None] | None = None
    """Runs the study's own experiment for a paper, and adds its cells to a run. The options are those of `isoscope reproduce`."""
    command: str = ""
    """The command that runs the experiment, without its `--out`."""


studies: Registry[Study] = Registry(Study, "study", "isoscope.studies.*.study")
