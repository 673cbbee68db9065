"""The two tidy tables: one row a number, and one row a point of a series."""

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
"""What says where a number comes from. `seed` is the model's (of an untrained twin, of a training run), not the sampler's."""

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


def tidy(rows: list[dict[str, object]], columns: dict[str, str]) -> pd.DataFrame:
    """Rows as a frame with exactly these columns and types; what a row does not say is missing."""
    frame = pd.DataFrame(rows, columns=list(columns))
    return frame.astype(columns)


def stacked(frames: list[pd.DataFrame], columns: dict[str, str]) -> pd.DataFrame:
    """Frames one below the other, with these columns and types; empty ones leave no trace."""
    full = [frame for frame in frames if len(frame)]
    if not full:
        return tidy([], columns)
    found = pd.concat(full, ignore_index=True)[list(columns)].astype(columns)
    return found.assign(**{name: _whole(found[name]) for name, kind in columns.items() if kind == "string"})


def _whole(texts: pd.Series) -> pd.Series:
    """Texts in one piece: in as many as were put together, every choice of rows would look at each of them."""
    pieces = pa.chunked_array(pa.array(texts.array))
    return pd.Series(pieces.combine_chunks(), texts.index, dtype="string")
