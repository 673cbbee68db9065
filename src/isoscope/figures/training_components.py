"""Along which components mean query and mean key lie at the end of a training (paper 1, appendix C, in numbers)."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import curve_scales, grid, layered, records
from isoscope.drawing.projection import KINDS, projected

BASES = {"union": "components of both", "key": "components of the keys", "query": "components of the queries"}


@figure(
    title="Which components carry the drift",
    caption="Where the mean query and the mean key of the two heads of Figure 11 lie at the last step on the first components of all "
    "steps: of queries and keys together, of the keys alone, of the queries alone. If one component carries both drifts in each "
    "of the three, the two means lie along one direction, whichever of them it is taken from.",
)
def training_components(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A row of panels a head, a panel a basis."""
    found = {basis: projected(table, series, f"mean_along_{basis}") for basis in BASES}
    heads = {head.title: None for own in found.values() for head, _ in own}
    rows = {(head.title, basis): points for basis, own in found.items() for head, points in own}
    panels = [panel(rows[head, basis], [*head, title]) for head in heads for basis, title in BASES.items() if (head, basis) in rows]
    return grid(panels, table, columns=len(BASES))


def panel(points: pd.DataFrame, title: list[str]) -> Any:
    """The coordinates of both means on the components of one basis, at the last step."""
    import altair as alt

    last = points[points["step"].eq(points["step"].max())]
    last = last.assign(x=last["x"].astype(int))
    base = alt.Chart({"values": records(last, ["curve", "x", "y"])})
    side = alt.XOffset("curve:N", scale=alt.Scale(domain=[curve.name for curve in KINDS.values()]))
    x = alt.X("x:O", title="component", axis=alt.Axis(labelAngle=0))
    scales = curve_scales(list(KINDS.values()))
    y = alt.Y("y:Q", title="coordinate of the mean")
    tooltip = [alt.Tooltip("curve:N", title="mean of"), alt.Tooltip("x:O", title="component"), alt.Tooltip("y:Q", format=".4g")]
    stems = base.mark_rule(strokeWidth=2).encode(x=x, xOffset=side, y=y, y2=alt.datum(0), **scales)
    dots = base.mark_point(filled=True, size=40, opacity=1).encode(x=x, xOffset=side, y=y, color=scales["color"], tooltip=tooltip)
    return layered(stems, dots, title=title)
