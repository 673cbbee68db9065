"""The spectrum of every layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from isoscope.core.figure import figure
from isoscope.drawing import INK, POLICY_IS_CHOSEN, decades, depth_colour, grid, in_layers, labelled, layered, lines, records

FINAL = "#3f9d63"
DRAWN = 32
LEAST = 1e-10
"""Less is what rounding leaves of a direction that carries nothing, and would flatten all other curves."""
SITE = ["line", "kind", "layer", "policy"]


@figure(
    title="Spectra",
    caption="The share of the centred variance that each principal direction carries, from the largest, both axes logarithmic; one line "
    "a layer, green the state after the final norm. Dashed: isotropic vectors at the same n and d (Marchenko–Pastur). The steeper the "
    "line, the fewer dimensions are in use. Shares below 10⁻¹⁰ are rounding and not drawn.",
)
def spectrum(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One panel a line: share of variance over rank, coloured by layer."""
    table, series = labelled(table, series)
    rows = in_layers(series)
    rows = rows[rows["name"].eq("spectrum") & (rows["y"] > 0)]
    if rows.empty:
        return None
    rows = shares(rows, in_layers(table))
    rows = rows[rows["share"] >= LEAST]
    return grid([panel(name, rows[rows["line"] == name], table) for name in lines(rows)], table, own_colours=True)


def shares(rows: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Eigenvalues over their sum, which is the first one over top_share, or else the sum of the interpolated spectrum."""
    tops = table[table["metric"] == "top_share"].drop_duplicates(SITE).set_index(SITE)["value"]
    parts = []
    for key, group in rows.groupby(SITE, sort=False):
        group = group.sort_values("x")
        rank, eigenvalue = group["x"].to_numpy(float), group["y"].to_numpy(float)
        top = float(tops.get(key, np.nan))
        ranks = np.arange(1, rank[-1] + 1)
        exact = rank[0] == 1 and top > 0
        total = eigenvalue[0] / top if exact else np.exp(np.interp(np.log(ranks), np.log(rank), np.log(eigenvalue))).sum()
        short = [float(f"{x:.5g}") for x in eigenvalue / total]
        parts.append(group.assign(share=short).iloc[thinned(len(group))])
    return pd.concat(parts)


def thinned(length: int) -> list[int]:
    """About `DRAWN` of so many positions, the first ten and the last among them: more could not be told apart, and would weigh."""
    spaced = np.linspace(0, length - 1, min(length, DRAWN)).round()
    return [int(i) for i in np.union1d(spaced, np.arange(min(10, length)))]


def panel(name: str, rows: pd.DataFrame, table: pd.DataFrame) -> Any:
    """The layers of one model, and the isotropic reference under each policy."""
    import altair as alt

    x = alt.X("x:Q", title="rank", scale=alt.Scale(type="log", nice=False), axis=alt.Axis(format="~s", values=decades(rows["x"])))
    y = alt.Y("share:Q", title="share of variance", scale=alt.Scale(type="log"), axis=alt.Axis(format="~g", values=decades(rows["share"])))
    tooltip = [
        alt.Tooltip("kind:N"),
        alt.Tooltip("layer:Q"),
        alt.Tooltip("x:Q", title="rank"),
        alt.Tooltip("y:Q", title="eigenvalue", format=".6g"),
    ]
    tooltip += [alt.Tooltip("share:Q", title="share of variance", format=".4g"), alt.Tooltip("policy:N", title="tokens")]
    drawn = alt.Chart().encode(x=x, y=y, tooltip=tooltip)
    hidden = (
        drawn.transform_filter("datum.kind == 'hidden'")
        .mark_line(strokeWidth=1.3)
        .encode(color=depth_colour(), detail=alt.Detail("layer:N"))
    )
    final = drawn.transform_filter("datum.kind == 'final'").mark_line(strokeWidth=1.8, stroke=FINAL)
    layers = layered(hidden, final, data={"values": records(rows, ["kind", "layer", "policy", "x", "y", "share"])})
    reference = alt.Chart({"values": references(name, table)}).mark_line(stroke=INK, strokeDash=[5, 3], strokeWidth=1.5).encode(x=x, y=y)
    chart = layered(layers.transform_filter(POLICY_IS_CHOSEN), reference.transform_filter(POLICY_IS_CHOSEN))
    return chart.properties(title=name)


def references(name: str, table: pd.DataFrame) -> list[dict[str, Any]]:
    """The isotropic spectrum of one line under each policy, at its median n."""
    rows = in_layers(table[table["line"] == name]).dropna(subset=["n", "d"])
    found = []
    for policy, group in rows.groupby("policy", sort=False):
        n, d = int(group["n"].median()), int(group["d"].median())
        ranks = np.unique(np.geomspace(1, min(n, d), 40).astype(int))
        values = isotropic(n, d)[ranks - 1]
        found += [{"policy": str(policy), "x": int(x), "share": float(y)} for x, y in zip(ranks, values, strict=True) if y > 0]
    return found


def isotropic(n: int, d: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Expected shares of variance of n isotropic points in d dimensions: quantiles of the Marchenko–Pastur law.

    >>> shares = isotropic(n=100_000, d=100)
    >>> bool(abs(shares.sum() - 1) < 1e-12), round(float(shares[0] * 100), 2)
    (True, 1.06)
    """
    ratio = d / n
    low, high = (1 - ratio**0.5) ** 2, (1 + ratio**0.5) ** 2
    angle = np.linspace(0, np.pi, 4001)
    grid_ = (low + high) / 2 - (high - low) / 2 * np.cos(angle)
    density = np.sin(angle) ** 2 / np.maximum(grid_, 1e-12)
    cumulative = np.cumsum(density) / density.sum()
    rank = np.arange(1, min(n, d) + 1)
    values: np.ndarray[Any, np.dtype[np.float64]] = np.interp(1 - (rank - 0.5) / len(rank), cumulative, grid_)
    return np.asarray(values / values.sum(), dtype=np.float64)
