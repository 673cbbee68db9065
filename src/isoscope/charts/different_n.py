"""Lines measured on different numbers of points n: if the metric depends on n, each n has its own panel."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.number import THIS_N, same_n

Title = str | list[str] | dict[str, Any]
Part = tuple[pd.DataFrame, Title]
"""The rows of lines that may share a panel, and the title of the panel."""
COSINES = {"mean_cosine": "mean cosine", "between_cosine": "mean cosine between documents"}
"""The cosine over all pairs, which depends on n, and the one that does not, with the titles of their axes."""


def split_by_n(rows: pd.DataFrame, line: str, title: str | list[str]) -> list[Part]:
    """The rows of one metric, one part per n; lines, told apart by the column `line`, share a part only if they have the same n.

    A part without any value is left out. If all lines have the same n, or the metric does not depend on n, there is one part.
    """
    sizes = _line_sizes(rows, line)
    groups: list[list[Any]] = []
    # Each line joins the first group that it fits. "Same n" tolerates small differences, so a line must fit every member of the group.
    for name in sizes.index:
        group = next((group for group in groups if _same_sizes(sizes.loc[[*group, name]])), None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    if len(groups) < 2:
        parts: list[Part] = [(rows, title)]
    else:
        # Lines without an n or without a value are compared with nothing: they may stand in any panel, and stand in the first.
        unknown = ~rows[line].isin(list(sizes.index))
        titles = [{"text": title, "subtitle": _size_words(sizes.loc[group])} for group in groups]
        parts = [(rows[rows[line].isin(group) | (unknown & (i == 0))], titles[i]) for i, group in enumerate(groups)]
    return [(part, part_title) for part, part_title in parts if part["value"].notna().any()]


def choose_cosine(rows: pd.DataFrame, line: str) -> str:
    """`mean_cosine`, as published; or `between_cosine`, if n differs between lines and every line has it.

    The first is over all pairs, including those within a document, and depends on n. The second is its limit and does not.
    """
    plain, between = (rows[rows["metric"].eq(name) & rows["value"].notna()] for name in COSINES)
    differs = len(split_by_n(plain, line, "")) > 1
    return "between_cosine" if differs and set(plain[line]) <= set(between[line]) else "mean_cosine"


def _line_sizes(rows: pd.DataFrame, line: str) -> pd.DataFrame:
    """The largest n of each line (rows) under each token policy (columns), if the metric depends on n; else nothing.

    The reader chooses one policy at a time, so n is compared within policies.
    """
    dependent = rows[rows["interval_about"].eq(THIS_N) & rows["n"].notna() & rows["value"].notna()]
    if dependent.empty:
        return pd.DataFrame()
    policy = "" if line == "policy" else dependent["policy"].astype(str)
    sizes = dependent.assign(shown_under=policy, n=dependent["n"].astype("float64"))
    sizes = sizes.pivot_table(index=line, columns="shown_under", values="n", aggfunc="max")
    return sizes.reindex(dependent[line].drop_duplicates())


def _same_sizes(sizes: pd.DataFrame) -> bool:
    """Whether lines have the same n under every policy that several of them have."""
    ends = sizes.agg(["min", "max"])
    return all(same_n(low, high) for low, high in zip(ends.loc["min"], ends.loc["max"], strict=True) if low == low)


def _size_words(sizes: pd.DataFrame) -> str:
    """The n of a part, in words."""
    low, high = int(sizes.min().min()), int(sizes.max().max())
    at = f"{high:,}" if same_n(low, high) else f"{low:,} to {high:,}, by token policy"
    return f"n = {at}; compare only at equal n"
