"""Every metric of the table over the layers."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.charts.different_n import split_by_n
from isoscope.charts.metric_panel import draw_metric_panel
from isoscope.charts.panels import arrange_panels
from isoscope.charts.records import label_lines, line_names, select_layers
from isoscope.core.figure import figure

FIRST = ["between_cosine", "mean_cosine", "drift_ratio", "centred_cosine", "top_share", "effective_rank"]
FIRST += ["participation_ratio", "participation_ratio_corrected"]
"""The metrics that most readers look for come first; the others follow by name."""

SECOND_NULL = "_norm_null"
"""`top_share_norm_null` is drawn as a second null of `top_share`, and has no panel of its own."""


@figure(
    title="Every metric over the layers",
    caption="One line per model, with its 95 % interval as a band. Layer 0 enters the first block; the hollow diamond is the state after "
    "the final norm. Dashed: the value under isotropy at the same n and d; dotted, if available: isotropic directions with the observed "
    "norms. A gap is an undefined value. If a metric depends on n, lines of different n have separate panels.",
    topic="Every metric",
)
def layer_profile(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One panel per metric, whatever metrics the table holds; a table filtered to one metric gives one panel."""
    table, _ = label_lines(table, series)
    rows = select_layers(table)
    present = set(rows["metric"].dropna())
    metrics = [name for name in FIRST if name in present] + sorted(present - set(FIRST))
    metrics = [name for name in metrics if not (name.endswith(SECOND_NULL) and name.removesuffix(SECOND_NULL) in present)]
    panels = [
        draw_metric_panel(part, rows[rows["metric"] == metric + SECOND_NULL], title, line_names(table))
        for metric in metrics
        for part, title in split_by_n(rows[rows["metric"] == metric], "line", metric)
    ]
    return arrange_panels(panels, table, columns=3)
