"""A matrix whose values lie uncompressed in a part of a file: read by seeking, in C or Fortran order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from isoscope.trust.arrays.array_file import ArrayFile, Block, check_length

STRIP_BYTES = 8 << 20
"""Bytes of a Fortran-ordered matrix that are gathered at once. One of its rows is spread over the whole file, so short reads are joined."""
PIECE_BYTES = 1 << 20
"""Bytes asked for in one read. The reader of a compressed file holds them a second time."""


class UncompressedArray(ArrayFile):
    """n × d values of one type, from an offset on."""

    def __init__(
        self,
        path: Path,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        offset: int,
        fortran: bool = False,
        bfloat16: bool = False,
    ) -> None:
        super().__init__(path, name, shape, np.dtype(np.float32) if bfloat16 else dtype)
        self.stored_dtype, self.offset, self.fortran, self.bfloat16 = dtype, offset, fortran, bfloat16
        check_length(path, self.n * self.d * dtype.itemsize, path.stat().st_size - offset)

    def _blocks(self, rows: int, start: int, stop: int) -> Iterator[Block]:
        with FileIO(self.path) as file:
            for block in (self._by_column if self.fortran else self._by_row)(file, rows, start, stop):
                yield widen_bfloat16(block) if self.bfloat16 else block.astype(self.dtype, order="C", copy=False)

    def _by_row(self, file: FileIO, rows: int, start: int, stop: int) -> Iterator[Block]:
        file.seek(self.offset + start * self.d * self.stored_dtype.itemsize)
        for first in range(start, stop, rows):
            block = np.empty((min(rows, stop - first), self.d), self.stored_dtype)
            read_into(block, file.readinto, self.path)
            yield block

    def _by_column(self, file: FileIO, rows: int, start: int, stop: int) -> Iterator[Block]:
        size = self.stored_dtype.itemsize
        strip = max(rows, STRIP_BYTES // (self.d * size) // rows * rows)  # a multiple of `rows`
        for first in range(start, stop, strip):
            columns = np.empty((self.d, min(strip, stop - first)), self.stored_dtype)
            for j in range(self.d):
                file.seek(self.offset + (j * self.n + first) * size)
                read_into(columns[j], file.readinto, self.path)
            for at in range(0, columns.shape[1], rows):
                yield columns[:, at : at + rows].T.copy(order="C")
            del columns  # before the next strip is allocated


def read_into(target: np.ndarray[Any, Any], readinto: Callable[[memoryview], int | None], path: Path) -> None:
    """Read until `target`, which is contiguous, is full. One read may return less than asked for."""
    view = target.view(np.uint8).data.cast("B")
    done = 0
    while done < len(view):
        count = readinto(view[done : done + PIECE_BYTES])
        if not count:  # the file ends before its values do
            check_length(path, len(view), done)
        done += count or 0


def widen_bfloat16(block: np.ndarray[Any, Any]) -> Block:
    """bfloat16, read as 16-bit integers, as float32 of the same value: its bits are the upper half of that number's."""
    wide = block.astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)
