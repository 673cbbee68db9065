"""Figures on the page: which ones, under which heading, and as panels that take the width they are given and share their data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, groupby
from typing import Any

import pandas as pd

from isoscope.core.errors import Failures
from isoscope.core.figure import Figure
from isoscope.figures import figures
from isoscope.report.columns import pack_rows

TOPICS = [
    "Cosine over the layers",
    "Every metric",
    "Drift and chance",
    "Shape and dimension",
    "Attention",
    "The untrained block",
    "Spectra, norms and tokens",
]
"""The headings of the page in reading order; figures of another topic follow, and those without a topic come last, under `OTHERS`."""
OTHERS = "More figures"
MANY_PANELS = 9
"""A figure with more panels than this shows the first few, and a menu to choose another."""
TEXT_COLOUR = "currentColor"
PAGE: dict[str, Any] = {
    "background": None,
    "font": "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', Arial, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "gridColor": TEXT_COLOUR,
        "gridOpacity": 0.13,
        "domainColor": TEXT_COLOUR,
        "domainOpacity": 0.5,
        "tickColor": TEXT_COLOUR,
        "tickOpacity": 0.5,
    }
    | {
        "labelColor": TEXT_COLOUR,
        "titleColor": TEXT_COLOUR,
        "titleFontWeight": "normal",
        "labelOverlap": "greedy",
        "labelSeparation": 5,
        "labelOpacity": 0.85,
    },
    "legend": {"labelColor": TEXT_COLOUR, "titleColor": TEXT_COLOUR, "titleFontWeight": "normal"},
    "title": {"anchor": "start", "fontSize": 13, "color": TEXT_COLOUR, "subtitleColor": TEXT_COLOUR, "limit": 330, "offset": 8},
    "autosize": {"type": "fit-x", "contains": "padding"},
}
"""Charts are drawn in the colour of the page's text, so that one drawing serves light, dark and print."""

ABOUT_ALL_PANELS = ("$schema", "config", "params", "datasets", "usermeta")
"""Keys of a specification that concern the whole chart, not one panel."""


@dataclass(frozen=True)
class Drawing:
    """A figure with its panels, each a Vega-Lite specification of its own, and its place on the page."""

    figure: Figure
    panels: list[dict[str, Any]]
    legend: list[tuple[str, str, str]] = field(default_factory=list)
    """The figure's own curves: name, tone and dash; empty if the page's legend of models is enough."""
    steps: list[int] = field(default_factory=list)
    """The steps of its slider; empty if it has no slider."""
    failed: str = ""
    """The exception of a figure that could not be drawn; it then has no panels."""
    id: str = ""
    """Its name on the page, which no other figure has."""
    first: int = 0
    """The position of its first panel in the page's list of charts."""

    @property
    def numbers(self) -> list[int]:
        """The positions of its panels in the page's list of charts."""
        return list(range(self.first, self.first + len(self.panels)))

    @property
    def choices(self) -> list[str]:
        """The titles of its panels, if there are too many to show at once, so that the reader chooses one."""
        titles = [text for panel in self.panels if isinstance(text := title_text(panel), str)]
        return titles if len(titles) == len(self.panels) > MANY_PANELS else []


def title_text(panel: dict[str, Any]) -> Any:
    """The title of a panel: a text, a list of lines, an expression, or None."""
    title = panel.get("title")
    return title.get("text") if isinstance(title, dict) else title


def draw_all(table: pd.DataFrame, series: pd.DataFrame, failures: Failures, *, over_steps: bool = False) -> list[Drawing]:
    """The figures that these tables can fill, in reading order: those over the steps of a training, or all others.

    A figure that raises is returned with its exception.
    """
    from altair.utils.schemapi import debug_mode

    drawings = []
    # Altair would validate every chart, which takes seconds; the tests do that.
    with debug_mode(False):
        for figure in sorted((figure for figure in figures if figure.over_steps is over_steps), key=_reading_order):
            part = f"the figure {figure.name}"
            drawing = failures.attempt(part, partial(_draw, figure, table, series))
            if drawing is not None:
                drawings.append(drawing)
            elif reason := failures.describe(part):
                drawings.append(Drawing(figure, [], failed=reason))
    return drawings


def _reading_order(figure: Figure) -> tuple[int, str, int, str]:
    # Topics of plug-ins follow the known ones; `not` counts as 1 and puts figures without a topic behind those.
    place = TOPICS.index(figure.topic) if figure.topic in TOPICS else len(TOPICS) + (not figure.topic)
    return place, figure.topic, figure.order, figure.name


def _draw(figure: Figure, table: pd.DataFrame, series: pd.DataFrame) -> Drawing | None:
    chart = figure.draw(table, series)
    if chart is None:
        return None
    spec = chart.to_dict(validate=False)
    return Drawing(figure, split_panels(spec), find_legend(spec), spec.get("usermeta", {}).get("steps", []))


def place_on_page(drawings: list[Drawing], first: int = 0, prefix: str = "") -> list[Drawing]:
    """Number the panels from `first` on, and give each figure an id that begins with `prefix`."""
    starts = accumulate((len(drawing.panels) for drawing in drawings), initial=first)
    return [replace(drawing, id=prefix + drawing.figure.name, first=start) for drawing, start in zip(drawings, starts, strict=False)]


def group_by_topic(charts: list[Drawing]) -> list[tuple[str, list[Drawing]]]:
    """The figures under their headings, in the order of the page, without empty headings."""
    return [(topic or OTHERS, list(group)) for topic, group in groupby(charts, key=lambda chart: chart.figure.topic)]


def split_panels(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The panels of a concatenation, each with the data that it names; any other chart is a single panel."""
    shared = {"params": spec.get("params", [])}
    datasets: dict[str, Any] = spec.get("datasets", {})
    parts = spec.get("concat") or [{key: value for key, value in spec.items() if key not in ABOUT_ALL_PANELS}]
    panels = []
    for part in parts:
        panel = drop_line_legend(part)
        if "layer" in panel or "mark" in panel:
            panel["width"] = "container"
        names = find_dataset_names(panel)
        used = {name: rows for name, rows in datasets.items() if name in names}
        panels.append(panel | shared | ({"datasets": used} if used else {}))
    return panels


def pack_panels(panels: list[dict[str, Any]]) -> dict[str, Any]:
    """The panels for the page: each dataset is stored once, and panels name theirs."""
    pool: dict[str, dict[str, list[Any]]] = {}
    for panel in panels:
        for name, rows in panel.get("datasets", {}).items():
            if name not in pool:
                pool[name] = pack_rows(rows)
    return {"config": PAGE, "panels": [panel | {"datasets": list(panel.get("datasets", {}))} for panel in panels], "datasets": pool}


def find_dataset_names(part: Any) -> set[str]:
    """The datasets that a specification refers to, at any depth."""
    if isinstance(part, list):
        return set().union(*map(find_dataset_names, part))
    if not isinstance(part, dict):
        return set()
    data = part.get("data")
    own = {data["name"]} if isinstance(data, dict) and "name" in data else set()
    return own.union(*(find_dataset_names(value) for key, value in part.items() if key != "data"))


def find_legend(part: Any) -> list[tuple[str, str, str]]:
    """The curves of a figure that has a legend of its own, read from the scales of its colours and dashes."""
    if isinstance(part, list):
        return next((legend for item in part if (legend := find_legend(item))), [])
    if not isinstance(part, dict):
        return []
    tone, dash = part.get("color"), part.get("strokeDash")
    if isinstance(tone, dict) and isinstance(dash, dict) and tone.get("field") == "curve":
        names, tones, dashes = tone["scale"]["domain"], tone["scale"]["range"], dash["scale"]["range"]
        return [(name, color, " ".join(map(str, steps))) for name, color, steps in zip(names, tones, dashes, strict=True)]
    return next((legend for key, value in part.items() if key != "datasets" and (legend := find_legend(value))), [])


def drop_line_legend(part: Any) -> Any:
    """A copy without the legend of the models' colours: the page shows one legend for all panels."""
    if isinstance(part, list):
        return [drop_line_legend(item) for item in part]
    if not isinstance(part, dict):
        return part
    # "values" holds data, which may have any field names and is large.
    if part.get("field") in ("line", "curve") and "scale" in part:
        return part | {"legend": None}
    return {key: value if key == "values" else drop_line_legend(value) for key, value in part.items()}
