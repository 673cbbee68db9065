"""Parquet: a column of lists of equal length, each a row of the matrix; or numeric columns, each a dimension."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.parquet import chunks, opened
from isoscope.sources.arrays.file import ArrayFile, Block, block_dtype, choose

WIDEST = 1 << 24
"""Values of a row, on average over a group of rows."""


@contextmanager
def sound(path: Path) -> Iterator[Any]:
    """The open file; what Arrow raises for a damaged one, in one sentence."""
    import pyarrow as pa

    try:
        with opened(path) as file:
            yield file
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise IsoscopeError(f"{path} is not a readable Parquet file, or is damaged ({reason}); write it anew.") from error


class Columns(ArrayFile):
    """One column of lists, or several of numbers."""

    def __init__(self, path: Path, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], columns: list[str], lists: bool) -> None:
        super().__init__(path, name, shape, dtype)
        self.columns, self.lists = columns, lists

    def _blocks(self, rows: int, start: int, stop: int) -> Iterator[Block]:
        with sound(self.path) as file:
            groups, at = list[int](), 0
            first = 0
            for group in range(file.num_row_groups):
                end = at + file.metadata.row_group(group).num_rows
                if end <= start:
                    first = end
                elif at < stop:
                    groups.append(group)
                at = end
            for batch in file.iter_batches(batch_size=rows, row_groups=groups, columns=self.columns):
                low, high = max(start - first, 0), min(stop - first, batch.num_rows)
                if low < high:
                    yield self._block(batch.slice(low, high - low), first + low)
                first += batch.num_rows

    def _block(self, batch: Any, row: int) -> Block:
        block = np.empty((batch.num_rows, self.d), self.dtype)
        if self.lists:
            block[:] = self._values(batch.column(0), self.columns[0], row).reshape(batch.num_rows, self.d)
            return block
        for j, name in enumerate(self.columns):
            column = batch.column(batch.schema.get_field_index(name))
            self._refuse_null(column, name, row, 1)
            block[:, j] = column.to_numpy(zero_copy_only=False)
        return block

    def _values(self, column: Any, name: str, row: int) -> np.ndarray[Any, Any]:
        """The lists' values end to end, once every list is known to have d of them."""
        import pyarrow.compute as pc

        self._refuse_null(column, name, row, 1)
        lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
        ragged = np.flatnonzero(lengths != self.d)
        if len(ragged):
            i = int(ragged[0])
            raise IsoscopeError(
                f"{self.path}: row {row + i} of {name!r} has {lengths[i]} values; all rows must have as many, here {self.d}."
            )
        values = column.flatten()
        self._refuse_null(values, name, row, self.d)
        return np.asarray(values.to_numpy(zero_copy_only=False))

    def _refuse_null(self, column: Any, name: str, row: int, width: int) -> None:
        if column.null_count:
            i = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]) // width
            raise IsoscopeError(f"{self.path}: row {row + i} of {name!r} has a missing value; leave such rows out or fill them.")


def open_parquet(path: Path, key: str | None = None) -> Columns:
    """The column of lists that `key` names, the only one there is, or else all numeric columns side by side."""
    import pyarrow as pa

    def numeric(kind: Any) -> bool:
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))

    def is_list(kind: Any) -> bool:
        lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
        return bool(lists and (numeric(kind.value_type) or pa.types.is_boolean(kind.value_type)))

    with sound(path) as file:
        n, schema = file.metadata.num_rows, file.schema_arrow
        if len(set(schema.names)) < len(schema.names):
            raise IsoscopeError(f"{path} has two columns of one name; name them apart.")
        lists = [field.name for field in schema if is_list(field.type)]
        if key is None and not lists:
            # an index that pandas wrote down is not a dimension
            columns = [field.name for field in schema if numeric(field.type) and not field.name.startswith("__index_level_")]
            if not columns:
                raise IsoscopeError(f"{path} has no column of numbers or of lists of numbers; its columns are {', '.join(schema.names)}.")
            types = [block_dtype(path, np.dtype(schema.field(name).type.to_pandas_dtype())) for name in columns]
            return Columns(path, path.name, (n, len(columns)), np.result_type(*types), columns, lists=False)
        if key in schema.names and key not in lists:
            raise IsoscopeError(f"{path}: the column {key!r} holds {schema.field(key).type}, and lists of numbers are expected.")
        name = choose(path, key, {name: (n, width(schema.field(name).type)) for name in lists})
        kind = schema.field(name).type
        d = width(kind)
        if d < 0 and n:
            check_width(path, name)
            first = next(file.iter_batches(batch_size=1, columns=[name])).column(0)[0]
            d = len(first) if first.is_valid else 0
        label = path.name if len(lists) == 1 else f"{path.name}:{name}"
        return Columns(path, label, (n, max(d, 0)), np.dtype(kind.value_type.to_pandas_dtype()), [name], lists=True)


def check_width(path: Path, name: str) -> None:
    """Refuse rows so long that no matrix has them, before the first is decoded: a few bytes of Parquet can repeat a value without end."""
    if any(chunk.column == name and chunk.values > WIDEST * max(chunk.rows, 1) for chunk in chunks(path)):
        raise IsoscopeError(f"{path}: rows of {name!r} have more than {WIDEST:,} values and are refused; no matrix is so wide.")


def width(kind: Any) -> int:
    """The length that a list type fixes, or -1."""
    return int(getattr(kind, "list_size", -1))
