"""Panels: charts drawn over each other, and panels arranged as one figure.

A figure of several panels is a plain `alt.concat`: a print file gets one sheet, and a page lays out the same panels by its own width.
Every chart has the parameter `policy`, a token policy. The page sets it; a print file shows its first value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.core.site import POLICIES

POLICY_IS_CHOSEN = "datum.policy == policy"
"""Filters the rows of the token policy that the reader chose."""


def list_policies(table: pd.DataFrame) -> list[str]:
    """The token policies of a table, the standard ones first."""
    present = {str(name) for name in table["policy"].dropna().unique()}
    standard = [name for name in POLICIES if name in present]
    return standard + sorted(present - set(standard))


def policy_filter(rows: pd.DataFrame) -> str:
    """A filter for the chosen token policy. Rows derived for a single policy are drawn whichever policy is chosen."""
    return POLICY_IS_CHOSEN if len(rows["policy"].unique()) > 1 else "true"


def title_by_policy(titles: Mapping[str, list[str]]) -> Any:
    """A title that follows the chosen policy."""
    # Titles hold names of models, which anyone can choose: quoted as JSON, nothing in them is read as a Vega expression.
    return alt.TitleParams(text=alt.ExprRef(f"{json.dumps(dict(titles))}[policy] || ''"))


PANEL = 380, 220
"""Width and height in a print file; a page chooses its own width."""


def layer_charts(*charts: Any, **properties: Any) -> Any:
    """Charts drawn over each other, with the data and the title that they share."""
    return _build_chart(alt.LayerChart, layer=list(charts), **properties)


def arrange_panels(panels: list[Any], table: pd.DataFrame, *, columns: int = 2, own_colours: bool = False, height: int = PANEL[1]) -> Any:
    """Panels of equal size as one chart whose parameter `policy` is the table's first token policy; None without panels.

    `own_colours`: each panel has its own colour scale, and so its own legend.
    """
    if not panels:
        return None
    for panel in panels:
        panel.width, panel.height = PANEL[0], height
    scale = alt.ScaleResolveMap(color="independent") if own_colours else alt.ScaleResolveMap(color="shared", strokeDash="shared")
    chart = panels[0]
    if len(panels) > 1:
        chart = _build_chart(alt.ConcatChart, concat=list(panels), columns=columns, resolve=alt.Resolve(scale=scale))
    chart.params = [alt.VariableParameter(name="policy", value=list_policies(table)[0])]
    object.__setattr__(chart, "__class__", _shown_as_svg(type(chart)))  # a chart takes plain assignments for fields of Vega-Lite
    return chart


SHOWN_AS_SVG: dict[Any, Any] = {}
"""The classes that `_shown_as_svg` made, by the kind of chart."""


def _shown_as_svg(kind: Any) -> Any:
    """The same kind of chart, which a notebook shows as SVG: Altair's own way needs a network."""

    def show(chart: Any, *included: Any, **excluded: Any) -> dict[str, str]:
        from isoscope.charts.print_chart import PRINT, render_chart

        return {"image/svg+xml": render_chart(chart.to_dict() | {"config": PRINT}, "svg").decode(), "text/plain": repr(type(chart))}

    if kind not in SHOWN_AS_SVG:
        SHOWN_AS_SVG[kind] = type(kind.__name__, (kind,), {"_repr_mimebundle_": show, "__module__": kind.__module__})
    return SHOWN_AS_SVG[kind]


def _build_chart(kind: Any, **properties: Any) -> Any:
    """A chart of this kind, without the constructor of the kind itself.

    Altair's constructors and methods copy every part at every step, which takes seconds for twenty panels. The class above the kind sets
    the same fields without copies.
    """
    chart = kind.__new__(kind)
    super(kind, chart).__init__(**properties)
    return chart
