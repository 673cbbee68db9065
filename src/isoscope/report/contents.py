"""Where each figure stands on the page, and under which heading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from isoscope.report.charts import ATTENTION, BLOCK, DRIFT, GROUPS, SHAPE, Drawn

TOPICS: dict[str, list[str]] = {
    "Cosine over the layers": GROUPS,
    "Every metric": ["layer_profile"],
    "Drift and chance": [*DRIFT, "cosine_density"],
    "Shape and dimension": SHAPE,
    "Attention": ATTENTION,
    "The untrained block": BLOCK,
    "Spectra, norms and tokens": ["spectrum", "dimension_share", "norms", "policy_difference"],
}
"""The headings under which figures stand; any other figure stands under the last one, `OTHERS`."""
OTHERS = "More figures"
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


def placed(charts: list[Drawn], start: int = 0, within: str = "") -> list[Placed]:
    """Figures with the numbers of their panels, from `start` on; `within` begins their ids."""
    found = []
    for chart in charts:
        numbers = list(range(start, start + len(chart.panels)))
        texts = [panel["title"]["text"] if isinstance(panel.get("title"), dict) else panel.get("title") for panel in chart.panels]
        titles = [text for text in texts if isinstance(text, str)]
        choices = titles if len(numbers) > MANY and len(titles) == len(numbers) else []
        words = chart.figure.name, chart.figure.title, chart.figure.caption
        found.append(Placed(within + chart.figure.name, *words, chart.panels, numbers, chart.legend, chart.steps, choices, chart.failed))
        start += len(numbers)
    return found


def by_topic(charts: list[Placed]) -> list[tuple[str, list[Placed]]]:
    """The figures under their headings, in the order of the page; a heading without a figure is not there."""
    known = {name: topic for topic, names in TOPICS.items() for name in names}
    found: dict[str, list[Placed]] = {}
    for chart in charts:
        found.setdefault(known.get(chart.name, OTHERS), []).append(chart)
    return list(found.items())
