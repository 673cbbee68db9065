"""Colours, and the curves of a figure's own legend."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.records import label_lines, line_names, pick_evenly
from isoscope.core.model_groups import UNTRAINED

BLUE, ORANGE, GREEN, PINK, OCHRE = "#4c78a8", "#e4762b", "#3f9d63", "#c2559b", "#b8912b"
TEAL, RED, VIOLET, OLIVE, INK = "#2a9db0", "#d24b4b", "#8b6fc0", "#8a8f3c", "#7d7f86"
"""Tones of medium lightness, which are legible on white paper and on a dark page. Ink is for references."""
PALETTE = [BLUE, ORANGE, GREEN, PINK, OCHRE, TEAL, RED, VIOLET, OLIVE, INK]

DEPTH = ["#3b82c4", "#8f6fc9", "#d9588a", "#f0853b"]
"""From the first layer to the last."""


def cycle_palette(count: int) -> list[str]:
    """This many tones; they repeat after ten."""
    return [PALETTE[i % len(PALETTE)] for i in range(count)]


def line_colour(names: list[str], *, legend: bool = True) -> Any:
    """One colour per line, the same in every chart drawn from one table."""
    key = alt.Legend(orient="top", columns=3, labelLimit=300, title=None, symbolType="stroke", symbolOpacity=1) if legend else None
    return alt.Color("line:N", scale=alt.Scale(domain=names, range=cycle_palette(len(names))), legend=key)


def layer_colour(layers: Iterable[int]) -> Any:
    """Colour by layer, from the first to the last, with a legend that names at most seven of them."""
    known = sorted({int(layer) for layer in layers}) or [0]
    legend = alt.Legend(title="layer", orient="right", values=pick_evenly(known, 7), format="d", symbolOpacity=1)
    # A domain of one number has no gradient, so a single layer gets one that is a layer wide.
    domain = [known[0], max(known[-1], known[0] + 1)]
    return alt.Color("layer:Q", scale=alt.Scale(range=DEPTH, domain=domain), legend=legend)


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
