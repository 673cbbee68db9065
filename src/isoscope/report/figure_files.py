"""Figures as SVG, PDF and PNG files for a paper, drawn without a browser or a network."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope.charts.panels import POLICY_IS_CHOSEN
from isoscope.charts.print_chart import PRINT, escape_names, render_chart
from isoscope.core.errors import Failures, IsoscopeError
from isoscope.core.figure import Figure
from isoscope.core.model_groups import select_one_checkpoint
from isoscope.core.wording import format_list
from isoscope.figures import figures

FORMATS = ("svg", "pdf", "png")


def write_figures(
    table: pd.DataFrame,
    series: pd.DataFrame,
    folder: Path,
    formats: Iterable[str] = FORMATS,
    names: Iterable[str] | None = None,
    failures: Failures | None = None,
) -> list[Path]:
    """Write every figure that these tables can fill, or those of `names`, as `folder/name.format`, and return the paths.

    Figures over steps show a whole training, the others one checkpoint. A figure that raises does not stop the others: its exception goes
    into `failures`, or is raised at the end if there are none.
    """
    formats = tuple(formats)
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise IsoscopeError(f"A figure can be written as {format_list(FORMATS)}, not as {format_list(unknown)}.")
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    noted = Failures() if failures is None else failures
    table, series = escape_names(table), escape_names(series)
    shown = select_one_checkpoint(table, series)
    for figure in figures if names is None else [figures[name] for name in names]:
        tables = (table, series) if figure.over_steps else shown
        written += noted.attempt(f"the files of the figure {figure.name}", partial(_write_figure, figure, *tables, folder, formats)) or []
    if failures is None:
        noted.raise_all("the figures")
    return written


def draw_figure(run: str | Path, name: str, metric: str | None = None) -> Any:
    """A figure of a run as an Altair chart, as the page shows it; None if there is nothing to draw.

    `metric` keeps the rows of one metric.
    """
    from isoscope.runs.results import Results

    results, figure = Results(run), figures[name]
    table, series = results.table(metric, "every"), results.series()
    return figure.draw(*((table, series) if figure.over_steps else select_one_checkpoint(table, series)))


def _write_figure(figure: Figure, table: pd.DataFrame, series: pd.DataFrame, folder: Path, formats: tuple[str, ...]) -> list[Path]:
    """Write one figure in every format; nothing if the tables cannot fill it."""
    chart = figure.draw(table, series)
    if chart is None:
        return []
    spec = add_title(chart.to_dict(), figure.title) | {"config": PRINT}
    paths = {name: folder / f"{figure.name}.{name}" for name in formats}
    for name, path in paths.items():
        path.write_bytes(render_chart(spec, name))
    return list(paths.values())


def add_title(spec: dict[str, Any], title: str) -> dict[str, Any]:
    """The chart with a title that names the token policy: paper has no switch for it, and it affects every number."""
    has_switch = POLICY_IS_CHOSEN in json.dumps(spec)
    tokens = [f"tokens: {param['value']}" for param in spec.get("params", []) if param["name"] == "policy" and has_switch]
    own = spec.get("title", title)
    text = title if "concat" in spec else own["text"] if isinstance(own, dict) else own
    subtitle = [own["subtitle"]] if isinstance(own, dict) and "concat" not in spec and "subtitle" in own else []
    below = subtitle + tokens
    return spec | {"title": {"text": text, "anchor": "start", "offset": 12} | ({"subtitle": below} if below else {})}
