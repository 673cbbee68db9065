"""Figures as SVG, PDF and PNG files for a paper, drawn without a browser or a network."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope.charts.panels import POLICY_IS_CHOSEN
from isoscope.core.errors import Failures, IsoscopeError
from isoscope.core.figure import Figure
from isoscope.core.memory import addresses_left
from isoscope.core.model_groups import select_one_checkpoint
from isoscope.core.wording import format_list, plain
from isoscope.figures import figures

FORMATS = ("svg", "pdf", "png")
ADDRESSES = 66 << 30
"""Bytes of address space that V8, inside vl-convert, reserves when it starts. It aborts the process if it cannot have them."""
LONGEST_NAME = 200
"""Characters of a name that is drawn as it is."""

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
"""Dark ink on white. The first typeface comes with vl-convert, so that a file looks the same wherever it is drawn."""


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


def render_chart(spec: dict[str, Any], name: str) -> bytes:
    """One chart in one format. vl-convert may read neither files nor URLs."""
    version, converter = vega_lite_version(), load_converter()
    # A chart of a stranger's run could name a file or a URL as its data.
    closed: dict[str, Any] = {"vl_version": version, "allowed_base_urls": []}
    if name == "svg":
        return str(converter.vegalite_to_svg(spec, **closed)).encode()
    if name == "pdf":
        return bytes(converter.vegalite_to_pdf(spec, **closed))
    return bytes(converter.vegalite_to_png(spec, scale=2, **closed))


def escape_names(table: pd.DataFrame) -> pd.DataFrame:
    """The table with names that can be drawn: vl-convert aborts the process on control characters, and takes seconds over a long name.

    >>> escape_names(pd.DataFrame({"model": ["a\\x1b[31m", "b"], "layer": [0, 1]}))["model"].tolist()
    ['a\\\\x1b[31m', 'b']
    """
    for column in table.columns:
        shorten = str if column == "spec" else shorten_name  # settings are read by figures, and not drawn
        strange = {name: shorten(plain(name)) for name in table[column].unique() if isinstance(name, str)}
        strange = {name: drawn for name, drawn in strange.items() if drawn != name}
        if strange:
            table = table.assign(**{column: [strange.get(name, name) for name in table[column]]})
    return table


def shorten_name(name: str) -> str:
    """The name itself, or both of its ends if it is longer than any label; a digest keeps two long names apart.

    >>> len(shorten_name("x" * 5000)), shorten_name("mean_cosine")
    (131, 'mean_cosine')
    """
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:80]}…{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:10]}…{name[-39:]}"


@lru_cache
def load_converter() -> Any:
    """vl-convert, if there is enough address space to start it; once it runs it needs no more."""
    import vl_convert

    if (left := addresses_left()) < ADDRESSES:
        raise IsoscopeError(
            f"Drawing reserves {ADDRESSES >> 30} GB of address space, but this process has only {left >> 30} GB left; raise or remove "
            "`ulimit -v` for this command."
        )
    return vl_convert


def vega_lite_version() -> str:
    """The newest Vega-Lite that vl-convert has, and that is not newer than the one of Altair."""
    import altair
    import vl_convert

    def number(text: str) -> tuple[int, ...]:
        return tuple(int(part) for part in text.lstrip("v").split(".")[:2])

    versions: list[str] = vl_convert.get_vegalite_versions()
    usable = [name for name in versions if number(name) <= number(altair.SCHEMA_VERSION)]
    return max(usable or versions, key=number)
