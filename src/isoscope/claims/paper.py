"""A paper: its experiments, the figures that they fill, and the numbers that were published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from isoscope.core.errors import IsoscopeError, nearest

CHOICES = ("embedded", "packages", "local", "paper")
"""Which models: those that come with isoscope, those of packages, those in a local folder, or the paper's own."""


@dataclass(frozen=True)
class Experiment:
    """A measurement that figures and claims of a paper need: networks over their layers, a training, or the experiment of a study."""

    name: str
    kind: str
    """`models`, `suite`, or the name of a study whose own experiment it is."""
    about: str
    """The measurement in a phrase."""
    paper: tuple[str, ...] = ()
    """The paper's own models or suites, as a hub names them."""
    embedded: tuple[str, ...] = ()
    """Models that come with isoscope and show the same."""
    data: str = "embedded"
    """The paper's own data."""
    gated: str = ""
    """How to get access to the data, if they are gated."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the measurement that differ from the default."""
    small: Mapping[str, Any] = field(default_factory=dict)
    """The same for the models that come with isoscope, so that it takes minutes."""
    steps: str | None = None
    """For a suite: the steps and seeds that the names of the paper's repositories contain."""
    seeds: str | None = None


@dataclass(frozen=True)
class PaperFigure:
    """A figure of a paper, by its number or, if it has none, by a name."""

    number: str
    draws: tuple[str, ...]
    """The figures of isoscope that reproduce it."""
    needs: tuple[str, ...]
    """The experiments that it can be drawn from; one of them is enough."""
    shows: str
    also: tuple[str, ...] = ()
    """Metrics and series that it needs and that are computed only on request."""


@dataclass(frozen=True)
class Paper:
    """A paper that isoscope can reproduce."""

    name: str
    title: str
    authors: str
    bibtex: str
    experiments: tuple[Experiment, ...]
    figures: tuple[PaperFigure, ...]
    also: tuple[str, ...] = ()
    """Metrics and series that its claims need and that are computed only on request."""

    def select_figures(self, number: str) -> tuple[PaperFigure, ...]:
        """The figures with this number or name; a number without a letter, as in 6, stands for 6a and 6b."""
        asked, known = number.lower().removeprefix("figure").strip(), [figure.number for figure in self.figures]
        selected = tuple(figure for figure in self.figures if figure.number in (asked, f"{asked}a", f"{asked}b"))
        if not selected:
            raise IsoscopeError(f"{self.name} has no figure {number!r}{nearest(asked, known) or '; it has ' + ', '.join(known) + '.'}")
        return selected
