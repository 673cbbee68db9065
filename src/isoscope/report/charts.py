"""Figures as the page embeds them: panels that take the width they are given."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from isoscope.core.failures import Failures
from isoscope.core.figure import Figure
from isoscope.figures import figures

TOPICS = [
    "Cosine over the layers",
    "Every metric",
    "Drift and chance",
    "Shape and dimension",
    "Attention",
    "The untrained block",
    "Spectra, norms and tokens",
]
"""The headings of the page in reading order; figures of another topic, or of none, follow."""

FOLLOWS = "currentColor"
PAGE: dict[str, Any] = {
    "background": None,
    "font": "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', Arial, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "gridColor": FOLLOWS,
        "gridOpacity": 0.13,
        "domainColor": FOLLOWS,
        "domainOpacity": 0.5,
        "tickColor": FOLLOWS,
        "tickOpacity": 0.5,
    }
    | {
        "labelColor": FOLLOWS,
        "titleColor": FOLLOWS,
        "titleFontWeight": "normal",
        "labelOverlap": "greedy",
        "labelSeparation": 5,
        "labelOpacity": 0.85,
    },
    "legend": {"labelColor": FOLLOWS, "titleColor": FOLLOWS, "titleFontWeight": "normal"},
    "title": {"anchor": "start", "fontSize": 13, "color": FOLLOWS, "subtitleColor": FOLLOWS, "limit": 330, "offset": 8},
    "autosize": {"type": "fit-x", "contains": "padding"},
}
"""Ink in the colour of the page's text, so that light, dark and print need one drawing."""


WHOLE = ("$schema", "config", "params", "datasets", "usermeta")
"""What a specification says of the whole, not of a panel."""


@dataclass(frozen=True)
class Drawn:
    """A figure with its panels, each a Vega-Lite specification of its own."""

    figure: Figure
    panels: list[dict[str, Any]]
    legend: list[tuple[str, str, str]]
    """The figure's own curves: name, tone and dash; empty where the page's legend of models is enough."""
    steps: list[int]
    """The steps that its parameter `step` can take; empty where it has none."""
    failed: str = ""
    """The exception of a figure that could not be drawn; it has no panels then."""


def drawn(table: pd.DataFrame, series: pd.DataFrame, failures: Failures, *, over_steps: bool = False) -> list[Drawn]:
    """The figures that these tables can fill, in reading order: those over the steps of a training, or all others.

    A figure that raises is there with its exception.
    """
    from altair.utils.schemapi import debug_mode

    found = []
    with debug_mode(False):  # Altair's own checks take seconds, and the tests have made them
        for figure in sorted((figure for figure in figures if figure.over_steps is over_steps), key=_reading_order):
            part = f"the figure {figure.name}"
            made = failures.attempt(part, partial(_draw, figure, table, series))
            if made is not None:
                found.append(made)
            elif said := failures.said(part):
                found.append(Drawn(figure, [], [], [], said))
    return found


def _reading_order(figure: Figure) -> tuple[int, str, int, str]:
    place = TOPICS.index(figure.topic) if figure.topic in TOPICS else len(TOPICS) + (not figure.topic)
    return place, figure.topic, figure.order, figure.name


def _draw(figure: Figure, table: pd.DataFrame, series: pd.DataFrame) -> Drawn | None:
    chart = figure.draw(table, series)
    if chart is None:
        return None
    spec = chart.to_dict(validate=False)
    return Drawn(figure, panels(spec), legend_of(spec), spec.get("usermeta", {}).get("steps", []))


def panels(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """A specification as panels that the page can lay out: those of a concatenation, each with the data it names; else itself."""
    shared = {"params": spec.get("params", []), "config": PAGE}
    datasets: dict[str, Any] = spec.get("datasets", {})
    parts = spec.get("concat") or [{key: value for key, value in spec.items() if key not in WHOLE}]
    made = []
    for part in parts:
        own = without_line_legend(part)
        if "layer" in own or "mark" in own:
            own["width"] = "container"
        named = names_of(own)
        used = {name: rows for name, rows in datasets.items() if name in named}
        made.append(own | shared | ({"datasets": used} if used else {}))
    return made


def names_of(part: Any) -> set[str]:
    """The datasets that a specification refers to, at any depth."""
    if isinstance(part, list):
        return set().union(*map(names_of, part))
    if not isinstance(part, dict):
        return set()
    data = part.get("data")
    own = {data["name"]} if isinstance(data, dict) and "name" in data else set()
    return own.union(*(names_of(value) for key, value in part.items() if key != "data"))


def legend_of(part: Any) -> list[tuple[str, str, str]]:
    """The curves of a figure that has a legend of its own, found in the scales of its colours and dashes."""
    if isinstance(part, list):
        return next((found for item in part if (found := legend_of(item))), [])
    if not isinstance(part, dict):
        return []
    tone, dash = part.get("color"), part.get("strokeDash")
    if isinstance(tone, dict) and isinstance(dash, dict) and tone.get("field") == "curve":
        names, tones, dashes = tone["scale"]["domain"], tone["scale"]["range"], dash["scale"]["range"]
        return [(name, color, " ".join(map(str, steps))) for name, color, steps in zip(names, tones, dashes, strict=True)]
    return next((found for key, value in part.items() if key != "datasets" and (found := legend_of(value))), [])


def without_line_legend(part: Any) -> Any:
    """A copy whose models' colours have no legend: the page shows one for all panels."""
    if isinstance(part, list):
        return [without_line_legend(item) for item in part]
    if not isinstance(part, dict):
        return part
    if part.get("field") in ("line", "curve") and "scale" in part:
        return part | {"legend": None}
    return {key: value if key == "values" else without_line_legend(value) for key, value in part.items()}
