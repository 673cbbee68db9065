"""Whether means of queries and keys align more than those of different heads, over a training."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import grid
from isoscope.drawing.layers_over_steps import layer_panels

SHOWN = {"alignment": ("cos² of mean query and mean key", "mean over heads")}


@figure(
    title="Alignment beside that of different heads",
    caption="The mean over heads of the squared cosine of mean query and mean key, whichever way they point; a line a layer, strong in "
    "the first seed, thin in the others. Dashed: the same with the query of one head and the key of another head of the layer, "
    "which is what alignment has to exceed: means of one layer share an input, and are not isotropic.",
)
def training_alignment(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A panel a suite, a line a layer."""
    rows = table[table["metric"].eq("alignment") & table["value"].notna() & table["layer"].notna()]
    return grid(layer_panels(rows, SHOWN, thin=True, dashed=("alignment",)), table, own_colours=True)
