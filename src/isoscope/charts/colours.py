"""Colours of lines and layers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from isoscope.charts import lazy_altair as alt
from isoscope.charts.selection import pick_evenly

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
