"""The dimensions that carry the cosine."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import POLICY_IS_CHOSEN, colour, grid, in_layers, labelled, lines, peak_layers, records, title_by_policy


@figure(
    title="Dimensions that carry the cosine",
    caption="The ten dimensions with the greatest share of the mean cosine, in each model's most anisotropic layer. One to three long "
    "bars are “rogue” dimensions: without them the layer would look isotropic. Many short bars are a drift that all dimensions share.",
)
def dimension_share(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One panel a line: bars of the largest shares, in the layer where its cosine peaks."""
    table, series = labelled(table, series)
    rows = in_layers(series)
    rows = rows[rows["name"].eq("dimension_share") & rows["kind"].eq("hidden") & rows["y"].notna()]
    rows = rows.merge(peak_layers(table).astype({"layer": "Int64"}), on=["line", "policy", "layer"])
    return grid([panel(name, rows[rows["line"] == name], lines(table)) for name in lines(rows)], table)


def panel(name: str, rows: pd.DataFrame, names: list[str]) -> Any:
    """The bars of one model."""
    import altair as alt

    rows = rows.assign(dimension=rows["x"].astype(int).astype(str))
    tooltip = [
        alt.Tooltip("dimension:N"),
        alt.Tooltip("y:Q", title="share", format=".4g"),
        alt.Tooltip("layer:Q"),
        alt.Tooltip("policy:N", title="tokens"),
    ]
    bars = (
        alt.Chart({"values": records(rows, ["line", "policy", "layer", "dimension", "y"])})
        .transform_filter(POLICY_IS_CHOSEN)
        .mark_bar()
        .encode(
            x=alt.X("y:Q", title="share of the mean cosine", axis=alt.Axis(format="%", tickCount=5)),
            y=alt.Y("dimension:N", title="dimension", sort="-x"),
            color=colour(names, legend=False),
            tooltip=tooltip,
        )
    )
    peaks = rows.drop_duplicates("policy")
    titles = {str(policy): [name, f"layer {layer}"] for policy, layer in zip(peaks["policy"], peaks["layer"], strict=True)}
    return bars.properties(title=title_by_policy(titles))
