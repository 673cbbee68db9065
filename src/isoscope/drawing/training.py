"""Numbers over the steps of a training: an axis that shows step 0, lines by layer, head or seed, and what chance gives."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from isoscope.core.bounded import parsed_object
from isoscope.core.group import first_seed, suites
from isoscope.drawing import DEPTH, INK, POLICY_IS_CHOSEN, labelled, layered, records, short

MOST = 12
"""So many layers have a panel, evenly spaced, the first and the last among them."""
TICKS = 7


def over_training(rows: pd.DataFrame) -> pd.DataFrame:
    """The checkpoints of suites with the column `line`: the suite, and its stack where there are several."""
    own = rows[rows["model"].isin(suites(rows)) & rows["step"].notna()]
    return with_suite(own)


def with_suite(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the column `line`: the model's name whatever the checkpoint, and its stack where there are several."""
    whole = rows.assign(revision=None, step=None, seed=None)
    return rows.assign(line=labelled(whole, whole.iloc[:0])[0]["line"])


def panel_title(line: str, words: str, rows: pd.DataFrame) -> list[str]:
    """The title of a panel: the suite is named only where the figure shows several."""
    return [words] if len(rows["line"].unique()) == 1 else [line, words]


def verdict(spec: object) -> str:
    """The verdict that the row of a test carries in its `spec`.

    >>> verdict('{"verdict": "holds"}'), verdict(None)
    ('holds', 'undecided')
    """
    return str(parsed_object(spec).get("verdict", "undecided"))


def evenly(values: Iterable[Any], most: int) -> list[Any]:
    """At most so many of the sorted values, the first and the last among them.

    >>> evenly([0, 1, 2, 4, 8, 16], 3)
    [0, 2, 16]
    """
    found = sorted(set(values))
    places = np.linspace(0, len(found) - 1, min(most, len(found))).round()
    return [found[int(i)] for i in dict.fromkeys(places)]


def ticks(steps: Iterable[int]) -> list[int]:
    """The steps that an axis names: 0 and the last of them, and between them what lies far enough apart.

    >>> ticks([0, 1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512])
    [0, 2, 8, 32, 128, 512]
    """
    found = sorted({int(step) for step in steps})
    unit = next((step for step in found if step > 0), 1)

    def apart(one: int, other: int) -> bool:
        return abs(math.log1p(one / unit) - math.log1p(other / unit)) > math.log1p(found[-1] / unit) / TICKS

    kept: list[int] = []
    for step in reversed(found):
        if not kept or apart(kept[-1], step):
            kept.append(step)
    return [found[0], *sorted(step for step in kept if apart(step, found[0]))]


def step_axis(steps: Iterable[int], field: str = "step", title: str = "training step") -> dict[str, Any]:
    """Field, title, scale and axis of steps that are spaced by powers and begin at 0: logarithmic, but for the first step after 0."""
    import altair as alt

    known = [int(step) for step in steps]
    unit = min((step for step in known if step > 0), default=1)
    scale = alt.Scale(type="symlog", constant=unit, nice=False, padding=8, domain=[min(known), max(*known, min(known) + 1)])
    return {"shorthand": f"{field}:Q", "title": title, "scale": scale, "axis": alt.Axis(values=ticks(known), format=".3~s")}


def layer_colour(layers: Iterable[int]) -> dict[str, Any]:
    """Colour by layer, from the first to the last, with a legend that names some of them."""
    import altair as alt

    known = sorted({int(layer) for layer in layers})
    legend = alt.Legend(title="layer", orient="right", values=evenly(known, 7), format="d", symbolOpacity=1)
    return {"color": alt.Color("layer:Q", scale=alt.Scale(range=DEPTH, domain=[known[0], max(known[-1], known[0] + 1)]), legend=legend)}


def chosen_tokens(rows: pd.DataFrame) -> str:
    """A filter for the token policy that the reader chose; what was derived for one policy alone is drawn whichever it is."""
    return POLICY_IS_CHOSEN if len(rows["policy"].unique()) > 1 else "true"


def by_seed(rows: pd.DataFrame, other: str = "thin") -> pd.DataFrame:
    """Rows with the column `look`: `strong` for the first seed, `other` for the others, and `points` for those with few steps.

    A line through the first and the last step alone would say something of the steps between.
    """
    first = rows.index.isin(first_seed(rows).index)
    steps = rows.groupby([rows["model"], rows["seed"].fillna(-1)])["step"].transform("nunique")
    few = steps * 2 < steps.groupby(rows["model"]).transform("max")
    return rows.assign(look=np.where(first, "strong", np.where(few, "points", other)))


def over_seeds(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    """The least and the greatest over seeds, as `least` and `greatest`, at the steps that two seeds or more have."""
    spread = rows.groupby([by, "policy", "step"], dropna=False)["value"].agg(["min", "max", "count"]).reset_index()
    return spread[spread["count"] > 1].rename(columns={"min": "least", "max": "greatest"})


def step_panel(
    rows: pd.DataFrame,
    *,
    title: str | list[str] | dict[str, Any],
    y: str,
    by: str,
    look: dict[str, Any],
    chance: pd.DataFrame | None = None,
    spread: pd.DataFrame | None = None,
    dashed: str | None = None,
    domain: list[float] | None = None,
) -> Any:
    """One panel of lines over steps, a line for each value of the column `by`, and for each seed as `by_seed` says.

    `look` are the encodings of colour. `chance`: `low` and `high` by step, grey. `spread`: `least` and `greatest` by step and `by`.
    `dashed`: a column that is drawn dashed in the colours of the lines.
    """
    import altair as alt

    rows = rows.assign(look="strong") if "look" not in rows else rows
    rows = rows.sort_values([by, "step"], kind="stable")
    numbers = ["value", *([dashed] if dashed else [])]
    rows = rows.assign(**{name: short(rows[name]) for name in numbers})
    scale = alt.Scale(domain=domain) if domain else alt.Scale(zero=bool(rows["value"].min() == rows["value"].max()))
    x, up = alt.X(**step_axis(rows["step"])), {"title": y, "scale": scale}
    tooltip = [
        alt.Tooltip(f"{by}:N"),
        alt.Tooltip("step:Q", format=","),
        alt.Tooltip("seed:N"),
        alt.Tooltip("value:Q", title=y, format=".4g"),
    ]
    base = alt.Chart({"values": records(rows, [by, "step", "seed", "policy", "look", *numbers])})
    base = base.transform_filter(chosen_tokens(rows)).encode(x=x, detail=[alt.Detail(f"{by}:N"), alt.Detail("seed:N")])
    strong, thin, points = (base.transform_filter(f"datum.look == '{word}'") for word in ("strong", "thin", "points"))
    value, tone = alt.Y("value:Q", **up), {"color": look["color"]}
    drawn = [] if chance is None else _chance(chance, x, up)
    drawn += [] if spread is None or spread.empty else [_spread(spread, by, x, up, tone, whole=set(rows["step"]) <= set(spread["step"]))]
    if dashed:
        drawn.append(strong.mark_line(strokeWidth=1, strokeDash=[5, 3], opacity=0.8).encode(y=alt.Y(f"{dashed}:Q", **up), **tone))
    if rows["look"].eq("thin").any():
        drawn.append(thin.mark_line(strokeWidth=0.8, opacity=0.45).encode(y=value, **tone))
    if rows["look"].eq("points").any():
        drawn.append(points.mark_point(filled=False, size=24, strokeWidth=1.2, opacity=0.8).encode(y=value, **tone, tooltip=tooltip))
    drawn.append(strong.mark_line(strokeWidth=1.6).encode(y=value, **look))
    drawn.append(strong.mark_point(filled=True, size=16, opacity=1).encode(y=value, **tone, tooltip=tooltip))
    return layered(*drawn, title=title)


def _chance(levels: pd.DataFrame, x: Any, up: dict[str, Any]) -> list[Any]:
    """What chance stays within, as a grey band with dotted edges."""
    import altair as alt

    levels = levels.sort_values("step")
    levels = levels.assign(low=short(levels["low"]), high=short(levels["high"]))
    base = alt.Chart({"values": records(levels, ["step", "policy", "low", "high"])}).transform_filter(chosen_tokens(levels)).encode(x=x)
    ends = [base.mark_line(stroke=INK, strokeDash=[2, 3], strokeWidth=1).encode(y=alt.Y(f"{end}:Q", **up)) for end in ("low", "high")]
    return [base.mark_area(opacity=0.1, color=INK).encode(y=alt.Y("low:Q", **up), y2=alt.Y2("high:Q")), *ends]


def _spread(spread: pd.DataFrame, by: str, x: Any, up: dict[str, Any], tone: dict[str, Any], *, whole: bool) -> Any:
    """The range over seeds: a band where all steps have several seeds (`whole`), else a bar at each that has."""
    import altair as alt

    spread = spread.sort_values([by, "step"])
    spread = spread.assign(least=short(spread["least"]), greatest=short(spread["greatest"]))
    base = alt.Chart({"values": records(spread, [by, "step", "policy", "least", "greatest"])}).transform_filter(chosen_tokens(spread))
    mark = base.mark_area(opacity=0.18) if whole else base.mark_rule(opacity=0.5, strokeWidth=3)
    return mark.encode(x=x, y=alt.Y("least:Q", **up), y2=alt.Y2("greatest:Q"), detail=alt.Detail(f"{by}:N"), **tone)
