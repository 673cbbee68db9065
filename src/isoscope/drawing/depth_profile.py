"""A number over relative depth, so that stacks of different length lie over each other."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.group import UNTRAINED, block_layers
from isoscope.drawing import INK, POLICY_IS_CHOSEN, Curve, curve_scales, in_layers, labelled, layered, records, short
from isoscope.drawing.different_n import interval_words, split_by_n, title_at_n

ROLES = {"encoder": "#4c78a8", "decoder": "#e4762b"}
"""The colour of encoders and that of decoders; any other stack is grey."""
DASHES = [(1, 0), (6, 2), (2, 2), (8, 2, 2, 2), (4, 4), (1, 3), (10, 3), (12, 2, 2, 2, 2, 2)]
"""The models of one role are told apart by their dash."""
COLUMNS = ["curve", "kind", "layer", "policy", "value", "low", "high", "null", "n", "d", "depth"]


def by_depth(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of layers with their `depth` in their own stack, from 0, which enters the first block, to 1, which leaves the last.

    The state after a final norm is at the depth of the last block.
    """
    table = labelled(table, table.iloc[:0])[0]
    rows = in_layers(table)
    last = rows[rows["kind"].eq("hidden")].groupby("line")["layer"].max()
    whole = rows["line"].map(last).astype("Float64").clip(lower=1)
    return rows.assign(depth=(block_layers(rows) / whole).astype("float64"))


def role_curves(rows: pd.DataFrame) -> dict[str, Curve]:
    """The entry of the legend of each line, encoders first: its colour says what it is, its dash which."""
    stacks = dict(rows[["line", "stack"]].drop_duplicates("line").astype(str).to_numpy())
    found: dict[str, Curve] = {}
    for role in [*ROLES, *sorted(set(stacks.values()) - set(ROLES))]:
        for i, line in enumerate(name for name in stacks if stacks[name] == role):
            title = line if line.endswith(f" · {role}") else f"{line} · {role}"
            found[line] = Curve(title, ROLES.get(role, INK), DASHES[i % len(DASHES)])
    return found


def depth_panel(rows: pd.DataFrame, curves: list[Curve], title: Any, said: str, *, null: bool) -> Any:
    """One panel: bands, lines and points of the hidden layers, a diamond for the state after the final norm; `null` is drawn thin."""
    import altair as alt

    scales = curve_scales(curves)
    tone = {"color": scales["color"]}
    rows = rows.sort_values(["curve", "layer"], kind="stable")
    rows = rows.assign(**{name: short(rows[name]) for name in ("value", "low", "high", "null", "depth")})
    x = alt.X("depth:Q", title="relative depth", scale=alt.Scale(domain=[0, 1], nice=False, padding=8))
    if null:  # it lies so far above that only a logarithmic axis shows both; an interval's end below is drawn at the axis
        rows["low"] = rows["low"].clip(lower=float(rows[["value", "high"]].min().min()) / 2)
    scale = alt.Scale(type="log", nice=False, padding=6) if null else alt.Scale(zero=True)
    y = alt.Y("value:Q", title=said, scale=scale)
    tooltip = [
        alt.Tooltip("curve:N", title="model"),
        alt.Tooltip("kind:N"),
        alt.Tooltip("layer:Q"),
        alt.Tooltip("policy:N", title="tokens"),
    ]
    tooltip += [alt.Tooltip("value:Q", title=said, format=".4g"), alt.Tooltip("interval:N", title="95 % interval")]
    tooltip += [alt.Tooltip("null:Q", title="under isotropy", format=".4g"), alt.Tooltip("n:Q", format=","), alt.Tooltip("d:Q", format=",")]
    weight = alt.Opacity("weight:Q", scale=None, legend=None)
    base = alt.Chart().encode(x=x)
    hidden, final = (base.transform_filter(f"datum.kind == '{kind}'") for kind in ("hidden", "final"))
    ends = {"y": alt.Y("low:Q", title=said, scale=scale), "y2": alt.Y2("high:Q")}
    chart = layered(
        *([hidden.mark_area(opacity=0.18).encode(**ends, **tone, detail=alt.Detail("curve:N"))] if rows["low"].notna().any() else []),
        *(
            [
                hidden.mark_line(strokeWidth=1, opacity=0.6, stroke=INK).encode(
                    y=alt.Y("null:Q", title=said, scale=scale), detail=alt.Detail("curve:N")
                )
            ]
            if null
            else []
        ),
        hidden.mark_line(strokeWidth=1.8).encode(y=y, **scales, opacity=weight),
        hidden.mark_point(filled=True, size=20).encode(y=y, **tone, opacity=weight, tooltip=tooltip),
        final.mark_point(shape="diamond", size=75, strokeWidth=1.8).encode(y=y, **tone, opacity=weight, tooltip=tooltip),
        data={"values": records(rows, COLUMNS)},
        title=title,
    )
    faint = f"indexof(datum.curve, '{UNTRAINED}') == 0 ? 0.6 : 1"
    return chart.transform_filter(POLICY_IS_CHOSEN).transform_calculate(interval=interval_words(rows), weight=faint)


def depth_panels(table: pd.DataFrame, shown: dict[str, tuple[str, str]], *, null: bool) -> list[Any]:
    """A panel a metric that has values, and n where it depends on n: its title, and what its axis is called."""
    rows = by_depth(table)
    rows = rows[rows["metric"].isin(list(shown)) & rows["value"].notna()]
    if rows.empty:
        return []
    curves = role_curves(rows)
    rows = rows.assign(curve=rows["line"].map({line: curve.name for line, curve in curves.items()}))
    own = {metric: rows[rows["metric"] == metric] for metric in shown}
    return [
        depth_panel(part, list(curves.values()), title_at_n(title, words), said, null=null and bool(part["null"].notna().any()))
        for metric, (title, said) in shown.items()
        for part, words in split_by_n(own[metric], "curve")
        if len(part)
    ]
