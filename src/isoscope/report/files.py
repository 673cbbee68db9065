"""Figures as files, for a paper: SVG, PDF and PNG, made without a browser and without a network."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope.core.errors import IsoscopeError
from isoscope.core.failures import Failures
from isoscope.core.figure import Figure
from isoscope.core.group import one_checkpoint
from isoscope.core.memory import addresses_left
from isoscope.core.printable import plain
from isoscope.drawing.policies import POLICY_IS_CHOSEN
from isoscope.figures import figures

FORMATS = ("svg", "pdf", "png")
ADDRESSES = 66 << 30
"""Bytes that V8, which draws within vl-convert, reserves when it starts and mostly never takes; without them it ends the process."""

PRINT: dict[str, Any] = {
    "background": "white",
    "font": "Arial, Liberation Sans, Helvetica, sans-serif",
    "padding": 10,
    "view": {"stroke": None},
    "axis": {"gridColor": "#e6e6e6", "domainColor": "#888", "tickColor": "#888", "labelColor": "#333", "titleColor": "#333"}
    | {"titleFontWeight": "normal", "labelFontSize": 11, "titleFontSize": 12, "labelOverlap": "greedy"},
    "legend": {"labelColor": "#333", "titleColor": "#333", "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal"},
    "title": {"anchor": "start", "fontSize": 13, "color": "#111", "limit": 420, "offset": 8, "subtitleColor": "#555"},
}
"""Ink on white paper. A typeface that vl-convert carries with it comes first, so a file looks the same wherever it is made."""


def write_figures(
    table: pd.DataFrame,
    series: pd.DataFrame,
    folder: Path,
    formats: Iterable[str] = FORMATS,
    names: Iterable[str] | None = None,
    failures: Failures | None = None,
) -> list[Path]:
    """Every figure that these tables can fill, or of them those that are named, as `folder/name.format`; answers what was written.

    Of a training one checkpoint is drawn, but in the figures over its steps. A figure that raises does not stop the others; what it raised
    is noted in `failures`, or without them raised at the end.
    """
    formats = tuple(formats)
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise IsoscopeError(f"A figure can be written as {', '.join(FORMATS)}, not as {', '.join(unknown)}.")
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    noted = Failures() if failures is None else failures
    table, series = readable(table), readable(series)
    now = one_checkpoint(table, series)
    for figure in figures if names is None else [figures[name] for name in names]:
        tables = (table, series) if figure.over_steps else now
        written += noted.attempt(f"the files of the figure {figure.name}", partial(_write_figure, figure, *tables, folder, formats)) or []
    if failures is None:
        noted.raise_all("the figures")
    return written


def _write_figure(figure: Figure, table: pd.DataFrame, series: pd.DataFrame, folder: Path, formats: tuple[str, ...]) -> list[Path]:
    """One figure in every format; nothing where the tables cannot fill it."""
    chart = figure.draw(table, series)
    if chart is None:
        return []
    spec = titled(chart.to_dict(), figure.title) | {"config": PRINT}
    paths = {name: folder / f"{figure.name}.{name}" for name in formats}
    for name, path in paths.items():
        path.write_bytes(rendered(spec, name))
    return list(paths.values())


def titled(spec: dict[str, Any], title: str) -> dict[str, Any]:
    """The chart with a title that says which tokens it shows: paper has no switch, and the choice moves every number."""
    follows = POLICY_IS_CHOSEN in json.dumps(spec)
    chosen = [f"tokens: {param['value']}" for param in spec.get("params", []) if param["name"] == "policy" and follows]
    own = spec.get("title", title)
    text = title if "concat" in spec else own["text"] if isinstance(own, dict) else own
    said = [own["subtitle"]] if isinstance(own, dict) and "concat" not in spec and "subtitle" in own else []
    below = said + chosen
    return spec | {"title": {"text": text, "anchor": "start", "offset": 12} | ({"subtitle": below} if below else {})}


def rendered(spec: dict[str, Any], name: str) -> bytes:
    """One chart in one format; vl-convert may read neither files nor addresses."""
    version, draw = vega_lite_version(), drawing()
    closed: dict[str, Any] = {"vl_version": version, "allowed_base_urls": []}
    if name == "svg":
        return str(draw.vegalite_to_svg(spec, **closed)).encode()
    if name == "pdf":
        return bytes(draw.vegalite_to_pdf(spec, **closed))
    return bytes(draw.vegalite_to_png(spec, scale=2, **closed))


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """The table with names that an SVG may hold: of any other character vl-convert ends the process.

    >>> readable(pd.DataFrame({"model": ["a\\x1b[31m", "b"], "layer": [0, 1]}))["model"].tolist()
    ['a\\\\x1b[31m', 'b']
    """
    for column in table.columns:
        strange = {name: plain(name) for name in table[column].unique() if isinstance(name, str) and plain(name) != name}
        if strange:
            table = table.assign(**{column: [strange.get(name, name) for name in table[column]]})
    return table


@lru_cache
def drawing() -> Any:
    """vl-convert, where it can be started: once it runs it needs no more."""
    import vl_convert

    if (left := addresses_left()) < ADDRESSES:
        raise IsoscopeError(
            f"Drawing reserves {ADDRESSES >> 30} GB of addresses, and {left >> 30} GB are left to this process; raise `ulimit -v`, or "
            "take it away, for this command."
        )
    return vl_convert


def vega_lite_version() -> str:
    """The newest Vega-Lite that vl-convert has and that is no newer than the one Altair writes for."""
    import altair
    import vl_convert

    def number(text: str) -> tuple[int, ...]:
        return tuple(int(part) for part in text.lstrip("v").split(".")[:2])

    versions: list[str] = vl_convert.get_vegalite_versions()
    usable = [name for name in versions if number(name) <= number(altair.SCHEMA_VERSION)]
    return max(usable or versions, key=number)
