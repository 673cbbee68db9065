"""Curves: the entries of a figure's own legend, each with a colour and a dash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.colours import INK, PALETTE, cycle_palette
from isoscope.charts.labels import label_lines, line_names
from isoscope.core.model_groups import UNTRAINED


@dataclass(frozen=True)
class Curve:
    """One entry of a legend: a network with all of its stacks, a published curve, or a reference level."""

    name: str
    tone: str = INK
    dash: tuple[int, ...] = (1, 0)


AVERAGE = Curve("isotropic: the average over pairs, 0")
PAIR = Curve("isotropic: 95th percentile of one pair, at its d", dash=(1, 3))
"""The two levels of isotropy, which are often mistaken for each other."""


def add_curves(table: pd.DataFrame) -> pd.DataFrame:
    """The table with two columns: `curve`, a network with all of its stacks, and `tone`, the colour of its first line in other figures."""
    lines = label_lines(table)[0]
    names = line_names(lines)
    tones = dict(zip(names, cycle_palette(len(names)), strict=True))
    # Without its stack, an encoder–decoder is one curve.
    curve = label_lines(table.assign(stack=""))[0]["line"]
    return table.assign(curve=curve, tone=lines["line"].map(tones).groupby(curve).transform("first"))


def model_curves(rows: pd.DataFrame) -> list[Curve]:
    """The networks of a table with curves; their tones differ until the palette is used up, and untrained networks are dashed."""
    curves: dict[str, Curve] = {}
    for name, tone in rows[["curve", "tone"]].drop_duplicates().itertuples(index=False):
        # Stacks count as lines when tones are given out, so two curves may have been given the same one.
        taken = {INK, *(curve.tone for curve in curves.values())}
        free = tone if tone not in taken else next((other for other in PALETTE if other not in taken), tone)
        curves.setdefault(name, Curve(name, free, (6, 3) if name.startswith(UNTRAINED) else (1, 0)))
    return list(curves.values())


def curve_encodings(curves: list[Curve], *, dashed: bool = True) -> dict[str, Any]:
    """The encodings that give each curve its colour and dash, with one legend for both."""
    names = [curve.name for curve in curves]
    key = alt.Legend(orient="top", columns=2, labelLimit=370, title=None, symbolType="stroke", symbolOpacity=1, symbolSize=300)
    tone = alt.Color("curve:N", scale=alt.Scale(domain=names, range=[curve.tone for curve in curves]), legend=key)
    dash = alt.StrokeDash("curve:N", scale=alt.Scale(domain=names, range=[list(curve.dash) for curve in curves]), legend=key)
    return {"color": tone, "strokeDash": dash} if dashed else {"color": tone}
