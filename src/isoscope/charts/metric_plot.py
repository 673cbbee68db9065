"""One metric over the layers at the size of a figure in a paper: a column's width, small type, thin lines, and no title."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope.charts.different_n import split_by_n
from isoscope.charts.metric_panel import draw_metric_panel
from isoscope.charts.panels import arrange_panels
from isoscope.charts.print_chart import PRINT, escape_names, render_chart
from isoscope.charts.records import label_lines, line_names, select_layers
from isoscope.core.errors import IsoscopeError

UNITS = {"in": 1.0, "": 1.0, "mm": 1 / 25.4, "cm": 1 / 2.54, "pt": 1 / 72}
"""Inches of each unit of length."""
POINTS = 72
"""The charts are drawn in points: this many are an inch."""
PPI = 300
"""Points of a PNG per inch."""
SMALL: dict[str, Any] = PRINT | {
    "padding": 2,
    "axis": PRINT["axis"]
    | {"labelFontSize": 7, "titleFontSize": 8, "titlePadding": 4, "tickSize": 3}
    | {"gridWidth": 0.4, "domainWidth": 0.6, "tickWidth": 0.6},
    "legend": PRINT["legend"] | {"labelFontSize": 7, "symbolSize": 60, "rowPadding": 1, "offset": 4, "columns": 1},
    "title": PRINT["title"] | {"fontSize": 8, "offset": 4, "subtitleFontSize": 7},
}
"""Type of 7 and 8 points."""
THINNER = {"strokeWidth": 0.55, "size": 0.4}
"""Lines and points in proportion to the type."""


def parse_length(text: str | float, option: str = "width") -> float:
    """A length in inches.

    >>> parse_length("3.25in"), round(parse_length("86mm"), 3), parse_length(5)
    (3.25, 3.386, 5.0)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(in|mm|cm|pt|)\s*", str(text))
    inches = float(match[1]) * UNITS[match[2]] if match else 0.0
    if not 1.0 <= inches <= 40.0:
        raise IsoscopeError(f"The {option} of a figure is a length from 1 to 40 inches, as 3.25in or 86mm; got {text!r}.")
    return inches


@dataclass(frozen=True)
class MetricPlot:
    """A chart at a given width, which a notebook shows without a network and `save` writes as SVG, PDF or PNG."""

    spec: dict[str, Any]
    width: float
    """In inches."""

    @cached_property
    def svg(self) -> str:
        """The chart as SVG, its width in inches."""
        text = render_chart(self.spec, "svg").decode()
        drawn, height = (float(size) for size in re.findall(r'\b(?:width|height)="([\d.]+)"', text)[:2])
        size = f'width="{self.width:g}in" height="{self.width * height / drawn:.4g}in"'
        return re.sub(r'\bwidth="[\d.]+" height="[\d.]+"', size, text, count=1)

    def save(self, path: str | Path) -> Path:
        """Write the chart; the ending of the path says as what."""
        path = Path(path)
        ending = path.suffix.lower().removeprefix(".")
        if ending not in ("svg", "pdf", "png"):
            raise IsoscopeError(f"A figure is written as .svg, .pdf or .png; {path.name} ends otherwise.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.svg.encode() if ending == "svg" else render_chart(self.spec, ending, ppi=PPI))
        return path

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"image/svg+xml": self.svg, "text/plain": repr(self)}

    def __repr__(self) -> str:
        return f'Figure {self.width:g} inches wide; save("figure.pdf") writes it as .svg, .pdf or .png'


def plot_metric(
    table: pd.DataFrame, metric: str, *, label: str, width: str | float = "3.25in", height: str | float | None = None, title: str = ""
) -> MetricPlot:
    """Draw the rows of a metric over the layers, as the figure `layer_profile` does, at the width of a column.

    Args:
        table: rows of one token policy and of one checkpoint per model; those of other metrics are left out.
        metric: its name.
        label: of the vertical axis.
        width: of the whole figure; a number is inches, and a text may be in mm, cm or pt.
        height: of the panel; by default six tenths of the width.
        title: above the panel.
    """
    inches = parse_length(width)
    tall = 0.6 * inches if height is None else parse_length(height, "height")
    labelled = label_lines(escape_names(table))[0]
    rows = select_layers(labelled, pooled=True)
    own = rows[rows["metric"] == metric]
    second, names = rows[rows["metric"] == f"{metric}_norm_null"], line_names(own)
    parts = split_by_n(own, "line", title)
    if not parts:
        raise IsoscopeError(f"There is no value of {metric} in any layer to draw.")
    panels = [
        draw_metric_panel(part, second, part_title, names, y_title=label, legend=len(names) > 1 and i == 0)
        for i, (part, part_title) in enumerate(parts)
    ]
    chart = arrange_panels(panels, labelled, columns=1)
    spec = _thin(chart.to_dict()) | {"config": SMALL}
    wanted = POINTS * inches
    # Labels and titles take the same room at any width, so that one correction makes the whole as wide as it shall be.
    drawn = wanted - 40
    for _ in range(2):
        for panel in spec.get("concat", [spec]):
            panel["width"], panel["height"] = drawn, POINTS * tall - 30
        whole = float(re.findall(r'\bwidth="([\d.]+)"', render_chart(spec, "svg").decode())[0])
        drawn = max(drawn + wanted - whole, 20.0)
    return MetricPlot(spec, inches)


def _thin(value: Any) -> Any:
    """A specification with thinner lines and smaller points, and legends in one column."""
    if isinstance(value, list):
        return [_thin(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    thinner = {key: inner if key in ("values", "datasets") else _thin(inner) for key, inner in value.items()}
    for key, factor in THINNER.items():
        if isinstance(thinner.get(key), int | float):
            thinner[key] *= factor
    if isinstance(legend := thinner.get("legend"), dict):
        thinner["legend"] = {key: inner for key, inner in legend.items() if key != "columns"}
    return thinner
