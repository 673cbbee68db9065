"""Are two results the same? Numbers within a tolerance, words exactly, and a sentence for every difference."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from tests.golden import renames
from tests.golden.names import IDENTITY, SENTENCES

NUMBER = re.compile(r"(?<![\w.])[-+−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
MOST = 12
"""Differences that are listed of one measurement."""
SCALE = 0.1
"""Differences of numbers that are smaller than this are relative to it, so that the absolute floor is a tenth of the tolerance.

Cosines, shares, p-values and their intervals are sums of terms of order 1 that cancel: a cosine of 0.0003 carries the rounding of a float32
forward pass in units of 1, not of 0.0003. Sums over a curve are relative to the sum of sizes for the same reason.
"""

WIDER: dict[float, dict[str, float]] = {
    1e-10: {r"=(local|cluster)_": 1e-7},
    1e-5: {r"=(two_nn|gride|levina_bickel|hubness|local_|cluster_|dimension_|intrinsic_)": 1e-3},
}
"""By tolerance: rows that must be compared less closely, by a pattern of their names.

Clouds that local geometry is held against are products in float32, also where the points are in float64. Neighbours lie close together, so
that the difference of two float32 points has fewer digits than each of them; and a dimension of 40 is the reciprocal of a mean logarithm of
1/40, whose error grows as much.
"""


def drop_metrics(table: pd.DataFrame, metrics: frozenset[str]) -> pd.DataFrame:
    """A table without the rows of these metrics and series."""
    columns = [column for column in map(renames.rename_column, ("metric", "name")) if column in table]
    return table[~table[columns].isin(metrics).any(axis=1)] if columns and metrics else table


def compare_tables(
    name: str, stored: pd.DataFrame, new: pd.DataFrame, tolerance: float, new_metrics: frozenset[str] = frozenset()
) -> list[str]:
    """How two tables differ, row by row; the stored one is renamed first, and rows of new metrics are not compared."""
    old, now = index_rows(rename_table(stored)), index_rows(drop_metrics(new, new_metrics))
    found = [f"{name}: column {column!r} is new" for column in now if column not in old]
    found += [f"{name}: column {column!r} is gone" for column in old if column not in now]
    found += [f"{name}: row {row} is new" for row in now.index.difference(old.index)]
    found += [f"{name}: row {row} is gone" for row in old.index.difference(now.index)]
    both = old.index.intersection(now.index)
    for column in (column for column in old if column in now):
        found += compare_column(name, column, old.loc[both], now.loc[both], tolerance)
    return found


def rename_table(frame: pd.DataFrame) -> pd.DataFrame:
    """A stored table under the names of today."""
    changed = {name: frame[name].map(partial(renames.rename_value, name)) for name in {*renames.VALUES, *renames.METRIC_OPTIONS} & {*frame}}
    if "column" in frame:  # the data of a chart: names of columns, and the different words of each
        changed["column"] = frame["column"].map(renames.rename_column)
        changed["words"] = frame["words"].map(
            lambda text: " | ".join(sorted(map(renames.rename_word, text.split(" | ")))), na_action="ignore"
        )
    return frame.assign(**changed).rename(columns=renames.rename_column)


def rename_list(text: str) -> str:
    """The different words of a column under the names of today."""
    return " | ".join(sorted(map(renames.rename_word, text.split(" | "))))


def index_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """A table whose index names each row in words; rows that would share a name are counted."""
    keys = [column for column in frame if column in map(renames.rename_column, IDENTITY)]
    labels = pd.Series([describe_row(row, keys) for row in frame[keys].to_dict("records")], dtype=object)
    count = labels.groupby(labels).cumcount()
    labels = labels.where(count == 0, labels + " #" + (count + 1).astype(str))
    return frame.drop(columns=keys).set_axis(labels.to_list(), axis=0)


def describe_row(row: dict[Any, Any], keys: list[str]) -> str:
    """`model=bert layer=3 metric=mean_cosine`, without what is missing; a float is shortened, so that its last digits name no other row."""
    shown = {key: f"{row[key]:.4g}" if isinstance(row[key], float) else row[key] for key in keys if not pd.isna(row[key])}
    return " ".join(f"{key}={value}" for key, value in shown.items())


def compare_column(name: str, column: str, old: pd.DataFrame, new: pd.DataFrame, tolerance: float) -> Iterator[str]:
    """The rows in which a column differs."""
    if pd.api.types.is_float_dtype(old[column]) and pd.api.types.is_float_dtype(new[column]):
        before, after = (side[column].to_numpy(np.float64, na_value=np.nan) for side in (old, new))
        far = ~agree(before, after, widen(old.index, tolerance), find_scale(old, column))
        for i in np.flatnonzero(far):
            yield f"{name}: {old.index[i]}: {column} was {float(before[i])!r}, is {float(after[i])!r}"
        return
    for row, before, after in zip(old.index, old[column], new[column], strict=True):
        if differ := describe_difference(column, none_if_missing(before), none_if_missing(after), tolerance):
            yield f"{name}: {row}: {differ}"


def find_scale(table: pd.DataFrame, column: str) -> np.ndarray:
    """The size in each row below which differences count as absolute: for sums over a curve or a chart, the sum of sizes."""
    start = column.rpartition("_")[0]
    size = f"{start}_size" if start else "size"
    least = 1.0 if size == "size" else SCALE  # charts hold coordinates with six decimals, and several may be rounded the other way
    return np.maximum(least, table[size].to_numpy(np.float64, na_value=0.0)) if size in table else np.full(len(table), SCALE)


def widen(rows: pd.Index, tolerance: float) -> np.ndarray:
    """The tolerance of each row."""
    wider = WIDER.get(tolerance, {})
    return np.array([max([tolerance, *(more for pattern, more in wider.items() if re.search(pattern, row))]) for row in rows])


def agree(before: np.ndarray, after: np.ndarray, tolerance: float | np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Where two arrays hold the same number, or none, or the same infinity."""
    with np.errstate(invalid="ignore"):
        close = np.abs(before - after) <= tolerance * np.maximum(np.maximum(np.abs(before), np.abs(after)), scale)
    return close | (before == after) | (np.isnan(before) & np.isnan(after))


def none_if_missing(value: Any) -> Any:
    return None if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)) else value


def describe_difference(where: str, before: Any, after: Any, tolerance: float) -> str:
    """A sentence where two single values differ, else nothing; whole numbers are the same or not."""
    if isinstance(before, float) and isinstance(after, int | float):
        same = bool(agree(np.array(before), np.array(float(after)), tolerance, np.array(SCALE)))
    elif isinstance(before, str) and isinstance(after, str):
        same = same_text(before, after)
    else:
        same = before == after
    return "" if same else f"{where} was {before!r}, is {after!r}"


def same_text(before: str, after: str) -> bool:
    """Whether two texts have the same words, and numbers that differ by at most one in the last digit that is printed."""
    if before == after:
        return True
    if NUMBER.sub("#", before) != NUMBER.sub("#", after):
        return False
    pairs = zip(NUMBER.findall(before), NUMBER.findall(after), strict=True)
    return all(a == b or abs(read_number(a) - read_number(b)) <= 1.01 * max(last_digit(a), last_digit(b)) for a, b in pairs)


def read_number(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))


def last_digit(text: str) -> float:
    """The worth of one in the last printed digit; whole numbers are counts, and must be equal.

    >>> last_digit("0.125"), last_digit("1.5e-3"), last_digit("12")
    (0.001, 0.0001, 0.0)
    """
    digits, _, power = text.partition("e")
    places = len(digits.partition(".")[2])
    return 10.0 ** (int(power or 0) - places) if places else (10.0 ** int(power) if power else 0.0)


def flatten(value: Any, where: str = "") -> dict[str, Any]:
    """Nested JSON as one dictionary, by path.

    >>> flatten({"a": [1, {"b": None}], "c": {}})
    {'a.0': 1, 'a.1.b': None, 'c': {}}
    """
    if not isinstance(value, dict | list) or not value:
        return {where: value}
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    return {path: one for name, part in pairs for path, one in flatten(part, f"{where}.{name}" if where else str(name)).items()}


def is_sentence(path: str) -> bool:
    """Whether a path of flattened JSON leads to prose."""
    return any(word in map(renames.rename_column, SENTENCES) for word in path.split("."))


def rename_words(words: dict[str, Any]) -> dict[str, Any]:
    """Stored words under the names of today: each part of a path is the name of a field, or of a model, metric or claim."""
    return {
        ".".join(map(renames.rename_column, where.split("."))): renames.rename_value(where.rpartition(".")[2], value)
        for where, value in words.items()
    }


def compare_words(
    name: str, stored: dict[str, Any], new: dict[str, Any], tolerance: float, new_metrics: frozenset[str] = frozenset()
) -> list[str]:
    """How two flattened results in words differ; the stored one is renamed first, and words about new metrics are not compared."""
    stored = rename_words(stored)
    new = {where: value for where, value in new.items() if not new_metrics & set(where.split("."))}
    found = [f"{name}: {where} is new: {value!r}" for where, value in new.items() if where not in stored]
    found += [f"{name}: {where} is gone, was {value!r}" for where, value in stored.items() if where not in new]
    both = (where for where in stored if where in new)
    return found + [f"{name}: {told}" for where in both if (told := describe_difference(where, stored[where], new[where], tolerance))]
