"""The spectrum of every layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.axes import decade_ticks, tooltips
from isoscope.charts.legends import GREEN, INK, layer_colour
from isoscope.charts.panels import POLICY_IS_CHOSEN, arrange_panels, layer_charts
from isoscope.charts.records import json_records, label_lines, line_names, round_digits, select_layers
from isoscope.core.figure import figure

RANKS = 32
"""About this many ranks of a spectrum are drawn."""
MOST_RANKS = 1 << 22
"""A curve that claims more ranks, which only a damaged table does, counts up to here."""
LEAST_SHARE = 1e-10
"""Smaller shares are rounding errors of directions that carry nothing; they would flatten all other curves."""
SITE = ["line", "kind", "layer", "policy"]


@figure(
    title="Spectra",
    caption="The share of the centred variance that each principal direction carries, from the largest, both axes logarithmic; one line "
    "per layer, green for the state after the final norm. Dashed: isotropic vectors at the same n and d (Marchenko–Pastur). The steeper "
    "the line, the fewer dimensions are in use. Shares below 10⁻¹⁰ are rounding errors and not drawn.",
    topic="Spectra, norms and tokens",
    order=1,
)
def spectrum(table: pd.DataFrame, series: pd.DataFrame) -> Any:
    """One panel per line: share of variance over rank, coloured by layer."""
    table, series = label_lines(table, series)
    rows = select_layers(series)
    rows = rows[rows["name"].eq("spectrum") & (rows["y"] > 0)]
    if rows.empty:
        return None
    rows = add_shares(rows, select_layers(table))
    rows = rows[rows["share"] >= LEAST_SHARE]
    panels = [_spectrum_panel(name, rows[rows["line"] == name], table) for name in line_names(rows)]
    return arrange_panels(panels, table, own_colours=True)


def add_shares(rows: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """A few points of each spectrum, with their `share`: the eigenvalue divided by the sum of all."""
    tops = table[table["metric"] == "top_share"].drop_duplicates(SITE).set_index(SITE)["value"]
    parts = []
    for site, points in rows.groupby(SITE, sort=False):
        points = points.sort_values("x")
        rank, eigenvalue = points["x"].to_numpy(float), points["y"].to_numpy(float)
        top_share = float(tops.get(site, np.nan))
        if rank[0] == 1 and top_share > 0:
            total = eigenvalue[0] / top_share
        else:
            # The series holds some of the ranks. Without top_share, the sum is that of the spectrum interpolated on logarithmic axes.
            ranks = np.arange(1, min(rank[-1], MOST_RANKS) + 1)
            total = np.exp(np.interp(np.log(ranks), np.log(rank), np.log(eigenvalue))).sum()
        parts.append(points.assign(share=round_digits(points["y"] / total)).iloc[pick_ranks(len(points))])
    return pd.concat(parts)


def pick_ranks(length: int) -> list[int]:
    """About `RANKS` of this many positions, including the first ten and the last: nobody could tell more apart."""
    spaced = np.linspace(0, length - 1, min(length, RANKS)).round()
    return [int(i) for i in np.union1d(spaced, np.arange(min(10, length)))]


def _spectrum_panel(name: str, rows: pd.DataFrame, table: pd.DataFrame) -> Any:
    """The layers of one model, and the isotropic reference under each policy."""
    x = alt.X("x:Q", title="rank", scale=alt.Scale(type="log", nice=False), axis=alt.Axis(format="~s", values=decade_ticks(rows["x"])))
    axis = alt.Axis(format="~g", values=decade_ticks(rows["share"]))
    y = alt.Y("share:Q", title="share of variance", scale=alt.Scale(type="log"), axis=axis)
    titles = {"x": "rank", "y": "eigenvalue", "share": "share of variance"}
    base = alt.Chart().encode(x=x, y=y, tooltip=tooltips("kind:N", "layer:Q", "x:Q", "y:Q .6g", "share:Q .4g", "policy:N", **titles))
    hidden, final = (base.transform_filter(f"datum.kind == '{kind}'") for kind in ("hidden", "final"))
    tone = layer_colour(rows.loc[rows["kind"] == "hidden", "layer"])
    layers = layer_charts(
        hidden.mark_line(strokeWidth=1.3).encode(color=tone, detail=alt.Detail("layer:N")),
        final.mark_line(strokeWidth=1.8, stroke=GREEN),
        data={"values": json_records(rows, ["kind", "layer", "policy", "x", "y", "share"])},
    )
    reference = alt.Chart({"values": isotropic_references(name, table)}).encode(x=x, y=y)
    reference = reference.mark_line(stroke=INK, strokeDash=[5, 3], strokeWidth=1.5)
    return layer_charts(layers.transform_filter(POLICY_IS_CHOSEN), reference.transform_filter(POLICY_IS_CHOSEN), title=name)


def isotropic_references(name: str, table: pd.DataFrame) -> list[dict[str, Any]]:
    """The isotropic spectrum of one line under each policy, at its median n and d."""
    rows = select_layers(table[table["line"] == name]).dropna(subset=["n", "d"])
    points = []
    for policy, layers in rows.groupby("policy", sort=False):
        n, d = int(layers["n"].median()), int(layers["d"].median())
        if min(n, d) < 1:  # cosines of zero vectors alone are rows of no point
            continue
        ranks = np.unique(np.geomspace(1, min(n, d), 40).astype(int))
        shares = isotropic_shares(n, d)[ranks - 1]
        points += [{"policy": str(policy), "x": int(x), "share": float(y)} for x, y in zip(ranks, shares, strict=True) if y > 0]
    return points


def isotropic_shares(n: int, d: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Expected shares of variance of n isotropic points in d dimensions: quantiles of the Marchenko–Pastur law.

    >>> shares = isotropic_shares(n=100_000, d=100)
    >>> bool(abs(shares.sum() - 1) < 1e-12), round(float(shares[0] * 100), 2)
    (True, 1.06)
    """
    ratio = d / n
    low, high = (1 - ratio**0.5) ** 2, (1 + ratio**0.5) ** 2
    # With λ = middle − radius · cos(angle) the density of the law becomes sin² / λ, which is finite at both edges and easy to integrate.
    angle = np.linspace(0, np.pi, 4001)
    eigenvalues = (low + high) / 2 - (high - low) / 2 * np.cos(angle)
    density = np.sin(angle) ** 2 / np.maximum(eigenvalues, 1e-12)
    cumulative = np.cumsum(density) / density.sum()
    rank = np.arange(1, min(n, d) + 1)
    values: np.ndarray[Any, np.dtype[np.float64]] = np.interp(1 - (rank - 0.5) / len(rank), cumulative, eigenvalues)
    return np.asarray(values / values.sum(), dtype=np.float64)
