"""Every metric of the table over the layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import POLICY_IS_CHOSEN, colour, grid, in_layers, labelled, layer_axis, layered, lines, records
from isoscope.drawing.different_n import interval_words, split_by_n, title_at_n

FIRST = ["between_cosine", "mean_cosine", "drift_ratio", "centred_cosine", "top_share", "effective_rank"]
FIRST += ["participation_ratio", "participation_ratio_corrected"]
"""What most readers look for comes first; any other metric follows by name."""

SECOND_NULL = "_norm_null"
"""`top_share_norm_null` is drawn as a second null of `top_share`, not as a panel of its own."""

COLUMNS = ["line", "stack", "kind", "layer", "policy", "value", "low", "high", "null", "n", "d"]


@figure(
    title="Every metric over the layers",
    caption="A line a model, with its 95 % interval as a band. Layer 0 enters the first block; the hollow diamond is the state after "
    "the final norm. Dashed: the value under isotropy at the same n and d; dotted, where there is one: isotropic directions with the "
    "observed norms. A gap is a value that is not defined. Of a metric that depends on n, lines of different n have panels of "
    "their own.",
)
def layer_profile(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One panel a metric, whatever metrics the table holds; a table filtered to one metric gives that one panel."""
    table, _ = labelled(table, series)
    rows = in_layers(table)
    present = set(rows["metric"].dropna())
    metrics = [name for name in FIRST if name in present] + sorted(present - set(FIRST))
    shown = [name for name in metrics if not (name.endswith(SECOND_NULL) and name.removesuffix(SECOND_NULL) in present)]
    panels = [panel for name in shown for panel in one_metric(rows, name, lines(table))]
    return grid(panels, table, columns=3)


def one_metric(rows: pd.DataFrame, metric: str, names: list[str]) -> list[Any]:
    """The panel of one metric, with the colours of all `names`; one for each n where it depends on n, none where no layer has a value."""
    own = rows[rows["metric"] == metric]
    other = rows[rows["metric"] == metric + SECOND_NULL]
    parts = split_by_n(own, "line")
    return [one_panel(part, other, title_at_n(metric, words), names) for part, words in parts if part["value"].notna().any()]


def one_panel(own: pd.DataFrame, second_null: pd.DataFrame, title: Any, names: list[str]) -> Any:
    """The lines of one metric that may be compared."""
    columns = list(COLUMNS)
    site = ["line", "kind", "layer", "policy"]
    other = second_null[[*site, "value"]].rename(columns={"value": "norm_null"})
    if len(other):
        own = own.merge(other.drop_duplicates(site), on=site, how="left")
        columns.append("norm_null")
    own = own.sort_values(["line", "layer"], kind="stable")
    nulls = [name for name in ("null", *columns[len(COLUMNS) :]) if own[name].notna().any()]
    numbers = own[["value", "low", "high", *nulls]].to_numpy(float)
    flat = bool(np.nanmin(numbers) == np.nanmax(numbers))  # a scale around one number would have no room
    layers = marks(colour(names), nulls=nulls, band=bool(own["low"].notna().any()), stacks=own["stack"].nunique(), zero=flat)
    chart = layered(*layers, data={"values": records(own, columns)}, title=title)
    return chart.transform_filter(POLICY_IS_CHOSEN).transform_calculate(interval=interval_words(own))


def marks(tone: Any, *, nulls: list[str], band: bool, stacks: int, zero: bool) -> list[Any]:
    """Band, nulls, line and points of the hidden layers; diamond and whisker of the final state."""
    import altair as alt

    hidden = alt.Chart().transform_filter("datum.kind == 'hidden'").encode(x=layer_axis(), color=tone)
    final = alt.Chart().transform_filter("datum.kind == 'final'").encode(x=layer_axis(), color=tone)
    value = alt.Y("value:Q", title=None, scale=alt.Scale(zero=zero))
    tooltip = [
        alt.Tooltip("line:N", title="model"),
        alt.Tooltip("stack:N"),
        alt.Tooltip("kind:N"),
        alt.Tooltip("layer:Q"),
        alt.Tooltip("policy:N", title="tokens"),
        alt.Tooltip("value:Q", format=".6g"),
        alt.Tooltip("interval:N", title="95 % interval"),
        *[alt.Tooltip(f"{name}:Q", format=".4g", title=name.replace("_", "-matched ", 1)) for name in nulls],
        alt.Tooltip("n:Q", format=","),
        alt.Tooltip("d:Q", format=","),
    ]
    shape = alt.Shape("stack:N", scale=alt.Scale(range=["circle", "square", "triangle-up"]), legend=None) if stacks > 1 else alt.Undefined
    dashes = {"null": [5, 3], "norm_null": [1, 3]}
    ends = {"y": alt.Y("low:Q", title=None), "y2": alt.Y2("high:Q")}
    spread = [hidden.mark_area(opacity=0.18).encode(**ends), final.mark_rule(opacity=0.6).encode(**ends)]
    return [
        *(spread if band else []),
        *[
            hidden.mark_line(strokeDash=dashes[name], strokeWidth=1.2, opacity=0.75).encode(y=alt.Y(f"{name}:Q", title=None))
            for name in nulls
        ],
        hidden.mark_line(strokeWidth=1.8).encode(y=value),
        hidden.mark_point(filled=True, size=24, opacity=1).encode(y=value, shape=shape, tooltip=tooltip),
        final.mark_point(shape="diamond", size=75, filled=False, strokeWidth=1.8, opacity=1).encode(y=value, tooltip=tooltip),
    ]
