"""Figures as the page embeds them: panels that take the width they are given, and JSON that cannot leave its script element."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pandas as pd

from isoscope.core.figure import Figure
from isoscope.figures import figures

ORDER = ["layer_profile", "drift_and_cosine", "spectrum", "dimension_share", "norms", "policy_difference"]
"""How the page reads; a figure that someone added follows by name."""

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
    | {"labelColor": FOLLOWS, "titleColor": FOLLOWS, "titleFontWeight": "normal", "labelOverlap": "greedy", "labelOpacity": 0.85},
    "legend": {"labelColor": FOLLOWS, "titleColor": FOLLOWS, "titleFontWeight": "normal"},
    "title": {"anchor": "start", "fontSize": 13, "color": FOLLOWS, "limit": 330, "offset": 8},
    "autosize": {"type": "fit-x", "contains": "padding"},
}
"""Ink in the colour of the page's text, so that light, dark and print need one drawing."""


@dataclass(frozen=True)
class Drawn:
    """A figure with its panels, each a Vega-Lite specification of its own."""

    figure: Figure
    panels: list[dict[str, Any]]


def drawn(table: pd.DataFrame, series: pd.DataFrame) -> list[Drawn]:
    """Every figure that these tables can fill, in reading order; Altair has checked the parts, and to check the whole takes seconds."""
    names = [name for name in ORDER if name in figures] + [name for name in figures.names() if name not in ORDER]
    found = [(figures[name], figures[name].draw(table, series)) for name in names]
    return [Drawn(figure, panels(chart.to_dict(validate=False))) for figure, chart in found if chart is not None]


def panels(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """A specification as panels that the page can lay out: those of a concatenation, each with the data it names; else itself."""
    shared = {"params": spec.get("params", []), "config": PAGE}
    datasets: dict[str, Any] = spec.get("datasets", {})
    parts = spec.get("concat") or [{key: value for key, value in spec.items() if key not in ("$schema", "config", "params", "datasets")}]
    made = []
    for part in parts:
        own = without_line_legend(part)
        if "layer" in own or "mark" in own:
            own["width"] = "container"
        used = {name: rows for name, rows in datasets.items() if name in names_of(own)}
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


def without_line_legend(part: Any) -> Any:
    """A copy whose models' colours have no legend: the page shows one for all panels."""
    if isinstance(part, list):
        return [without_line_legend(item) for item in part]
    if not isinstance(part, dict):
        return part
    if part.get("field") == "line" and "scale" in part:
        return part | {"legend": None}
    return {key: value if key == "values" else without_line_legend(value) for key, value in part.items()}


def script_json(value: Any) -> str:
    r"""JSON that stays inside a script element whatever its strings say.

    >>> script_json("</script><!-- & \u2028")
    '"\\u003c/script\\u003e\\u003c!-- \\u0026 \\u2028"'
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
