"""What a figure is: a pure function from the two tables to a chart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

Draw = Callable[[pd.DataFrame, pd.DataFrame], Any]


@dataclass(frozen=True)
class Figure:
    """A chart that can be drawn from a table and a series table, with its caption in plain words."""

    name: str
    title: str
    caption: str
    function: Draw

    def draw(self, table: pd.DataFrame, series: pd.DataFrame) -> Any:
        """An Altair chart, or None where the tables hold nothing to draw."""
        return self.function(table, series)


def figure(*, title: str, caption: str) -> Callable[[Draw], Figure]:
    """Declare the function below as the figure of its own name."""

    def declare(draw: Draw) -> Figure:
        return Figure(draw.__name__, title, caption, draw)

    return declare
