"""The strongest direction of neighbourhoods, compared with that of the whole cloud and with that of a Gaussian."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.axes import INTERVAL, layer_axis, tooltips
from isoscope.charts.layer_lines import draw_layer_lines
from isoscope.charts.legends import GREEN, INK, PINK
from isoscope.charts.panels import arrange_panels, layer_charts
from isoscope.charts.records import label_lines, line_names, round_columns, select_layers
from isoscope.core.figure import figure

WHOLE, LOCAL, CONTROL = "the whole cloud", "neighbourhoods", "neighbourhoods of a Gaussian with the same covariance"
TONES = {WHOLE: INK, LOCAL: GREEN, CONTROL: PINK}
DASHES = {WHOLE: [1, 0], LOCAL: [1, 0], CONTROL: [5, 3]}
PLAIN: dict[str, Any] = {"size": 22, "has_final": False, "interval": INTERVAL}


@figure(
    title="Local isotropy",
    caption="Left: the share of the strongest direction among all points (grey) and, on average, among a point and its nearest neighbours "
    "from other documents around their own centre (green), by layer. Neighbourhoods of any Gaussian are far more isotropic than the whole, "
    "so green below grey shows little. Pink, dashed: the local share of a Gaussian with the same mean, covariance, n and k. Right: green "
    "minus pink with its 95 % interval. Only below 0 is the cloud more isotropic locally than its covariance implies.",
    topic="Shape and dimension",
    order=5,
)
def local_isotropy(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One row of two panels per model and stack: the shares, and the excess over the Gaussian control."""
    table, _ = label_lines(table, series)
    rows = select_layers(table)
    rows = rows[rows["kind"].eq("hidden") & rows["value"].notna()]
    panels = []
    for name in line_names(rows[rows["metric"].eq("local_share")]):
        layers = rows[rows["line"] == name]
        panels.append(_shares_panel(name, layers))
        if layers["metric"].eq("local_share_excess").any():
            panels.append(_excess_panel(name, layers[layers["metric"].eq("local_share_excess")]))
    return arrange_panels(panels, table)


def share_curves(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of one line as three curves: the global share, the local share, and its null, which is the Gaussian control."""
    local, whole = rows[rows["metric"].eq("local_share")], rows[rows["metric"].eq("top_share")]
    control = local[local["null"].notna()].assign(value=local["null"], low=float("nan"), high=float("nan"))
    named = [part.assign(cloud=name) for name, part in ((WHOLE, whole), (LOCAL, local), (CONTROL, control))]
    return round_columns(pd.concat(named).sort_values("layer", kind="stable"), "value", "low", "high")


def _shares_panel(name: str, rows: pd.DataFrame) -> Any:
    """Global, local and control by layer."""
    y_title = "share of the strongest direction"
    legend = alt.Legend(orient="top", columns=1, labelLimit=370, title=None, symbolType="stroke", symbolOpacity=1, symbolSize=300)
    tone = alt.Color("cloud:N", scale=alt.Scale(domain=list(TONES), range=list(TONES.values())), legend=legend)
    dash = alt.StrokeDash("cloud:N", scale=alt.Scale(domain=list(DASHES), range=list(DASHES.values())), legend=legend)
    y = alt.Y("value:Q", title=y_title, scale=alt.Scale(domain=[0, 1]))
    tooltip = tooltips("cloud:N", "layer:Q", "policy:N", "value:Q .4g", "interval:N", "n:Q", "d:Q", value="share")
    columns = ["cloud", "layer", "policy", "value", "low", "high", "n", "d"]
    look: dict[str, Any] = {"tone": {"color": tone}, "line": {"strokeDash": dash}, "title": name}
    return draw_layer_lines(share_curves(rows), columns, x=layer_axis(), y=y, tooltip=tooltip, **look, **PLAIN)


def _excess_panel(name: str, rows: pd.DataFrame) -> Any:
    """The local share minus that of the control, with its interval."""
    y_title = "local share minus the Gaussian’s"
    rows = round_columns(rows.sort_values("layer", kind="stable"), "value", "low", "high")
    y = alt.Y("value:Q", title=y_title, scale=alt.Scale(zero=True))
    tooltip = tooltips("layer:Q", "policy:N", "value:Q .4g", "interval:N", "n:Q", "d:Q", value=y_title)
    columns = ["layer", "policy", "value", "low", "high", "n", "d"]
    tone = {"color": alt.value(TONES[LOCAL])}
    excess = draw_layer_lines(rows, columns, x=layer_axis(), y=y, tone=tone, tooltip=tooltip, **PLAIN)
    zero = alt.Chart({"values": [{"value": 0}]}).mark_rule(stroke=INK, opacity=0.8).encode(y=y)
    return layer_charts(zero, excess, title=f"{name}: excess")
