"""Opening Parquet files of a user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError, first_line
from isoscope.trust.parquet_layout import opened


@contextmanager
def open_parquet_file(path: Path, **options: Any) -> Iterator[Any]:
    """The open Parquet file. Errors that Arrow raises for a damaged file, then or while it is read, become one sentence."""
    import pyarrow as pa

    try:
        with opened(path, **options) as file:
            yield file
    except (pa.ArrowException, OSError, ValueError) as error:
        raise IsoscopeError(f"{path} is not a readable Parquet file, or is damaged ({first_line(error)}); write it again.") from error
