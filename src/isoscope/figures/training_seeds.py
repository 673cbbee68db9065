"""Figure 23 of "Anisotropy Is Inherent to Self-Attention": the cosine of mean query and mean key over a training, seed by seed."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import PALETTE, Curve, curve_scales, grid
from isoscope.drawing.different_n import split_by_n, title_at_n
from isoscope.drawing.training import MOST, by_seed, evenly, over_training, panel_title, step_panel
from isoscope.statistics.chance import head_threshold


@figure(
    title="Figure 23: the same with all heads side by side, seed by seed",
    caption="The cosine of the mean query and the mean key of a layer, its heads side by side as one vector, over the steps; a panel a "
    "layer, a colour a seed, points alone where a seed has few steps. Heads in the same and in opposite directions cancel here, "
    "and long means count most. Between the dotted lines the largest of all layers stays in 95 % of cases by chance (Bonferroni "
    "over layers).",
)
def training_seeds(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A panel a layer, a line a seed."""
    rows = by_seed(over_training(table[table["metric"].eq("qk_cosine_joined") & table["value"].notna()]), other="strong")
    rows = rows.assign(curve=["seed not named" if pd.isna(seed) else f"seed {seed}" for seed in rows["seed"]])
    panels = []
    for line, of_line in rows.groupby("line", sort=False):
        level = head_threshold(int(of_line["d"].min()), of_line["layer"].nunique())
        names = of_line.sort_values("seed")["curve"].drop_duplicates()
        look = curve_scales([Curve(str(name), PALETTE[i % len(PALETTE)]) for i, name in enumerate(names)])
        for layer in evenly(of_line["layer"], MOST):
            own = of_line[of_line["layer"].eq(layer)]
            for part, at in split_by_n(own, "step"):
                chance = part[["policy", "step"]].drop_duplicates().assign(low=-level, high=level)
                words = title_at_n(panel_title(str(line), f"layer {layer}", rows), at)
                panels.append(
                    step_panel(part, title=words, y="cosine of mean query and key", by="curve", look=look, chance=chance, domain=[-1, 1])
                )
    return grid(panels, table, columns=3)
