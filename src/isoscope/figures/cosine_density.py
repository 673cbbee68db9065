"""The density of the cosine between isotropic vectors (Figure 17 of “Anisotropy Is Inherent to Self-Attention”)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import PALETTE, grid, records, short

MOST = 6
"""Curves that can be told apart."""


@figure(
    title="The cosine of one isotropic pair",
    caption="How the cosine of two isotropic Gaussian vectors is spread in d dimensions, in closed form: the more, the closer to 0, "
    "with standard deviation 1/√d. This is one pair. The average over all pairs of n points is narrower by a factor of about n/√2.",
)
def cosine_density(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One curve a dimension, from the smallest d to the largest."""
    import altair as alt

    rows = series[series["name"].eq("cosine_density").fillna(False).astype(bool)]
    if rows.empty:
        return None
    chosen = _spread(sorted({int(d) for d in rows["weight"]}))
    reach = min(1.0, 3 * chosen[0] ** -0.5)
    rows = rows[rows["weight"].isin(chosen) & rows["x"].abs().le(reach)]
    rows = rows.assign(d=[str(int(d)) for d in rows["weight"]], x=short(rows["x"]), y=short(rows["y"]))
    names = [str(d) for d in chosen]
    legend = alt.Legend(title="d", orient="right", symbolType="stroke", symbolOpacity=1)
    tone = alt.Color("d:N", scale=alt.Scale(domain=names, range=PALETTE[: len(names)]), legend=legend)
    x = alt.X("x:Q", title="cosine of one pair", scale=alt.Scale(domain=[-reach, reach], nice=False))
    y = alt.Y("y:Q", title="density")
    tooltip = [alt.Tooltip("d:N"), alt.Tooltip("x:Q", title="cosine", format=".3f"), alt.Tooltip("y:Q", title="density", format=".3g")]
    curves = alt.Chart({"values": records(rows, ["d", "x", "y"])}).mark_line(strokeWidth=1.8).encode(x=x, y=y, color=tone, tooltip=tooltip)
    return grid([curves], table)


def _spread(dimensions: list[int]) -> list[int]:
    """At most `MOST` of them, from the first to the last in steps of about equal factors.

    >>> _spread([16, 64, 128, 256, 512, 768, 1024, 2048, 4096, 8192])
    [16, 64, 256, 768, 2048, 8192]
    """
    if len(dimensions) <= MOST:
        return dimensions
    steps = np.geomspace(dimensions[0], dimensions[-1], MOST)
    return sorted({min(dimensions, key=lambda d: abs(np.log(d / step))) for step in steps})
