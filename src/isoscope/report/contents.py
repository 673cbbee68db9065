"""Where each figure stands on the page, and under which heading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from isoscope.report.charts import Drawn

OTHERS = "More figures"
"""The heading of figures without a topic."""
MANY = 9
"""A figure with more panels than these shows the first few until the reader asks for another."""


@dataclass(frozen=True)
class Placed:
    """A figure on the page."""

    id: str
    name: str
    title: str
    caption: str
    panels: list[dict[str, Any]]
    numbers: list[int]
    """Those of its panels in the page's list of charts."""
    legend: list[tuple[str, str, str]]
    steps: list[int]
    """The steps that its slider goes through; none where it has no slider."""
    choices: list[str]
    """What its panels are called, where there are so many that one is chosen."""
    failed: str = ""
    """The exception of a figure that could not be drawn."""
    topic: str = ""


def placed(charts: list[Drawn], start: int = 0, within: str = "") -> list[Placed]:
    """Figures with the numbers of their panels, from `start` on; `within` begins their ids."""
    found = []
    for chart in charts:
        numbers = list(range(start, start + len(chart.panels)))
        texts = [panel["title"]["text"] if isinstance(panel.get("title"), dict) else panel.get("title") for panel in chart.panels]
        titles = [text for text in texts if isinstance(text, str)]
        choices = titles if len(numbers) > MANY and len(titles) == len(numbers) else []
        words = chart.figure.name, chart.figure.title, chart.figure.caption
        where = within + chart.figure.name
        found.append(Placed(where, *words, chart.panels, numbers, chart.legend, chart.steps, choices, chart.failed, chart.figure.topic))
        start += len(numbers)
    return found


def by_topic(charts: list[Placed]) -> list[tuple[str, list[Placed]]]:
    """The figures under their headings, in the order of the page; a heading without a figure is not there."""
    found: dict[str, list[Placed]] = {}
    for chart in charts:
        found.setdefault(chart.topic or OTHERS, []).append(chart)
    return list(found.items())
