"""The cosine of one group's models over their layers, published curves beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from isoscope.core.group import UNTRAINED, grouped, in_a_row
from isoscope.core.published import published
from isoscope.drawing import (
    INK,
    PAIR,
    POLICY_IS_CHOSEN,
    Curve,
    curve_scales,
    grid,
    layer_axis,
    layered,
    model_curves,
    records,
    short,
    with_curves,
)
from isoscope.drawing.different_n import COSINES, cosine_to_draw, interval_words, split_by_n, title_at_n
from isoscope.statistics.chance import one_pair


def group_profile(group: str, table: pd.DataFrame, kinds: Mapping[str, str], levels: Mapping[Curve, float]) -> Any:
    """Mean cosine of one group's models by layer, and by relative depth where vectors are hidden states; None where it has no model.

    `kinds`: the kinds of site with the titles of their panels; one that is not in the table has none. `levels`: what is drawn as a rule.
    """
    rows = grouped(with_curves(table))
    rows = rows[rows["group"].eq(group) & rows["metric"].isin(list(COSINES)) & rows["layer"].notna() & rows["head"].isna()]
    rows = rows[rows["kind"].isin([*kinds, "final"]) & rows["value"].notna()]
    metric = cosine_to_draw(rows, "curve")
    rows = rows[rows["metric"].eq(metric)]
    if not rows["kind"].isin(list(kinds)).any():
        return None
    rows = in_a_row(rows).drop_duplicates(["curve", "stack", "kind", "layer", "policy"])
    models = model_curves(rows)
    rows = rows.assign(pair=[one_pair(max(int(d), 2)) for d in rows["d"]]).sort_values("place", kind="stable")
    rows = rows.assign(**{name: short(rows[name]) for name in ("value", "low", "high", "pair", "depth")})
    beside = published_beside(rows)
    tones = {curve.name: curve.tone for curve in models}
    known = [*models, *(Curve(name, tones[of], (2, 2)) for name, of in beside[["curve", "of"]].drop_duplicates().to_numpy()), *levels, PAIR]
    made = []
    for kind, title in kinds.items():
        own = rows[rows["kind"].isin([kind, "final"] if kind == "hidden" else [kind])]
        if own["kind"].eq(kind).any():
            for field in ("place", "depth") if kind in ("hidden", "map") else ("place",):
                where = "by relative depth" if field == "depth" else "by layer"
                for part, words in split_by_n(own, "curve"):
                    shown = beside[beside["kind"].eq(kind) & beside["of"].isin(part["curve"])]
                    made.append(_profile(part, shown, field, known, levels, title_at_n(f"{title} {where}", words), COSINES[metric]))
    return grid(made, table)


def published_beside(rows: pd.DataFrame) -> pd.DataFrame:
    """The published curves of the models in these rows, `of` whose curve they are drawn beside; a checkpoint more adds none."""
    found = []
    for (curve, model), own in rows[rows["kind"] == "hidden"].groupby(["curve", "model"], sort=False):
        last = max(int(own["place"].max()), 1)
        for other in published(str(model)):
            for place, value in enumerate(other.values, other.first):
                name = f"{model}: {other.label}"
                found.append({"curve": name, "of": curve, "kind": "hidden", "place": place, "depth": place / last, "value": value})
    frame = pd.DataFrame(found, columns=["curve", "of", "kind", "place", "depth", "value"])
    return frame.drop_duplicates(["curve", "place"])


def _profile(
    rows: pd.DataFrame, beside: pd.DataFrame, field: str, known: list[Curve], levels: Mapping[Curve, float], title: Any, said: str
) -> Any:
    """One panel of a group: levels, seams, intervals, models, published curves; `field` is `place` or `depth`, `said` the axis."""
    import altair as alt

    scales = curve_scales(known)
    tone = {"color": scales["color"]}
    x = (
        layer_axis(field)
        if field == "place"
        else alt.X("depth:Q", title="relative depth", scale=alt.Scale(domain=[0, 1], nice=False, padding=8))
    )
    y = alt.Y("value:Q", title=said, scale=alt.Scale(zero=True))
    weight = alt.Opacity("weight:Q", scale=None, legend=None)
    stack = alt.Detail("stack:N")
    columns = ["curve", "stack", "kind", "layer", "policy", "value", "low", "high", "pair", "n", "d", field]
    tooltip = [alt.Tooltip("curve:N", title="model"), *map(alt.Tooltip, ("stack:N", "kind:N", "layer:Q"))]
    tooltip += [alt.Tooltip("policy:N", title="tokens"), alt.Tooltip("value:Q", title=said, format=".4g")]
    tooltip += [alt.Tooltip("interval:N", title="95 % interval")]
    tooltip += [
        alt.Tooltip("pair:Q", title="one isotropic pair, 95 %", format=".3g"),
        alt.Tooltip("n:Q", format=","),
        alt.Tooltip("d:Q", format=","),
    ]
    base = alt.Chart().encode(x=x)
    layers, final = base.transform_filter("datum.kind != 'final'"), base.transform_filter("datum.kind == 'final'")
    band = {"y": alt.Y("low:Q", title=said), "y2": alt.Y2("high:Q")}
    pair = {"y": alt.Y("pair:Q", title=said), "detail": [alt.Detail("curve:N"), stack]}
    models = layered(
        layers.mark_line(stroke=INK, strokeDash=list(PAIR.dash), strokeWidth=1.2).encode(**pair),
        *([layers.mark_area(opacity=0.18).encode(**band, **tone, detail=stack)] if rows["low"].notna().any() else []),
        layers.mark_line(strokeWidth=1.8).encode(y=y, **scales, detail=stack, opacity=weight),
        layers.mark_point(filled=True, size=20).encode(y=y, **tone, opacity=weight, tooltip=tooltip),
        final.mark_point(shape="diamond", size=75, strokeWidth=1.8).encode(y=y, **tone, opacity=weight, tooltip=tooltip),
        data={"values": records(rows, columns)},
    )
    others = [_seams(rows, field).encode(x=x, **tone)] if rows["seam"].gt(0).any() else []
    if len(beside):
        drawn = alt.Chart({"values": records(beside.assign(depth=short(beside["depth"])), ["curve", field, "value"])}).encode(x=x, y=y)
        tip = [
            alt.Tooltip("curve:N", title="published"),
            alt.Tooltip(f"{field}:Q", format=".3g"),
            alt.Tooltip("value:Q", title=said),
        ]
        others += [drawn.mark_line(strokeWidth=1.4).encode(**scales), drawn.mark_point(size=14, strokeWidth=1).encode(**tone, tooltip=tip)]
    rules = [
        alt.Chart({"values": [{"value": level}]}).mark_rule(stroke=curve.tone, strokeDash=list(curve.dash), opacity=0.8).encode(y=y)
        for curve, level in levels.items()
    ]
    faint = f"indexof(datum.curve, '{UNTRAINED}') == 0 ? 0.6 : 1"
    models = models.transform_filter(POLICY_IS_CHOSEN).transform_calculate(interval=interval_words(rows), weight=faint)
    return layered(*rules, models, *others, title=title)


def _seams(rows: pd.DataFrame, field: str) -> Any:
    """A rule where a model's second stack begins, halfway between the last layer of the first and the first of the second."""
    import altair as alt

    first = rows[rows["seam"] > 0].drop_duplicates(["curve", "stack"])
    step = first["depth"] / first["place"] if field == "depth" else 1.0
    marks = first.assign(**{field: short((first["seam"] - 0.5) * step)})
    return alt.Chart({"values": records(marks, ["curve", "stack", field])}).mark_rule(strokeDash=[2, 3], opacity=0.7)
