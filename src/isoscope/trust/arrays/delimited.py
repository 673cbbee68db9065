"""Comma- or tab-separated values: numeric columns are dimensions, other columns (ids, texts) are left out.

Arrow parses a few megabytes at a time in compiled code; a line or a field never has to fit a buffer of our own.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from isoscope.core.errors import IsoscopeError, first_line
from isoscope.trust.arrays.array_file import ArrayFile, Block

BLOCK_BYTES = 16 << 20
"""Bytes that are parsed at a time; no line may be longer."""
MAX_COLUMNS = 1 << 18
INDEX = ("", "index", "Unnamed: 0", "__index_level_0__")
"""Names under which pandas writes the numbers of rows, which are no dimension. They count as such only in the first column."""


class DelimitedArray(ArrayFile):
    """The numeric columns of a text file."""

    def __init__(self, path: Path, shape: tuple[int, int], delimiter: str, header: bool, columns: list[str]) -> None:
        super().__init__(path, path.name, shape, np.dtype(np.float64))
        self.delimiter, self.header, self.columns = delimiter, header, columns

    def _blocks(self, rows: int, start: int, stop: int) -> Iterator[Block]:
        at = 0
        for batch in read_batches(self.path, self.delimiter, self.header, self.columns):
            low, high = max(start - at, 0), min(stop - at, batch.num_rows)
            for first in range(low, high, rows):
                yield self._to_block(batch.slice(first, min(rows, high - first)), at + first)
            at += batch.num_rows
            if at >= stop:
                return
        if at < stop:
            raise IsoscopeError(f"{self.path} had {self.n} rows when it was opened and now has {at}; keep it as it is while it is read.")

    def _to_block(self, batch: Any, row: int) -> Block:
        block = np.empty((batch.num_rows, self.d))
        for j, name in enumerate(self.columns):
            column = batch.column(j)
            if column.null_count:
                i = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
                raise IsoscopeError(f"{self.path}: row {row + i} of {name!r} has a missing value; leave such rows out or fill them.")
            block[:, j] = column.to_numpy(zero_copy_only=False)
        return block


def open_delimited(path: Path, key: str | None = None) -> DelimitedArray:
    """All numeric columns of a .csv or .tsv file, with or without a line of names; a key is refused."""
    if key is not None:
        raise IsoscopeError(f"{path} holds one matrix without a name; leave out the key {key!r}.")
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    first = _first_fields(path, delimiter)
    if len(first) > MAX_COLUMNS:
        raise IsoscopeError(f"{path} has {len(first):,} columns, and {MAX_COLUMNS:,} is the most that is read; save it as .npy.")
    # pandas calls columns without a name 0, 1, 2, …
    header = not all(map(_is_number, first)) or (len(first) > 1 and first == [str(i) for i in range(len(first))])
    names = first if header else [f"f{i}" for i in range(len(first))]
    if len(set(names)) < len(names):
        raise IsoscopeError(f"{path} has two columns of one name; name them apart.")
    # The types that Arrow finds in the first megabytes; a word further down is then an error that names it.
    import pyarrow as pa

    batch = next(read_batches(path, delimiter, header), None)
    if batch is None:
        raise IsoscopeError(f"{path} has no row of numbers; a table with one row per point is expected.")
    numeric = [field.name for field in batch.schema if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)]
    columns = numeric[1:] if len(numeric) > 1 and numeric[0] == names[0] and names[0] in INDEX else numeric
    if not columns:
        raise IsoscopeError(f"{path} has no column of numbers; its columns are {', '.join(names[:8])}{', …' * (len(names) > 8)}.")
    n = sum(batch.num_rows for batch in read_batches(path, delimiter, header, columns[:1]))
    return DelimitedArray(path, (n, len(columns)), delimiter, header, columns)


def read_batches(path: Path, delimiter: str, header: bool, columns: list[str] | None = None) -> Iterator[Any]:
    """The rows of these columns as Arrow batches of doubles; without columns, of all of them with the types that Arrow finds."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    read = arrow_csv.ReadOptions(block_size=BLOCK_BYTES, autogenerate_column_names=not header, use_threads=False)
    types = {name: pa.float64() for name in columns or []}
    convert = arrow_csv.ConvertOptions(include_columns=columns, column_types=types, null_values=[""])
    with arrow_errors_as_user_errors(path):
        reader = arrow_csv.open_csv(path, read, arrow_csv.ParseOptions(delimiter=delimiter), convert)
    with reader:
        while True:
            with arrow_errors_as_user_errors(path):
                batch = next(reader, None)
            if batch is None:
                return
            yield batch


@contextmanager
def arrow_errors_as_user_errors(path: Path) -> Iterator[None]:
    """Report in one sentence what Arrow raises for a file that is no table of numbers."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowException as error:
        raise IsoscopeError(f"{path} cannot be read as a table of numbers ({first_line(error)}); correct that line.") from error


def _first_fields(path: Path, delimiter: str) -> list[str]:
    """The fields of the first line."""
    with path.open("rb") as file:
        line = file.readline(BLOCK_BYTES)
    try:
        text = line.decode("utf-8-sig")
        fields = next(csv.reader([text], delimiter=delimiter), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise IsoscopeError(f"{path} is no text of UTF-8 with separated values; save it again as .csv, .tsv or .npy.") from error
    if not text.strip():
        raise IsoscopeError(f"{path} begins with an empty line; a table with one row per point is expected.")
    return fields


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
