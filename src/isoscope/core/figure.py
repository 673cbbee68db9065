"""What a figure is: a pure function from the two tables to a chart."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from isoscope.core.errors import STRANGE, IsoscopeWarning

Draw = Callable[[pd.DataFrame, pd.DataFrame], Any]


@dataclass(frozen=True)
class Figure:
    """A chart that can be drawn from a table and a series table, with its caption in plain words."""

    name: str
    title: str
    caption: str
    function: Draw

    def draw(self, table: pd.DataFrame, series: pd.DataFrame) -> Any:
        """An Altair chart, or None where the tables hold nothing to draw; with a warning where they hold what no figure can show."""
        try:
            return self.function(table, series)
        except STRANGE as error:
            said = f"{type(error).__name__}: {error}"[:200]
            warnings.warn(IsoscopeWarning(f"The figure {self.name} is left out; its rows cannot be drawn ({said})."), stacklevel=2)
            return None


def figure(*, title: str, caption: str) -> Callable[[Draw], Figure]:
    """Declare the function below as the figure of its own name."""

    def declare(draw: Draw) -> Figure:
        return Figure(draw.__name__, title, caption, draw)

    return declare
