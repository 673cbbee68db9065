"""The tables of a cell in Arrow: reading them, joining those of many cells, and checking them.

They are checked once, where they are read, so that no figure or claim need check them again. Values may be missing or infinite. Metrics,
kinds and settings may come from another version or from a plug-in.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import lru_cache
from typing import Any, BinaryIO

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from isoscope.core.site import KINDS
from isoscope.core.table import make_table
from isoscope.metrics import metrics
from isoscope.trust.parquet_layout import open_checked_parquet
from isoscope.trust.safe_io import parse_json

REQUIRED = ("model", "metric", "name", "policy", "kind")
"""Columns in which every row has a value."""
COUNTS = {"step": 1 << 53, "seed": 1 << 63, "layer": 1 << 20, "head": 1 << 20, "n": 1 << 53, "d": 1 << 22}
"""Columns of counts. They start at 0 and stay below these limits. No layer has four million dimensions, and figures draw them all."""
EMBEDDINGS = ("input_embedding", "output_embedding")
"""Sites that have a stack but no layer."""
TEXTS = ("note", "verdict", "objective", "data", "policy", "unit", "dtype", "architecture", "cell", "isoscope")
"""Settings that are text, if a row has them."""


def read_arrow_table(raw: BinaryIO, columns: dict[str, str]) -> pa.Table:
    """These columns of a Parquet file; a ValueError if one is missing, or if the file claims more rows than it has bytes."""
    size = os.fstat(raw.fileno()).st_size
    with open_checked_parquet(raw) as file:
        if (count := file.metadata.num_rows) > size:
            raise ValueError(f"it claims {count:,} rows in {size:,} bytes")
        if absent := [name for name in columns if name not in file.schema_arrow.names]:
            raise ValueError(f"it lacks the column {absent[0]}")
        return file.read(list(columns), use_threads=False).select(list(columns)).cast(_arrow_schema(tuple(columns.items())))


def arrow_table(frame: pd.DataFrame, columns: dict[str, str]) -> pa.Table:
    """A frame as an Arrow table with the types of the tables in cells."""
    return pa.Table.from_pandas(frame[list(columns)], preserve_index=False).cast(_arrow_schema(tuple(columns.items())))


def join_frames(tables: list[pa.Table], columns: dict[str, str]) -> pd.DataFrame:
    """Arrow tables, one below the other, as one frame with these columns and types."""
    if not tables:
        return make_table([], columns)
    types = {pa.int64(): pd.Int64Dtype(), pa.large_string(): pd.StringDtype()}
    # Combined into one chunk: with a chunk of text per cell, every choice of rows would look at each of thousands of chunks.
    joined = pa.concat_tables(tables).replace_schema_metadata(None).combine_chunks()
    frame: pd.DataFrame = joined.to_pandas(types_mapper=types.get)
    return frame.astype(columns)


@lru_cache
def _arrow_schema(columns: tuple[tuple[str, str], ...]) -> pa.Schema:
    types = {"string": pa.large_string(), "Int64": pa.int64(), "float64": pa.float64()}
    return pa.schema([(name, types[kind]) for name, kind in columns])


def mistake_in_table(table: pa.Table) -> str:
    """What is wrong with a table of rows or of series, in words; empty if nothing is."""
    columns = set(table.column_names)
    for name in REQUIRED:
        if name in columns and table[name].null_count:
            return f"a row has no {name}"
    for name, limit in COUNTS.items():
        if name in columns and table[name].null_count < len(table):
            ends = pc.min_max(table[name]).as_py()
            if ends["min"] < 0 or ends["max"] >= limit:
                return f"a row has the {name} {ends['min'] if ends['min'] < 0 else ends['max']}"
    at_a_site = _is_in(table["kind"], KINDS)
    if pc.any(pc.and_(at_a_site, pc.is_null(table["stack"]))).as_py():
        return "a row has no stack"
    if "metric" not in columns or not len(table):
        return ""
    # Rows of other kinds (isotropic clouds, the untrained block, plug-ins) belong to no layer of a model.
    in_a_layer = pc.and_(at_a_site, pc.invert(_is_in(table["kind"], EMBEDDINGS)))
    # A profile is of a whole stack and has no layer. A metric that is not declared here may be of either kind.
    of_layers = pc.and_(in_a_layer, _is_in(table["metric"], [metric.name for metric in metrics()]))
    for name, least in (("layer", 0), ("d", 1)):
        lacking = pc.fill_null(pc.less(table[name], least), True)
        if (where := pc.index(pc.and_(of_layers, lacking), True).as_py()) >= 0:
            return f"a row of {table['metric'][where].as_py()} has the {name} {table[name][where].as_py()}"
    return next((mistake for text in pc.unique(table["spec"]).to_pylist() if (mistake := _mistake_in_settings(text))), "")


def _is_in(column: Any, names: Collection[str]) -> Any:
    return pc.is_in(column, pa.array(names, pa.large_string()))


def _mistake_in_settings(text: str | None) -> str:
    if text is None:
        return ""
    try:
        settings = parse_json(text)
    except ValueError as error:
        return f"the settings of a row are no JSON: {error}"
    if not isinstance(settings, dict):
        return "the settings of a row are no object"
    wrong = [name for name in TEXTS if not isinstance(settings.get(name), str | None)]
    return f"the {wrong[0]} of a row is {settings[wrong[0]]!r:.40}" if wrong else ""
