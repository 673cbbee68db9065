"""How much of the cosine is drift."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import INK, POLICY_IS_CHOSEN, colour, grid, in_layers, labelled, layered, lines, records
from isoscope.drawing.different_n import COSINES, cosine_to_draw, split_by_n, title_at_n

SITE = ["line", "stack", "kind", "layer", "policy"]


@figure(
    title="Mean cosine against drift",
    caption="One point a layer, joined in order of depth and labelled at both ends; the hollow diamond is the state after the final "
    "norm. Where all vectors have one norm, the mean cosine equals the drift ratio ‖x̄‖²/E‖x‖² (the diagonal): distance from it is the "
    "work of unequal norms. Where lines have different n the cosine is that between documents, which does not depend on n.",
)
def drift_and_cosine(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Mean cosine over drift ratio, a path a line."""
    table, _ = labelled(table, series)
    both = in_layers(table)
    cosine = cosine_to_draw(both, "line")
    parts = [
        (paired(both[both["line"].isin(part["line"])], cosine), words)
        for part, words in split_by_n(both[both["metric"].eq(cosine)], "line")
    ]
    panels = [panel(rows, cosine, words, lines(table)) for rows, words in parts if len(rows)]
    return grid(panels, table)


def panel(rows: pd.DataFrame, cosine: str, words: str, names: list[str]) -> Any:
    """The paths of lines that may be compared."""
    import altair as alt

    ends = rows[rows["kind"] == "hidden"].groupby(["line", "policy"], sort=False)["layer"].agg(["min", "max"])
    keyed = rows.merge(ends, left_on=["line", "policy"], right_index=True, how="left")
    rows["end"] = (keyed["kind"].eq("hidden") & (keyed["layer"].eq(keyed["min"]) | keyed["layer"].eq(keyed["max"]))).astype(bool).to_numpy()

    end = round(float(rows[["drift_ratio", "cosine"]].max().max()) * 1.05, 3)
    tone = colour(names)
    x = alt.X("drift_ratio:Q", title="drift ratio", axis=alt.Axis(tickCount=6))
    y = alt.Y("cosine:Q", title=COSINES[cosine])
    tooltip = [alt.Tooltip("line:N", title="model"), alt.Tooltip("kind:N"), alt.Tooltip("layer:Q"), alt.Tooltip("policy:N", title="tokens")]
    tooltip += [alt.Tooltip("drift_ratio:Q", format=".6g"), alt.Tooltip("cosine:Q", title=cosine, format=".6g")]
    base = alt.Chart().encode(x=x, y=y, color=tone)
    hidden, final = (base.transform_filter(f"datum.kind == '{kind}'") for kind in ("hidden", "final"))
    diagonal = alt.Chart({"values": [{"v": 0}, {"v": end}]}).mark_line(stroke=INK, strokeDash=[5, 3], strokeWidth=1.2)
    cloud = layered(
        hidden.mark_line(strokeWidth=1, opacity=0.5).encode(order=alt.Order("layer:Q")),
        hidden.mark_point(filled=True, size=28, opacity=1).encode(tooltip=tooltip),
        final.mark_point(shape="diamond", size=80, strokeWidth=1.8, opacity=1).encode(tooltip=tooltip),
        hidden.transform_filter("datum.end").mark_text(dx=7, dy=-7, fontSize=11).encode(text=alt.Text("layer:Q")),
        data={"values": records(rows, [*SITE, "drift_ratio", "cosine", "end"])},
    ).transform_filter(POLICY_IS_CHOSEN)
    chart = layered(diagonal.encode(x=alt.X("v:Q"), y=alt.Y("v:Q")), cloud)
    return chart.properties(title=title_at_n(f"{cosine} against drift_ratio", words))


def paired(rows: pd.DataFrame, cosine: str) -> pd.DataFrame:
    """The sites that have both numbers, one row each, in order of depth: the drift ratio, and this metric as `cosine`."""
    own = rows[rows["metric"].isin([cosine, "drift_ratio"])].drop_duplicates([*SITE, "metric"])
    own = own[own["value"].notna()]
    names = {cosine: "cosine", "drift_ratio": "drift_ratio"}
    first, second = (own.loc[own["metric"] == metric, [*SITE, "value"]].rename(columns={"value": name}) for metric, name in names.items())
    return first.merge(second, on=SITE).sort_values(["line", "layer"], kind="stable").reset_index(drop=True)
