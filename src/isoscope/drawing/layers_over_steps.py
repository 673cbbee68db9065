"""A number of every layer over the steps of a training, a line a layer."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.drawing.different_n import split_by_n, title_at_n
from isoscope.drawing.training import by_seed, layer_colour, over_seeds, over_training, panel_title, step_panel


def layer_panels(rows: pd.DataFrame, shown: dict[str, tuple[str, str]], *, thin: bool = False, dashed: tuple[str, ...] = ()) -> list[Any]:
    """A panel a suite and metric: its title, and what its axis is called.

    The first seed is drawn strong; of the others the range from the least to the greatest, or `thin`, each as a line of its own.
    `dashed`: the metrics whose null is drawn too.
    """
    rows = by_seed(over_training(rows))
    panels = []
    for line in rows["line"].drop_duplicates():
        for metric, (title, y) in shown.items():
            own = rows[rows["line"].eq(line) & rows["metric"].eq(metric)]
            null = "null" if metric in dashed and own["null"].notna().any() else None
            for part, at in split_by_n(own, "step"):
                if part.empty:
                    continue
                drawn = part if thin else part[part["look"].eq("strong")]
                if drawn.empty:  # the first seed has no such number: the first of those that have one
                    seeds = part["seed"].fillna(-1)
                    drawn = part[seeds.eq(seeds.min())].assign(look="strong")
                spread = None if thin else over_seeds(part, "layer")
                words, look = title_at_n(panel_title(str(line), title, rows), at), layer_colour(own["layer"])
                panels.append(step_panel(drawn, title=words, y=y, by="layer", look=look, spread=spread, dashed=null))
    return panels
