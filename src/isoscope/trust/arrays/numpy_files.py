"""NumPy's .npy, and .npz, a zip archive of .npy members.

An uncompressed member is a part of the archive and is read by seeking. A compressed one can only be read from its start: in C order it is
streamed; in Fortran order, where a row is spread over the whole member, it is first unpacked into a temporary file.
"""

from __future__ import annotations

import errno
import shutil
import struct
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from isoscope.core.errors import IsoscopeError, first_line
from isoscope.trust.arrays.array_file import ArrayFile, Block, UncompressedArray, check_length, choose_array, read_into

LOCAL_HEADER = struct.Struct("<4s5H3L2H")
MAX_MEMBERS = 10_000
MAX_RATIO = 1100
"""The largest ratio at which deflate can compress. A member that claims more is forged."""


@dataclass(frozen=True)
class NpyHeader:
    """The header before the values, and its length in bytes."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    length: int


def read_npy_header(file: IO[bytes], shown: str) -> NpyHeader:
    """The header at the start of `file`, which errors call `shown`. NumPy parses it as a literal; nothing is unpickled."""
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
        else:
            raise IsoscopeError(f"{shown} is a structured array (.npy version {version[0]}); save a plain float32 matrix.")
    except (ValueError, EOFError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError, tokenize.TokenError) as error:
        reason = first_line(error)
        raise IsoscopeError(
            f"{shown} is not an .npy array: its header cannot be read ({reason}); save it again with numpy.save."
        ) from error
    return NpyHeader(shape, fortran, dtype, file.tell())


def open_npy(path: Path, key: str | None = None) -> UncompressedArray:
    """The array in an .npy file. It has no name, so a key is refused."""
    if key is not None:
        raise IsoscopeError(f"{path} holds one array without a name; leave out the key {key!r}.")
    with path.open("rb") as file:
        header = read_npy_header(file, str(path))
    return UncompressedArray(path, path.name, header.shape, header.dtype, header.length, header.fortran)


@contextmanager
def zip_errors_as_user_errors(path: Path, writer: str = "numpy.savez") -> Iterator[None]:
    """Report in one sentence what zipfile and zlib raise for a damaged, encrypted or exotic archive."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, struct.error, ValueError, OverflowError, LookupError, OSError) as error:
        # An OSError of the disk names a file or has a number; one of a seek to an impossible place does not, or has EINVAL.
        if isinstance(error, OSError) and (error.filename or error.errno not in (errno.EINVAL, None)):
            raise
        raise IsoscopeError(
            f"{path} is not a readable {path.suffix} archive, or is damaged ({error}); save it again with {writer}."
        ) from error


class CompressedArray(ArrayFile):
    """A compressed member."""

    def __init__(self, path: Path, name: str, member: str, header: NpyHeader) -> None:
        super().__init__(path, name, header.shape, header.dtype)
        self.member, self.header = member, header

    def _blocks(self, rows: int, start: int, stop: int) -> Iterator[Block]:
        with zip_errors_as_user_errors(self.path), zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
            if self.header.fortran:
                yield from self._unpack(file, rows, start, stop)
                return
            # A deflated stream has no index: the rows before `start` are unpacked and thrown away.
            skip_bytes(file, self.header.length + start * self.d * self.header.dtype.itemsize)
            for first in range(start, stop, rows):
                block = np.empty((min(rows, stop - first), self.d), self.header.dtype)
                read_into(block, file.readinto, self.path)  # type: ignore[attr-defined]
                yield block.astype(self.dtype, copy=False)

    def _unpack(self, file: IO[bytes], rows: int, start: int, stop: int) -> Iterator[Block]:
        header = self.header
        with tempfile.NamedTemporaryFile(suffix=".npy") as spool:
            needed, room = header.length + self.n * self.d * header.dtype.itemsize, shutil.disk_usage(spool.name).free
            if needed > room // 2:  # others need the disk too
                folder = Path(spool.name).parent
                raise IsoscopeError(f"{self.path} unfolds to {needed:,} bytes, and {folder} has {room:,}; save it again in C order.")
            while needed > 0 and (piece := file.read(min(needed, 1 << 20))):
                spool.write(piece)
                needed -= len(piece)
            spool.flush()
            unpacked = UncompressedArray(Path(spool.name), self.name, header.shape, header.dtype, header.length, fortran=True)
            yield from unpacked.blocks(rows, start, stop)


def skip_bytes(file: IO[bytes], size: int) -> None:
    """Read past `size` bytes, a megabyte at a time."""
    while size > 0 and (count := len(file.read(min(size, 1 << 20)))):
        size -= count


def check_member(path: Path, info: zipfile.ZipInfo) -> None:
    """Refuse a member that numpy does not write, or that claims to hold more than its bytes can."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise IsoscopeError(f"{path} holds {info.filename} in a compression that numpy does not write; save it again with numpy.savez.")
    most = info.compress_size if info.compress_type == zipfile.ZIP_STORED else MAX_RATIO * info.compress_size + 1024
    if info.compress_size > path.stat().st_size or info.file_size > most:
        raise IsoscopeError(f"{path} claims that {info.filename} has {info.file_size:,} bytes, which it cannot; save it again.")


def open_npz(path: Path, key: str | None = None) -> ArrayFile:
    """The member that `key` names (without .npy), or the only matrix among the members."""
    with zip_errors_as_user_errors(path), zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist() if info.filename.endswith(".npy")}
        if len(members) > MAX_MEMBERS:
            raise IsoscopeError(
                f"{path} holds {len(members):,} arrays, and {MAX_MEMBERS:,} is the most that is read; save fewer in one file."
            )
        # All headers are read, because only they tell which member is the matrix.
        headers = dict[str, NpyHeader]()
        for info in members.values():  # before any is opened: a forged size must not be unpacked
            check_member(path, info)
        for name, info in members.items():
            with archive.open(info) as file:
                headers[name] = read_npy_header(file, f"{path}, member {name}")
    name, label = choose_array(path, key, {name: header.shape for name, header in headers.items()})
    header, info = headers[name], members[name]
    if info.compress_type == zipfile.ZIP_STORED:
        offset = offset_of_member(path, info) + header.length
        matrix: ArrayFile = UncompressedArray(path, label, header.shape, header.dtype, offset, header.fortran)
    else:
        matrix = CompressedArray(path, label, info.filename, header)
    check_length(path, matrix.n * matrix.d * header.dtype.itemsize, info.file_size - header.length)
    return matrix


def offset_of_member(path: Path, info: zipfile.ZipInfo, writer: str = "numpy.savez") -> int:
    """Where the bytes of a member begin: after a local header, whose name and extra field may differ from those of the directory."""
    with path.open("rb") as raw, zip_errors_as_user_errors(path, writer):
        raw.seek(info.header_offset)
        *_, name_length, extra_length = LOCAL_HEADER.unpack(raw.read(LOCAL_HEADER.size))
    return int(info.header_offset + LOCAL_HEADER.size + name_length + extra_length)
