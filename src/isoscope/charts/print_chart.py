"""Charts as SVG, PDF and PNG, drawn without a browser or a network."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import pandas as pd

from isoscope.core.errors import IsoscopeError
from isoscope.core.machine import addresses_left
from isoscope.core.wording import plain

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


def render_chart(spec: dict[str, Any], name: str, *, ppi: float | None = None) -> bytes:
    """One chart in one format; `ppi` gives the resolution of a PNG. vl-convert may read neither files nor URLs."""
    version, converter = vega_lite_version(), load_converter()
    # A chart of a stranger's run could name a file or a URL as its data.
    closed: dict[str, Any] = {"vl_version": version, "allowed_base_urls": []}
    if name == "svg":
        return str(converter.vegalite_to_svg(spec, **closed)).encode()
    if name == "pdf":
        return bytes(converter.vegalite_to_pdf(spec, **closed))
    return bytes(converter.vegalite_to_png(spec, **({"scale": 2} if ppi is None else {"ppi": ppi}), **closed))


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
