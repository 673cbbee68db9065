"""Matrices on disk, read in blocks of rows: their shape, blocks and fingerprint, and the checks that all formats share."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from isoscope.core.errors import IsoscopeError, nearest

MAX_LENGTH = 1 << 48
"""Rows or columns beyond which a header is not believed."""
MAX_BLOCK_BYTES = 256 << 20
"""Bytes of a block. Of a very wide matrix a block has fewer rows than were asked for."""
STRIP_BYTES = 8 << 20
"""Bytes of a Fortran-ordered matrix that are gathered at once. One of its rows is spread over the whole file, so short reads are joined."""
PIECE_BYTES = 1 << 20
"""Bytes asked for in one read. The reader of a compressed file holds them a second time."""
Block = np.ndarray[tuple[int, int], np.dtype[Any]]


class ArrayFile(ABC):
    """A matrix of n rows (points) and d columns (dimensions) in a file."""

    def __init__(self, path: Path, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.path, self.name = path, name
        self.n, self.d = check_shape(path, shape)
        self.dtype = block_dtype(path, dtype)
        """The type of the blocks: as stored for floats of 16, 32 or 64 bits, else the smallest float that holds the values exactly."""

    @abstractmethod
    def _blocks(self, rows: int, start: int, stop: int) -> Iterator[Block]:
        """The rows from start to stop, at most `rows` at a time, in `self.dtype`, each block an array of its own."""

    def blocks(self, rows: int = 4096, start: int = 0, stop: int | None = None) -> Iterator[Block]:
        """The rows from start to stop, at most `rows` at a time: arrays (≤ rows, d) that the caller may keep and change."""
        if rows < 1:
            raise IsoscopeError(f"The number of rows in a block must be at least 1; got {rows}.")
        start, stop, _ = slice(start, stop).indices(self.n)
        # Eight bytes per value, the widest type of a block, so that the bound holds whatever is stored.
        return self._blocks(max(1, min(rows, MAX_BLOCK_BYTES // (self.d * 8))), start, stop)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over shape, type and values, row by row: a matrix has the same fingerprint in every format and byte order."""
        digest = hashlib.sha256(f"{self.n} {self.d} {self.dtype.name}\n".encode())
        for block in self.blocks():
            little_endian = np.ascontiguousarray(block, dtype=block.dtype.newbyteorder("<"))
            digest.update(little_endian.data.cast("B"))
        return digest.hexdigest()


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
        # One seek per column and strip instead of one per column and block. A multiple of `rows`, so that no block spans two strips.
        strip = max(rows, STRIP_BYTES // (self.d * size) // rows * rows)
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


def block_dtype(path: Path, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The native float type of the blocks for stored values of `dtype`. Anything but real numbers is refused."""
    if dtype.hasobject:
        raise IsoscopeError(f"{path} holds pickled Python objects, which are never loaded; save the matrix as plain float32.")
    if dtype.kind not in "fiub":
        raise IsoscopeError(f"{path} holds values of type {dtype}, and a matrix of real numbers is expected; save it as float32.")
    # float32 holds integers of 16 bits exactly; wider ones need float64, which rounds beyond 2⁵³ only.
    if dtype.kind == "f":
        return np.dtype(np.float64) if dtype.itemsize > 8 else dtype.newbyteorder("=")
    return np.dtype(np.float32) if dtype.itemsize <= 2 else np.dtype(np.float64)


def check_shape(path: Path, shape: tuple[int, ...]) -> tuple[int, int]:
    """(n, d), or an error that names the shape."""
    if len(shape) != 2:
        raise IsoscopeError(f"{path} holds an array of shape {shape}, and (n, d) is expected; reshape it and save it again.")
    if max(shape) > MAX_LENGTH:
        raise IsoscopeError(f"{path} claims an array of shape {shape}, which no disk holds; copy or save it again.")
    if min(shape) < 1:
        raise IsoscopeError(f"{path} holds an array of shape {shape}, without a single value; at least one row and one column are needed.")
    return shape[0], shape[1]


def check_length(path: Path, needed: int, present: int) -> None:
    """Refuse a file that holds fewer bytes than its header promises."""
    if present < needed:
        raise IsoscopeError(
            f"{path} is truncated: {needed} bytes of values are promised, {max(present, 0)} are there; copy or save it again."
        )


def choose_array(path: Path, key: str | None, shapes: dict[str, tuple[int, ...]]) -> tuple[str, str]:
    """The array that `key` names, or the only matrix among several arrays; and how the matrix is called in tables."""
    name = _choose_name(path, key, shapes)
    return name, path.name if len(shapes) == 1 else f"{path.name}:{name}"


def _choose_name(path: Path, key: str | None, shapes: dict[str, tuple[int, ...]]) -> str:
    if key is not None and key in shapes:
        return key
    listed = ", ".join(f"{name} {shape}" for name, shape in list(shapes.items())[:20]) + (", …" if len(shapes) > 20 else "")
    if key is not None:
        raise IsoscopeError(f"{path} has no array called {key!r}{nearest(key, list(shapes)).rstrip('?')}; it holds {listed or 'none'}.")
    matrices = [name for name, shape in shapes.items() if len(shape) == 2]
    if len(matrices) == 1:
        return matrices[0]
    if not shapes:
        raise IsoscopeError(f"{path} holds no array; a matrix of shape (n, d) is expected.")
    if not matrices and len(shapes) == 1:
        return next(iter(shapes))  # check_shape explains what is wrong with it
    if not matrices:
        raise IsoscopeError(f"{path} holds no matrix of shape (n, d); its arrays are {listed}.")
    raise IsoscopeError(f"{path} holds several matrices: {listed}; choose one with --key.")
