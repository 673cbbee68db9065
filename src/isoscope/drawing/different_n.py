"""Lines that were measured on different numbers of points, for metrics that depend on that number: each n has a panel of its own."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.number import THIS_N, same_n
from isoscope.drawing import INTERVAL

Part = tuple[pd.DataFrame, str]
"""The rows of lines that may share a panel, and what its title adds: at which n they are; empty where all lines have the same n."""
COSINES = {"mean_cosine": "mean cosine", "between_cosine": "mean cosine between documents"}
"""The cosine over all pairs, which depends on n, and the one that does not, with the names of their axes."""


def split_by_n(rows: pd.DataFrame, line: str) -> list[Part]:
    """The rows of one metric, apart by n: lines, told apart by this column, share a part only if their n is the same.

    Only a metric whose interval is about this n is taken apart, and n is compared policy by policy, as the reader chooses one.
    """
    sizes = _sizes(rows, line)
    groups: list[list[Any]] = []
    for name in sizes.index:
        fitting = (group for group in groups if _all_alike(sizes.loc[[*group, name]]))
        group = next(fitting, None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    if len(groups) < 2:
        return [(rows, "")]
    unknown = ~rows[line].isin(list(sizes.index))  # no n, or no value: they are compared with nothing
    parts = [rows[rows[line].isin(group) | (unknown if i == 0 else False)] for i, group in enumerate(groups)]
    return [(part, _words(sizes.loc[group])) for part, group in zip(parts, groups, strict=True)]


def title_at_n(title: str | list[str], words: str) -> str | list[str] | dict[str, Any]:
    """The title of a panel, with the words of its part as a second line."""
    return {"text": title, "subtitle": words} if words else title


def cosine_to_draw(rows: pd.DataFrame, line: str) -> str:
    """`mean_cosine`, as published; or `between_cosine`, where n differs between lines and every line has that one.

    The one is over all pairs, with those within a document, and depends on n; the other is what it tends to and does not.
    """
    plain, between = (rows[rows["metric"].eq(name) & rows["value"].notna()] for name in COSINES)
    differs = len(split_by_n(plain, line)) > 1
    return "between_cosine" if differs and set(plain[line]) <= set(between[line]) else "mean_cosine"


def interval_words(rows: pd.DataFrame) -> str:
    """The expression for a row's 95 % interval in words: it adds "at this n" where the metric of these rows depends on n."""
    if not rows["interval_about"].eq(THIS_N).any():
        return INTERVAL
    return INTERVAL.replace("format(datum.high, '.4g')", "format(datum.high, '.4g') + ' at this n'")


def _sizes(rows: pd.DataFrame, line: str) -> pd.DataFrame:
    """The largest n of each line (rows) under each token policy (columns), of rows whose metric depends on n."""
    own = rows[rows["interval_about"].eq(THIS_N) & rows["n"].notna() & rows["value"].notna()]
    if own.empty:
        return pd.DataFrame()
    policy = "" if line == "policy" else own["policy"].astype(str)
    named = own.assign(shown_under=policy, n=own["n"].astype("float64"))
    sizes = named.pivot_table(index=line, columns="shown_under", values="n", aggfunc="max")
    return sizes.reindex(own[line].drop_duplicates())


def _all_alike(sizes: pd.DataFrame) -> bool:
    """Whether lines have the same n under every policy that several of them have."""
    ends = sizes.agg(["min", "max"])
    return all(same_n(low, high) for low, high in zip(ends.loc["min"], ends.loc["max"], strict=True) if low == low)


def _words(sizes: pd.DataFrame) -> str:
    """At which n a part is."""
    low, high = int(sizes.min().min()), int(sizes.max().max())
    at = f"{high:,}" if same_n(low, high) else f"{low:,} to {high:,}, by token policy"
    return f"n = {at}; compare only at equal n"
