"""The isotropic level against the dimension, with the models' own (Figure 18 of “Anisotropy Is Inherent to Self-Attention”)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from isoscope.core.figure import figure
from isoscope.core.group import GROUPS, grouped
from isoscope.drawing import (
    AVERAGE,
    INK,
    PAIR,
    POLICY_IS_CHOSEN,
    Curve,
    curve_scales,
    grid,
    layered,
    model_curves,
    records,
    short,
    with_curves,
)
from isoscope.drawing.different_n import COSINES, cosine_to_draw, split_by_n, title_at_n
from isoscope.statistics.chance import one_pair

SHAPES = ["circle", "square", "triangle-up", "diamond", "cross"]


@figure(
    title="Average cosine and the isotropic level",
    caption="The curve is the 95th percentile of the cosine of one pair of isotropic vectors in d dimensions; a point is a model’s mean "
    "cosine averaged over its layers (those of one d, where d changes with depth). A percentile of single pairs is a lenient "
    "measure for an average, which would be 0 under isotropy, give or take √(2/(d·n(n−1))).",
)
def isotropic_level(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Mean cosine over dimension: the percentile of one pair as a curve, a point a model."""
    chance = table["kind"].eq("isotropic").fillna(False).astype(bool)
    rows = grouped(with_curves(table[~chance]))
    rows = rows[rows["metric"].isin(list(COSINES)) & rows["kind"].eq("hidden") & rows["head"].isna()]
    rows = rows[rows["value"].notna() & rows["d"].ge(2).fillna(False).astype(bool)]
    metric = cosine_to_draw(rows, "curve")
    rows = rows[rows["metric"].eq(metric)]
    if rows.empty and not chance.any():
        return None
    models = [curve for group in GROUPS for curve in model_curves(rows[rows["group"] == group])]
    drawn = [int(d) for d in table.loc[chance, "d"]]
    return grid([panel(part, models, drawn, COSINES[metric], words) for part, words in split_by_n(rows, "curve")], table)


def panel(rows: pd.DataFrame, models: list[Curve], drawn: list[int], said: str, words: str) -> Any:
    """The models that may be compared, and the level of one pair over their dimensions and those `drawn`; `said` names the axis."""
    import altair as alt

    points = rows.groupby(["curve", "group", "policy", "d"], sort=False)["value"].agg(["mean", "count"]).reset_index()
    points = points.assign(value=short(points["mean"]), group=points["group"].map(GROUPS), pair=[one_pair(int(d)) for d in points["d"]])
    found = [*map(int, points["d"]), *drawn]
    ends = min(16, *found, 4096), max(4096, *found)
    curve = [{"curve": PAIR.name, "d": int(d), "value": one_pair(int(d))} for d in np.unique(np.geomspace(*ends, 80).astype(int))]
    ticks = [2**k for k in range(2, 18) if ends[0] <= 2**k <= ends[1]]
    x = alt.X("d:Q", title="dimension d", scale=alt.Scale(type="log", nice=False, padding=8), axis=alt.Axis(values=ticks, format="d"))
    y = alt.Y("value:Q", title=said, scale=alt.Scale(zero=True, padding=6))
    shape = alt.Shape(
        "group:N", scale=alt.Scale(domain=[*GROUPS.values()], range=SHAPES), legend=alt.Legend(title=None, orient="bottom", columns=2)
    )
    tooltip = [
        alt.Tooltip("curve:N", title="model"),
        alt.Tooltip("group:N"),
        alt.Tooltip("d:Q", format=","),
        alt.Tooltip("count:Q", title="layers"),
    ]
    tooltip += [alt.Tooltip("value:Q", title="average cosine", format=".4g"), alt.Tooltip("pair:Q", title="one pair, 95 %", format=".3g")]
    tooltip += [alt.Tooltip("policy:N", title="tokens")]
    tone = curve_scales([*models, AVERAGE, PAIR])
    level = alt.Chart({"values": curve}).mark_line(strokeWidth=1.5).encode(x=x, y=y, **tone)
    zero = alt.Chart({"values": [{"value": 0}]}).mark_rule(stroke=INK).encode(y=y)
    data = alt.Chart({"values": records(points, ["curve", "group", "policy", "d", "count", "value", "pair"])})
    marks = data.transform_filter(POLICY_IS_CHOSEN).mark_point(size=70, strokeWidth=1.8, opacity=1)
    marks = marks.encode(x=x, y=y, **tone, shape=shape, tooltip=tooltip)
    return layered(zero, level, *([marks] if len(rows) else []), **({"title": title_at_n("average cosine", words)} if words else {}))
