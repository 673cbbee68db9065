"""A matrix that lies uncompressed in a stretch of a file: read by seeking, in either memory order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import FileIO, RawIOBase
from pathlib import Path
from typing import IO, Any

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.sources.arrays.file import ArrayFile, Block

STRIP = 8 << 20
"""Bytes of a Fortran-ordered matrix gathered at once: a row of it is spread over the whole file, so short reads are made long."""

PIECE = 1 << 20
"""Bytes asked for in one read: the reader of a compressed file makes them once more before it hands them over."""


class Region(ArrayFile):
    """n × d values of one type from an offset on."""

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
        self.stored, self.offset, self.fortran, self.bfloat16 = dtype, offset, fortran, bfloat16
        there, needed = path.stat().st_size - offset, self.n * self.d * dtype.itemsize
        if there < needed:
            raise truncated(path, needed, there)

    def _open(self) -> RawIOBase | IO[bytes]:
        return FileIO(self.path)

    def _blocks(self, rows: int, start: int, stop: int) -> Iterator[Block]:
        with self._open() as file:
            for block in (self._by_column if self.fortran else self._by_row)(file, rows, start, stop):
                yield widened(block) if self.bfloat16 else block.astype(self.dtype, order="C", copy=False)

    def _by_row(self, file: RawIOBase | IO[bytes], rows: int, start: int, stop: int) -> Iterator[Block]:
        file.seek(self.offset + start * self.d * self.stored.itemsize)
        for first in range(start, stop, rows):
            block = np.empty((min(rows, stop - first), self.d), self.stored)
            fill(file.readinto, block, self.path)  # type: ignore[union-attr]
            yield block

    def _by_column(self, file: RawIOBase | IO[bytes], rows: int, start: int, stop: int) -> Iterator[Block]:
        size = self.stored.itemsize
        strip = max(rows, STRIP // (self.d * size) // rows * rows)
        for first in range(start, stop, strip):
            columns = np.empty((self.d, min(strip, stop - first)), self.stored)
            for j in range(self.d):
                file.seek(self.offset + (j * self.n + first) * size)
                fill(file.readinto, columns[j], self.path)  # type: ignore[union-attr]
            for at in range(0, columns.shape[1], rows):
                yield columns[:, at : at + rows].T.copy(order="C")
            del columns


def fill(readinto: Callable[[memoryview], int | None], target: np.ndarray[Any, Any], path: Path) -> None:
    """Read until `target`, which is contiguous, is full; a read may give less than asked for."""
    view = target.view(np.uint8).data.cast("B")
    done = 0
    while done < len(view):
        got = readinto(view[done : done + PIECE])
        if not got:
            raise truncated(path, len(view), done)
        done += got


def widened(block: np.ndarray[Any, Any]) -> Block:
    """bfloat16, read as 16-bit integers, as the float32 of the same value: its bits are the upper half of that number's."""
    wide = block.astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)


def truncated(path: Path, needed: int, there: int) -> IsoscopeError:
    """The file's header promises more than the file holds."""
    return IsoscopeError(f"{path} is truncated: {needed} bytes of values are promised, {max(there, 0)} are there; copy or save it again.")
