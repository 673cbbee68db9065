"""The declaration of a figure: a pure function from the two tables to a chart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

Draw = Callable[[pd.DataFrame, pd.DataFrame], Any]


@dataclass(frozen=True)
class Figure:
    """A chart that can be drawn from a table and a series table, with its caption."""

    name: str
    title: str
    caption: str
    function: Draw
    topic: str = ""
    """The heading on the page that the figure stands under; figures without one stand under the last heading."""
    order: int = 100
    """Its place among the figures of its topic, or among those over steps; figures of equal order stand by name."""
    over_steps: bool = False
    """Whether it shows the steps of a training. Other figures show one checkpoint of each training."""

    def draw(self, table: pd.DataFrame, series: pd.DataFrame) -> Any:
        """An Altair chart, or None if the tables hold nothing to draw."""
        return self.function(table, series)


def figure(
    *, title: str, caption: str, name: str = "", topic: str = "", order: int = 100, over_steps: bool = False
) -> Callable[[Draw], Figure]:
    """Declare the decorated function as a figure, by default under its own name."""

    def declare(draw: Draw) -> Figure:
        return Figure(name or draw.__name__, title, caption, draw, topic, order, over_steps)

    return declare
