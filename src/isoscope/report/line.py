"""One model (and stack) of the table, and how its rows are looked up."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from isoscope.charts.panels import list_policies
from isoscope.charts.records import label_lines, line_names, select_layers
from isoscope.core.number import THIS_N
from isoscope.core.wording import format_interval, format_site


@dataclass(frozen=True)
class Line:
    """The rows of one model and stack, which a figure draws as one line. Embedding tables belong to it too."""

    name: str
    table: pd.DataFrame
    series: pd.DataFrame

    @property
    def policy(self) -> str:
        """The default token policy: `all`, if the table has it."""
        return list_policies(self.table)[0]

    @property
    def cosine(self) -> str:
        """The metric by which anisotropy is judged: the cosine between items if it is known, else over all pairs."""
        known = self.table.loc[self.table["value"].notna(), "metric"]
        return "between_cosine" if known.eq("between_cosine").any() else "mean_cosine"

    def rows(self, metric: str, policy: str | None = None) -> pd.DataFrame:
        """The defined values of a metric by depth: of hidden and final states; of a line without layers, of every site but heads."""
        own = self.table[self.table["metric"].eq(metric) & self.table["policy"].eq(policy or self.policy) & self.table["value"].notna()]
        rows = select_layers(own) if len(select_layers(self.table)) else own[own["head"].isna()]
        # The final norm may share its layer number with the last block; it comes after it.
        order = rows["kind"].eq("final").astype(int)
        return rows.assign(order=order).sort_values(["layer", "order"], kind="stable").drop(columns="order")

    def peak(self, policy: str | None = None) -> pd.Series | None:
        """The row with the greatest cosine, or None if no cosine is defined."""
        rows = self.rows(self.cosine, policy)
        return None if rows.empty else greatest(rows)

    def at(self, metric: str, site: pd.Series, policy: str | None = None) -> pd.Series | None:
        """The row of a metric at the site of another row, or None."""
        rows = self.rows(metric, policy)
        same = rows["kind"].eq(site["kind"]) & (rows["layer"].isna() if pd.isna(site["layer"]) else rows["layer"].eq(site["layer"]))
        matching = rows[same.fillna(False).astype(bool)]
        return None if matching.empty else matching.iloc[0]

    def with_and_without_first_tokens(self, metric: str) -> pd.DataFrame:
        """The rows of a metric over all tokens next to those over body tokens, with the size of the difference as `change`."""
        both = self.rows(metric, "all").merge(self.rows(metric, "body"), on=["kind", "layer"], suffixes=("", "_body"))
        return both.assign(change=(both["value"] - both["value_body"]).abs())


def all_lines(table: pd.DataFrame, series: pd.DataFrame) -> list[Line]:
    """Every line, in the order of the table."""
    table, series = label_lines(table, series)
    return [Line(name, table[table["line"] == name], series[series["line"] == name]) for name in line_names(table)]


def greatest(rows: pd.DataFrame, column: str = "value") -> pd.Series:
    """The row with the greatest value of a column."""
    return rows.iloc[int(rows[column].to_numpy(float).argmax())]


def least(rows: pd.DataFrame) -> pd.Series:
    """The row with the least value."""
    return rows.iloc[int(rows["value"].to_numpy(float).argmin())]


def site_of(row: pd.Series) -> str:
    """The site of a row in words: "layer 3", "the state after the final norm", "the input embedding"."""
    return format_site(row["kind"], row["layer"])


def interval_of(row: pd.Series) -> str:
    """The interval of a row in parentheses, with n if the metric depends on n; nothing if the row has no interval."""
    interval = format_interval(float(row["low"]), float(row["high"]))
    if not interval:
        return ""
    at = f" at n = {int(row['n']):,}" if str(row.get("interval_about")) == THIS_N and not pd.isna(row["n"]) else ""
    return f" (95 % interval {interval}{at})"
