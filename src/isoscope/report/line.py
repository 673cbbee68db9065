"""One model (and stack) of the table, and how its numbers are looked up and written."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from isoscope.core.number import THIS_N
from isoscope.drawing.labels import label_lines, line_names
from isoscope.drawing.policies import list_policies
from isoscope.drawing.selection import select_layers
from isoscope.report.chance import site_name


@dataclass(frozen=True)
class Line:
    """The rows of one model and stack, as a figure draws them; static tables stand beside the layers."""

    name: str
    table: pd.DataFrame
    series: pd.DataFrame

    @property
    def policy(self) -> str:
        """The token policy that is spoken of where none is named: `all`, where there is one."""
        return list_policies(self.table)[0]

    @property
    def cosine(self) -> str:
        """The metric by which anisotropy is judged: between items where it is known, else over all pairs."""
        known = self.table.loc[self.table["value"].notna(), "metric"]
        return "between_cosine" if known.eq("between_cosine").any() else "mean_cosine"

    def rows(self, metric: str, policy: str | None = None) -> pd.DataFrame:
        """The defined values of a metric by depth: of hidden and final states, or of what there is but heads."""
        own = self.table[self.table["metric"].eq(metric) & self.table["policy"].eq(policy or self.policy) & self.table["value"].notna()]
        layered = select_layers(own)
        chosen = layered if len(select_layers(self.table)) else own[own["head"].isna()]
        order = chosen["kind"].eq("final").astype(int)
        return chosen.assign(order=order).sort_values(["layer", "order"], kind="stable").drop(columns="order")

    def peak(self, policy: str | None = None) -> pd.Series | None:
        """The row with the greatest cosine, or None where none is defined."""
        rows = self.rows(self.cosine, policy)
        return None if rows.empty else greatest(rows)

    def at(self, metric: str, site: pd.Series, policy: str | None = None) -> pd.Series | None:
        """The row of a metric at the site of another row."""
        rows = self.rows(metric, policy)
        same = rows["kind"].eq(site["kind"]) & (rows["layer"].isna() if pd.isna(site["layer"]) else rows["layer"].eq(site["layer"]))
        found = rows[same.fillna(False).astype(bool)]
        return None if found.empty else found.iloc[0]


def all_lines(table: pd.DataFrame, series: pd.DataFrame) -> list[Line]:
    """Every line, in the order of the table."""
    table, series = label_lines(table, series)
    return [Line(name, table[table["line"] == name], series[series["line"] == name]) for name in line_names(table)]


def greatest(rows: pd.DataFrame) -> pd.Series:
    """The row with the greatest value."""
    return rows.iloc[int(rows["value"].to_numpy(float).argmax())]


def least(rows: pd.DataFrame) -> pd.Series:
    """The row with the least value."""
    return rows.iloc[int(rows["value"].to_numpy(float).argmin())]


def place(row: pd.Series) -> str:
    """Where a row stands, in words: "layer 3", "the state after the final norm", "the input embedding"."""
    name = site_name(row["kind"], row["layer"])
    if name.isdigit():
        return f"layer {name}"
    return "the state after the final norm" if name == "final norm" else f"the {name}"


def show(x: float) -> str:
    """A number as a reader wants it: three digits that mean something.

    >>> [show(x) for x in (0.61234, 0.0000213, 412.31, 12345.6, 3.0, float("nan"))]
    ['0.612', '2.1e-05', '412', '12,346', '3.00', 'not defined']
    """
    if not math.isfinite(x):
        return "not defined"
    size = abs(x)
    if size >= 1000:
        return f"{x:,.0f}"
    if size >= 100:
        return f"{x:.0f}"
    if size >= 10:
        return f"{x:.1f}"
    if size >= 1:
        return f"{x:.2f}"
    return f"{x:.3f}" if size >= 0.001 or x == 0 else f"{x:.1e}"


def share(x: float) -> str:
    """A part of a whole in percent.

    >>> share(0.4567), share(0.0123), share(0.00004)
    ('46 %', '1.2 %', '0.0040 %')
    """
    if not math.isfinite(x):
        return "not defined"
    percent = 100 * x
    digits = 0 if abs(percent) >= 10 else 1 if abs(percent) >= 1 else 2 if abs(percent) >= 0.1 or percent == 0 else 4
    return f"{percent:.{digits}f} %"


def bounds(row: pd.Series) -> str:
    """A row's interval in brackets, with n where the interval is about the value at this n; nothing where it has none."""
    if pd.isna(row["low"]):
        return ""
    at = f" at n = {int(row['n']):,}" if str(row.get("interval_about")) == THIS_N and not pd.isna(row["n"]) else ""
    return f" (95 % interval {span(row['low'], row['high'])}{at})"


def span(low: float, high: float) -> str:
    """Both ends of an interval, with as many digits as tell them apart.

    >>> span(0.25, 0.31), span(0.36014, 0.36042)
    ('0.250 to 0.310', '0.3601 to 0.3604')
    """
    if show(low) != show(high):
        return f"{show(low)} to {show(high)}"
    digits = next((k for k in range(4, 9) if f"{low:.{k}g}" != f"{high:.{k}g}"), 4)
    return f"{low:.{digits}g} to {high:.{digits}g}"
