"""The intrinsic dimension over a training: does it rise and then fall? ("The Shape of Learning")."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import PALETTE, grid, in_layers
from isoscope.drawing.layers_over_steps import layer_panels
from isoscope.drawing.training import by_seed, over_training, panel_title, step_panel, verdict

SHOWN = {"two_nn": ("by layer, the whole sample", "intrinsic dimension")}
CLOUDS = {"dimension_judged": "hidden states", "dimension_gaussian": "Gaussian points with their covariance"}


@figure(
    title="Intrinsic dimension over training: rise, then fall?",
    caption="Left: TwoNN by layer in the first seed, from the first layer to the last by colour, with the range over seeds. Right: the "
    "mean over blocks on the half of the documents that decides whether it rises and then falls, and the same for Gaussian "
    "points with the covariance of each step; thin lines are other seeds. The peak is picked on the other half of documents and "
    "seeds. It holds where rise and fall both surely exceed a tenth of the peak in five of five seeds or more; the title says "
    "what was found.",
)
def training_dimension(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """Two panels a suite: a line a layer, and the mean over blocks beside its Gaussian."""
    rows = in_layers(table)
    rows = rows[rows["kind"].eq("hidden") & rows["metric"].isin(list(SHOWN)) & rows["value"].notna()]
    return grid([*layer_panels(rows, SHOWN), *judged_panels(table, series)], table, own_colours=True)


def judged_panels(table: pd.DataFrame, series: pd.DataFrame) -> list[Any]:
    """The mean over the blocks of each stack, on the half that is judged."""
    import altair as alt

    rows = series[series["name"].isin(list(CLOUDS)) & series["layer"].isna() & series["y"].notna()]
    rows = by_seed(over_training(rows.rename(columns={"y": "value"})))
    rows = rows.assign(cloud=rows["name"].map(CLOUDS))
    legend = alt.Legend(orient="top", title=None, symbolType="stroke", symbolOpacity=1, labelLimit=300)
    look = {"color": alt.Color("cloud:N", scale=alt.Scale(domain=list(CLOUDS.values()), range=PALETTE[: len(CLOUDS)]), legend=legend)}
    panels = []
    for line, own in rows.groupby("line", sort=False):
        found = table[table["metric"].eq("rise_then_fall") & table["layer"].isna() & table["model"].eq(own["model"].iloc[0])]
        found = found[found["stack"].eq(own["stack"].iloc[0])]
        said = [f"rise, then fall: {verdict(found['spec'].iloc[0])}"] if len(found) else []
        words = [*panel_title(str(line), "mean over blocks", rows), *said]
        panels.append(step_panel(own, title=words, y="intrinsic dimension", by="cloud", look=look))
    return panels
