"""A number of every head over the steps of a training, a panel a layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from isoscope.core.group import first_seed
from isoscope.drawing import PALETTE, grid
from isoscope.drawing.different_n import split_by_n, title_at_n
from isoscope.drawing.training import MOST, evenly, over_training, panel_title, step_panel
from isoscope.statistics.chance import head_threshold

Chance = Callable[[pd.DataFrame, float], pd.Series]
"""From rows of heads, and the |cosine| that chance stays within, to what chance gives each of them."""


def heads_over_steps(table: pd.DataFrame, metric: str, *, y: str, chance: Chance, domain: list[float] | None = None) -> Any:
    """Each head's number in the first seed of every suite, with the level that chance stays within; None where no suite has it."""
    rows = table[table["kind"].eq("attention") & table["head"].notna() & table["metric"].eq(metric) & table["value"].notna()]
    rows = first_seed(over_training(rows))
    panels = []
    for line, of_line in rows.groupby("line", sort=False):
        level = head_threshold(int(of_line["d"].min()), len(of_line[["layer", "head"]].drop_duplicates()))
        for layer in evenly(of_line["layer"], MOST):
            own = of_line[of_line["layer"].eq(layer)]
            for part, at in split_by_n(own, "step"):
                words, shade = title_at_n(panel_title(str(line), f"layer {layer}", rows), at), widest(part, chance(part, level))
                panels.append(step_panel(part, title=words, y=y, by="head", look=head_colour(own), chance=shade, domain=domain))
    return grid(panels, table, columns=3, own_colours=True)


def head_colour(rows: pd.DataFrame) -> dict[str, Any]:
    """A colour a head; which is which is said by the tooltip."""
    import altair as alt

    heads = sorted(int(head) for head in rows["head"].unique())
    scale = alt.Scale(domain=heads, range=[PALETTE[i % len(PALETTE)] for i in range(len(heads))])
    return {"color": alt.Color("head:N", scale=scale, legend=None)}


def widest(rows: pd.DataFrame, level: pd.Series) -> pd.DataFrame:
    """The level of the head for which it is widest, on both sides of zero, step by step."""
    most = rows.assign(high=level).groupby(["policy", "step"])["high"].max().reset_index()
    return most.assign(low=-most["high"])
