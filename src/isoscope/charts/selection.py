"""Which rows of a table a chart draws."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd


def select_layers(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that have a depth: hidden states and the state after the final norm, without embedding tables and heads."""
    has_depth = frame["kind"].isin(["hidden", "final"]) & frame["layer"].notna() & frame["head"].isna()
    return frame[has_depth.fillna(False).astype(bool)]


def peak_layers(table: pd.DataFrame) -> pd.DataFrame:
    """The hidden layer with the greatest cosine, for each line and policy: between items if it was measured, else over all pairs."""
    rows = select_layers(table)
    rows = rows[rows["kind"].eq("hidden") & rows["value"].notna() & rows["metric"].isin(["between_cosine", "mean_cosine"])]
    peaks = []
    for _, both in rows.groupby(["line", "policy"], sort=False):
        cosine = both[both["metric"] == both["metric"].min()]  # "between_cosine" comes first in the alphabet
        peaks.append(cosine.loc[cosine["value"].idxmax(), ["line", "policy", "layer"]])
    return pd.DataFrame(peaks, columns=["line", "policy", "layer"])


def pick_evenly(values: Iterable[Any], most: int) -> list[Any]:
    """At most this many of the sorted values, evenly spaced, including the first and the last.

    >>> pick_evenly([0, 1, 2, 4, 8, 16], 3)
    [0, 2, 16]
    """
    ordered = sorted(set(values))
    places = np.linspace(0, len(ordered) - 1, min(most, len(ordered))).round()
    return [ordered[int(i)] for i in dict.fromkeys(places)]
