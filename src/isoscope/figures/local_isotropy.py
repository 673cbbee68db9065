"""The strongest direction of neighbourhoods beside that of the whole cloud, and beside a Gaussian's."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import INK, INTERVAL, POLICY_IS_CHOSEN, grid, in_layers, labelled, layer_axis, layered, lines, records, short

WHOLE, LOCAL, CONTROL = "the whole cloud", "neighbourhoods", "neighbourhoods of a Gaussian with the same covariance"
TONES = {WHOLE: "#7d7f86", LOCAL: "#3f9d63", CONTROL: "#c2559b"}
DASHES = {WHOLE: [1, 0], LOCAL: [1, 0], CONTROL: [5, 3]}


@figure(
    title="Local isotropy",
    caption="Left: the share of the strongest direction among all points (grey) and, on average, among a point and its nearest neighbours "
    "from other documents around their own centre (green), by layer. Neighbourhoods of any Gaussian are far more isotropic than the whole, "
    "so that green below grey says little: pink, dashed, is the local share of a Gaussian with the same mean, covariance, n and k. Right: "
    "green minus pink with its 95 % interval. Only below 0 is the cloud more isotropic locally than its covariance makes it.",
)
def local_isotropy(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """A row of two panels a model and stack: the shares, and the excess over the Gaussian control."""
    table, _ = labelled(table, series)
    rows = in_layers(table)
    rows = rows[rows["kind"].eq("hidden") & rows["value"].notna()]
    local = rows[rows["metric"].eq("local_share")]
    panels = []
    for name in lines(local):
        own = rows[rows["line"] == name]
        panels.append(shares(name, own))
        if own["metric"].eq("local_share_excess").any():
            panels.append(excess(name, own[own["metric"].eq("local_share_excess")]))
    return grid(panels, table)


def curves(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of one line as three curves: the global share, the local one, and its null, which is the Gaussian control."""
    local, whole = rows[rows["metric"].eq("local_share")], rows[rows["metric"].eq("top_share")]
    control = local[local["null"].notna()].assign(value=local["null"], low=float("nan"), high=float("nan"))
    named = [part.assign(cloud=name) for name, part in ((WHOLE, whole), (LOCAL, local), (CONTROL, control))]
    both = pd.concat(named).sort_values("layer", kind="stable")
    return both.assign(**{name: short(both[name]) for name in ("value", "low", "high")})


def shares(name: str, rows: pd.DataFrame) -> Any:
    """Global, local and control by layer."""
    import altair as alt

    found = curves(rows)
    legend = alt.Legend(orient="top", columns=1, labelLimit=370, title=None, symbolType="stroke", symbolOpacity=1, symbolSize=300)
    tone = alt.Color("cloud:N", scale=alt.Scale(domain=list(TONES), range=list(TONES.values())), legend=legend)
    dash = alt.StrokeDash("cloud:N", scale=alt.Scale(domain=list(DASHES), range=list(DASHES.values())), legend=legend)
    y = alt.Y("value:Q", title="share of the strongest direction", scale=alt.Scale(domain=[0, 1]))
    base = alt.Chart().encode(x=layer_axis(), color=tone)
    tooltip = [
        alt.Tooltip("cloud:N"),
        alt.Tooltip("layer:Q"),
        alt.Tooltip("policy:N", title="tokens"),
        alt.Tooltip("value:Q", title="share", format=".4g"),
    ]
    tooltip += [alt.Tooltip("interval:N", title="95 % interval"), alt.Tooltip("n:Q", format=","), alt.Tooltip("d:Q", format=",")]
    chart = layered(
        base.mark_area(opacity=0.18).encode(y=alt.Y("low:Q", title="share of the strongest direction"), y2=alt.Y2("high:Q")),
        base.mark_line(strokeWidth=1.8).encode(y=y, strokeDash=dash),
        base.mark_point(filled=True, size=22, opacity=1).encode(y=y, tooltip=tooltip),
        data={"values": records(found, ["cloud", "layer", "policy", "value", "low", "high", "n", "d"])},
        title=name,
    )
    return chart.transform_filter(POLICY_IS_CHOSEN).transform_calculate(interval=INTERVAL)


def excess(name: str, rows: pd.DataFrame) -> Any:
    """The local share minus the control's, with its interval."""
    import altair as alt

    said = "local share minus the Gaussian’s"
    rows = rows.sort_values("layer", kind="stable")
    rows = rows.assign(**{column: short(rows[column]) for column in ("value", "low", "high")})
    y = alt.Y("value:Q", title=said, scale=alt.Scale(zero=True))
    tooltip = [alt.Tooltip("layer:Q"), alt.Tooltip("policy:N", title="tokens"), alt.Tooltip("value:Q", title=said, format=".4g")]
    tooltip += [alt.Tooltip("interval:N", title="95 % interval"), alt.Tooltip("n:Q", format=","), alt.Tooltip("d:Q", format=",")]
    base = alt.Chart().encode(x=layer_axis())
    own = layered(
        base.mark_area(opacity=0.18, fill=TONES[LOCAL]).encode(y=alt.Y("low:Q", title=said), y2=alt.Y2("high:Q")),
        base.mark_line(strokeWidth=1.8, stroke=TONES[LOCAL]).encode(y=y),
        base.mark_point(filled=True, size=22, opacity=1, color=TONES[LOCAL]).encode(y=y, tooltip=tooltip),
        data={"values": records(rows, ["layer", "policy", "value", "low", "high", "n", "d"])},
    )
    zero = alt.Chart({"values": [{"value": 0}]}).mark_rule(stroke=INK, opacity=0.8).encode(y=y)
    return layered(zero, own.transform_filter(POLICY_IS_CHOSEN).transform_calculate(interval=INTERVAL), title=f"{name}: excess")
