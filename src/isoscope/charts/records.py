"""Rows of a table as the records of a chart: which of them are drawn, the label of their line, and their values as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd


def select_layers(frame: pd.DataFrame, *, pooled: bool = False) -> pd.DataFrame:
    """The rows that have a depth: hidden states and the state after the final norm, without embedding tables and heads.

    With `pooled` also pooled vectors, which have another n than the states, and are a line of their own in a frame with lines.
    """
    if pooled and "line" in frame:
        is_pooled = frame["kind"].eq("pooled").fillna(False)
        frame = frame.assign(line=frame["line"].where(~is_pooled, frame["line"] + ", pooled"))
    has_depth = frame["kind"].isin(["hidden", "final", *(["pooled"] if pooled else [])]) & frame["layer"].notna() & frame["head"].isna()
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


LINE_COLUMNS = ["model", "revision", "step", "seed", "stack"]
"""The columns that identify a line: an encoder and a decoder are two lines, and so are two checkpoints."""


def label_lines(*frames: pd.DataFrame) -> list[pd.DataFrame]:
    """The frames with a column `line`: the model's name, and those of the other columns that differ between lines of this model."""
    keys = pd.concat([frame[LINE_COLUMNS] for frame in frames], ignore_index=True)
    # A table has up to a million rows and a few lines: names are made once per line and then spread over the rows.
    number = keys.groupby(LINE_COLUMNS, dropna=False, sort=False).ngroup()
    firsts = keys[~number.duplicated()].astype("string").fillna("")
    known = [tuple(map(str, row)) for row in firsts.to_numpy()]
    different = {(model, i): len({row[i] for row in known if row[0] == model}) for model, *_ in known for i in range(len(LINE_COLUMNS))}
    names = []
    for row in known:
        model, revision, *others = (word if i == 0 or different[row[0], i] > 1 else "" for i, word in enumerate(row))
        words = [f"{model}@{revision}" if revision else model]
        words += [f"{prefix}{word}" for prefix, word in zip(("step ", "seed ", ""), others, strict=True) if word]
        names.append(" · ".join(words))
    lines = pd.Series(names, dtype="string").reindex(number).to_numpy()
    parts = np.split(lines, np.cumsum([len(frame) for frame in frames])[:-1])
    return [frame.assign(line=pd.Series(own, index=frame.index, dtype="string")) for frame, own in zip(frames, parts, strict=True)]


def line_names(table: pd.DataFrame) -> list[str]:
    """The lines of a labelled table, in the order of the table."""
    return [str(name) for name in table["line"].drop_duplicates()]


def json_records(frame: pd.DataFrame, columns: list[str]) -> tuple[dict[str, Any], ...]:
    """One dictionary per row; a value that is missing or not finite is null. A tuple, because Altair copies lists at every step."""

    def json_value(x: Any) -> Any:
        if x is pd.NA or x is None:
            return None
        x = x.item() if hasattr(x, "item") else x
        return None if isinstance(x, float) and not math.isfinite(x) else x

    values = [[json_value(x) for x in frame[column].astype(object)] for column in columns]
    return tuple(dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True))


def round_digits(values: pd.Series) -> list[float]:
    """The numbers with five significant digits: nobody sees more of them, and they would make the page larger."""
    return [float(f"{x:.5g}") for x in values.astype("float64")]


def round_columns(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """The frame with five significant digits in these columns."""
    return frame.assign(**{name: round_digits(frame[name]) for name in columns})
