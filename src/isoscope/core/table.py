"""The two tidy tables: one row per number, and one row per point of a series."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa

SITE_COLUMNS: dict[str, str] = {
    "model": "string",
    "revision": "string",
    "step": "Int64",
    "seed": "Int64",
    "modality": "string",
    "family": "string",
    "stack": "string",
    "kind": "string",
    "layer": "Int64",
    "head": "Int64",
    "policy": "string",
}
"""The columns that say where a number comes from. `seed` is that of the model (an untrained twin, a training run), not of the sampler."""

TABLE_COLUMNS: dict[str, str] = SITE_COLUMNS | {
    "metric": "string",
    "value": "float64",
    "low": "float64",
    "high": "float64",
    "interval_about": "string",
    "n": "Int64",
    "d": "Int64",
    "null": "float64",
    "null_sd": "float64",
    "spec": "string",
}

SERIES_COLUMNS: dict[str, str] = SITE_COLUMNS | {
    "name": "string",
    "x": "float64",
    "y": "float64",
    "weight": "float64",
}


def make_table(rows: list[dict[str, object]], columns: dict[str, str]) -> pd.DataFrame:
    """Rows as a frame with exactly these columns and types; values that a row lacks are missing."""
    frame = pd.DataFrame(rows, columns=list(columns))
    return frame.astype(columns)


def concat_tables(frames: list[pd.DataFrame], columns: dict[str, str]) -> pd.DataFrame:
    """Frames one below the other, with exactly these columns and types."""
    # pandas will one day let the types of empty frames count, and warns of that.
    full = [frame for frame in frames if len(frame)]
    if not full:
        return make_table([], columns)
    table = pd.concat(full, ignore_index=True)[list(columns)].astype(columns)
    return table.assign(**{name: _in_one_chunk(table[name]) for name, kind in columns.items() if kind == "string"})


def _in_one_chunk(texts: pd.Series) -> pd.Series:
    """Strings in one Arrow chunk. `pd.concat` leaves one chunk per frame, and every selection of rows would visit each of them."""
    chunks = pa.chunked_array(pa.array(texts.array))
    return pd.Series(chunks.combine_chunks(), texts.index, dtype="string")
