"""NumPy's .npz: a zip archive of .npy members.

A stored member is a stretch of the archive and is read by seeking. A deflated one can only be read from its start: in C order it
is streamed; in Fortran order, where a row is spread over the whole member, it is first unpacked into a temporary file.
"""

from __future__ import annotations

import errno
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.sources.arrays.file import ArrayFile, Block, choose
from isoscope.sources.arrays.npy import Header, read_header
from isoscope.sources.arrays.region import Region, fill, truncated

LOCAL_HEADER = struct.Struct("<4s5H3L2H")
MEMBERS = 10_000
"""More arrays than an .npz has."""
RATIO = 1100
"""Times its size to which deflate can unfold a member; whoever claims more does not tell the truth."""


@contextmanager
def sound(path: Path) -> Iterator[None]:
    """Say in one sentence what zipfile and zlib raise for a damaged, encrypted or exotic archive."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, struct.error, ValueError, OverflowError, LookupError) as error:
        raise IsoscopeError(f"{path} is not a readable .npz archive, or is damaged ({error}); save it again with numpy.savez.") from error
    except OSError as error:
        if error.filename or error.errno not in (errno.EINVAL, None):  # of the disk, and not of a place that cannot be
            raise
        raise IsoscopeError(f"{path} is not a readable .npz archive, or is damaged ({error}); save it again with numpy.savez.") from error


class Deflated(ArrayFile):
    """A compressed member."""

    def __init__(self, path: Path, name: str, member: str, header: Header) -> None:
        super().__init__(path, name, header.shape, header.dtype)
        self.member, self.header = member, header

    def _blocks(self, rows: int, start: int, stop: int) -> Iterator[Block]:
        with sound(self.path), zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
            if self.header.fortran:
                yield from self._unpacked(file, rows, start, stop)
                return
            skip(file, self.header.length + start * self.d * self.header.dtype.itemsize)
            for first in range(start, stop, rows):
                block = np.empty((min(rows, stop - first), self.d), self.header.dtype)
                fill(file.readinto, block, self.path)  # type: ignore[attr-defined]
                yield block.astype(self.dtype, copy=False)

    def _unpacked(self, file: IO[bytes], rows: int, start: int, stop: int) -> Iterator[Block]:
        header = self.header
        with tempfile.NamedTemporaryFile(suffix=".npy") as spool:
            needed, room = header.length + self.n * self.d * header.dtype.itemsize, shutil.disk_usage(spool.name).free
            if needed > room // 2:
                raise IsoscopeError(
                    f"{self.path} unfolds to {needed:,} bytes, and {Path(spool.name).parent} has {room:,}; save it anew in C order."
                )
            while needed > 0 and (piece := file.read(min(needed, 1 << 20))):
                spool.write(piece)
                needed -= len(piece)
            spool.flush()
            yield from Region(Path(spool.name), self.name, header.shape, header.dtype, header.length, fortran=True).blocks(
                rows, start, stop
            )


def skip(file: IO[bytes], size: int) -> None:
    """Read on by `size` bytes, a little at a time."""
    while size > 0 and (got := len(file.read(min(size, 1 << 20)))):
        size -= got


def check_member(path: Path, info: zipfile.ZipInfo) -> None:
    """Refuse a member that numpy would not write, or that claims to hold more than its bytes can."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise IsoscopeError(f"{path} holds {info.filename} in a compression that numpy does not write; save it again with numpy.savez.")
    most = info.compress_size if info.compress_type == zipfile.ZIP_STORED else RATIO * info.compress_size + 1024
    if info.compress_size > path.stat().st_size or info.file_size > most:
        raise IsoscopeError(f"{path} claims that {info.filename} has {info.file_size:,} bytes, which it cannot; save it again.")


def open_npz(path: Path, key: str | None = None) -> ArrayFile:
    """The member that `key` names (without .npy), or the only matrix among the members."""
    with sound(path), zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist() if info.filename.endswith(".npy")}
        if len(members) > MEMBERS:
            raise IsoscopeError(f"{path} holds {len(members):,} arrays, and {MEMBERS:,} is the most that is read; save fewer in one file.")
        for info in members.values():
            check_member(path, info)
        headers = dict[str, Header]()
        for name, info in members.items():
            with archive.open(info) as file:
                headers[name] = read_header(file, f"{path}, member {name}")
    name = choose(path, key, {name: header.shape for name, header in headers.items()})
    header, info = headers[name], members[name]
    label = path.name if len(headers) == 1 else f"{path.name}:{name}"
    if info.compress_type == zipfile.ZIP_STORED:
        with path.open("rb") as raw, sound(path):
            raw.seek(info.header_offset)
            *_, name_length, extra_length = LOCAL_HEADER.unpack(raw.read(LOCAL_HEADER.size))
        offset = info.header_offset + LOCAL_HEADER.size + name_length + extra_length + header.length
        matrix: ArrayFile = Region(path, label, header.shape, header.dtype, offset, header.fortran)
    else:
        matrix = Deflated(path, label, info.filename, header)
    needed, there = matrix.n * matrix.d * header.dtype.itemsize, info.file_size - header.length
    if there < needed:
        raise truncated(path, needed, there)
    return matrix
