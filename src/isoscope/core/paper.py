"""What a paper is: experiments, the figures they fill, and what was published of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from isoscope.core.errors import IsoscopeError, nearest

CHOICES = ("embedded", "local", "paper")
"""Whose models: those that come with isoscope, those at hand in a folder, the paper's own."""

Kind = Literal["models", "suite", "block", "null"]


@dataclass(frozen=True)
class Experiment:
    """A measurement that figures and claims of a paper need: networks over their layers, a training, the untrained block, or chance."""

    name: str
    kind: Kind
    says: str
    """What is measured, in a phrase."""
    paper: tuple[str, ...] = ()
    """The paper's own models or suites, as a hub names them."""
    embedded: tuple[str, ...] = ()
    """What comes with isoscope and shows the same."""
    data: str = "embedded"
    """The paper's own data."""
    gated: str = ""
    """Where those data must be asked for, and how."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the measurement, where they differ from the default."""
    small: Mapping[str, Any] = field(default_factory=dict)
    """The same for what comes with isoscope, so that it takes minutes."""
    steps: str | None = None
    """Of a suite: the steps that the paper's repositories are named after; and its seeds."""
    seeds: str | None = None


@dataclass(frozen=True)
class PaperFigure:
    """A figure of a paper, by its number or, where it has none, by what it shows."""

    number: str
    draws: tuple[str, ...]
    """The figures of isoscope that show it."""
    needs: tuple[str, ...]
    """The experiments it is drawn from; any one of them is enough."""
    shows: str
    also: tuple[str, ...] = ()
    """Metrics and series that it draws and that are computed only on request."""


@dataclass(frozen=True)
class Stated:
    """Numbers that a paper or its authors' code give, to be held beside one's own."""

    what: str
    values: tuple[float, ...]
    read: str
    """`text`, `code`, or `fig`: read off a figure, give or take 0.02."""


@dataclass(frozen=True)
class Paper:
    """A paper as isoscope carries it out."""

    name: str
    title: str
    authors: str
    bibtex: str
    experiments: tuple[Experiment, ...]
    figures: tuple[PaperFigure, ...]
    also: tuple[str, ...] = ()
    """Metrics and series that are computed only on request, and that its claims are made of."""
    stated: tuple[Stated, ...] = ()

    def figure(self, number: str) -> PaperFigure:
        """The figure of this number, or of this name."""
        known = {figure.number: figure for figure in self.figures}
        asked = number.lower().removeprefix("figure").strip()
        if asked not in known:
            raise IsoscopeError(
                f"{self.name} has no figure {number!r}{nearest(asked, list(known)) or '; it has ' + ', '.join(known) + '.'}"
            )
        return known[asked]

    def experiment(self, name: str) -> Experiment:
        """The experiment of this name."""
        return next(one for one in self.experiments if one.name == name)
