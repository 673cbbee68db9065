"""Parquet: a column of lists of equal length, one per row of the matrix; or numeric columns, one per dimension."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.trust.arrays.array_file import ArrayFile, Block, block_dtype, choose_array
from isoscope.trust.parquet_layout import open_parquet_file, read_chunks

MAX_WIDTH = 1 << 24
"""Values of a row, on average over a row group."""


class ParquetArray(ArrayFile):
    """One column of lists, or several columns of numbers."""

    def __init__(self, path: Path, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], columns: list[str], lists: bool) -> None:
        super().__init__(path, name, shape, dtype)
        self.columns, self.lists = columns, lists

    def _blocks(self, rows: int, start: int, stop: int) -> Iterator[Block]:
        with open_parquet_file(self.path) as file:
            # Only whole row groups can be skipped; rows before `start` in the first of them are cut off below.
            groups, first = self._groups_between(file, start, stop)
            for batch in file.iter_batches(batch_size=rows, row_groups=groups, columns=self.columns):
                low, high = max(start - first, 0), min(stop - first, batch.num_rows)
                if low < high:
                    yield self._to_block(batch.slice(low, high - low), first + low)
                first += batch.num_rows

    @staticmethod
    def _groups_between(file: Any, start: int, stop: int) -> tuple[list[int], int]:
        """The row groups that hold the rows from start to stop, and the number of the first row in them."""
        ends = np.cumsum([file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)], dtype=np.int64)
        begins = np.concatenate([[0], ends[:-1]])
        groups = np.flatnonzero((ends > start) & (begins < stop))
        return groups.tolist(), int(begins[groups[0]]) if len(groups) else 0

    def _to_block(self, batch: Any, row: int) -> Block:
        block = np.empty((batch.num_rows, self.d), self.dtype)
        if self.lists:
            block[:] = self._flatten(batch.column(0), self.columns[0], row).reshape(batch.num_rows, self.d)
            return block
        for j, name in enumerate(self.columns):
            column = batch.column(batch.schema.get_field_index(name))
            self._refuse_null(column, name, row, 1)
            block[:, j] = column.to_numpy(zero_copy_only=False)
        return block

    def _flatten(self, column: Any, name: str, row: int) -> np.ndarray[Any, Any]:
        """The values of the lists end to end, after a check that every list has d of them."""
        import pyarrow.compute as pc

        self._refuse_null(column, name, row, 1)
        lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
        ragged = np.flatnonzero(lengths != self.d)
        if len(ragged):
            i = int(ragged[0])
            raise IsoscopeError(
                f"{self.path}: row {row + i} of {name!r} has {lengths[i]} values; all rows must have as many, here {self.d}."
            )
        # All lists have d values by now, so that the flat values are the rows one after the other.
        values = column.flatten()
        self._refuse_null(values, name, row, self.d)
        return np.asarray(values.to_numpy(zero_copy_only=False))

    def _refuse_null(self, column: Any, name: str, row: int, width: int) -> None:
        if column.null_count:
            i = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]) // width
            raise IsoscopeError(f"{self.path}: row {row + i} of {name!r} has a missing value; leave such rows out or fill them.")


def open_parquet(path: Path, key: str | None = None) -> ParquetArray:
    """The column of lists that `key` names, the only such column, or else all numeric columns side by side."""
    with open_parquet_file(path) as file:
        n, schema = file.metadata.num_rows, file.schema_arrow
        if len(set(schema.names)) < len(schema.names):
            raise IsoscopeError(f"{path} has two columns of one name; name them apart.")
        lists = [field.name for field in schema if is_list_of_numbers(field.type)]
        if key is None and not lists:
            # pandas stores its index as a column, which is no dimension.
            columns = [field.name for field in schema if is_numeric(field.type) and not field.name.startswith("__index_level_")]
            if not columns:
                raise IsoscopeError(f"{path} has no column of numbers or of lists of numbers; its columns are {', '.join(schema.names)}.")
            types = [block_dtype(path, np.dtype(schema.field(name).type.to_pandas_dtype())) for name in columns]
            return ParquetArray(path, path.name, (n, len(columns)), np.result_type(*types), columns, lists=False)
        if key in schema.names and key not in lists:
            raise IsoscopeError(f"{path}: the column {key!r} holds {schema.field(key).type}, and lists of numbers are expected.")
        name, label = choose_array(path, key, {name: (n, fixed_width(schema.field(name).type)) for name in lists})
        kind = schema.field(name).type
        d = fixed_width(kind)
        if d < 0 and n:  # lists of any length: the first row decides, and the others are checked when they are read
            check_width(path, name)
            first = next(file.iter_batches(batch_size=1, columns=[name])).column(0)[0]
            d = len(first) if first.is_valid else 0
        return ParquetArray(path, label, (n, max(d, 0)), np.dtype(kind.value_type.to_pandas_dtype()), [name], lists=True)


def is_numeric(kind: Any) -> bool:
    """Whether an Arrow type is one of integers or floats."""
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def is_list_of_numbers(kind: Any) -> bool:
    """Whether an Arrow type is one of lists of numbers or booleans."""
    import pyarrow as pa

    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(is_list and (is_numeric(kind.value_type) or pa.types.is_boolean(kind.value_type)))


def check_width(path: Path, name: str) -> None:
    """Refuse rows that are longer than those of any matrix, before one is decoded: a few bytes of Parquet can repeat a value endlessly."""
    if any(chunk.column == name and chunk.values > MAX_WIDTH * max(chunk.rows, 1) for chunk in read_chunks(path)):
        raise IsoscopeError(f"{path}: rows of {name!r} have more than {MAX_WIDTH:,} values and are refused; no matrix is so wide.")


def fixed_width(kind: Any) -> int:
    """The length of the lists of an Arrow type that fixes it, or -1."""
    return int(getattr(kind, "list_size", -1))
