"""Parquet files of strangers: their pages are checked before Arrow allocates the memory that they claim.

The header of a page states how large it will be when it is unpacked, and Arrow believes it: a few bytes can claim two gigabytes. The places
of the pages are read from the footer here too, because pyarrow ends the whole process if it is asked for a garbled column. Footer and
headers are in Thrift's compact protocol.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from isoscope.core.errors import IsoscopeError, first_line

LARGE = 1 << 28
"""Bytes that any page may claim; writers make pages of one megabyte, or of one document."""
UNFOLDS = 256
"""The ratio of claimed to stored bytes of a larger page."""
LONGEST_FOOTER = 1 << 26
USUAL_HEADER, LONGEST_HEADER = 1 << 9, 1 << 16
DEEPEST = 16
ENDS = b"PAR1"
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
"""Types of Thrift's compact protocol; those between a byte and a double are integers of variable length."""
Fields = dict[int, Any]
T = TypeVar("T")


@contextmanager
def open_checked_parquet(source: Path | BinaryIO, groups: Collection[int] | None = None, **options: Any) -> Iterator[Any]:
    """A path, or a file open for reading, as a Parquet file; raises a ValueError if a page claims more than its bytes can hold.

    `groups`: the numbers of the row groups that will be read; by default all pages are checked.
    """
    import pyarrow.parquet as pq

    with pq.ParquetFile(source, buffer_size=1 << 20, pre_buffer=False, **options) as file:
        check_pages(source, groups)
        yield file


@contextmanager
def open_parquet_file(path: Path, **options: Any) -> Iterator[Any]:
    """The same for a file of a user: errors that Arrow raises for a damaged file, now or while it is read, become one sentence."""
    import pyarrow as pa

    try:
        with open_checked_parquet(path, **options) as file:
            yield file
    except (pa.ArrowException, OSError, ValueError) as error:
        raise IsoscopeError(f"{path} is not a readable Parquet file, or is damaged ({first_line(error)}); write it again.") from error


def _open_bytes(source: Path | BinaryIO) -> AbstractContextManager[BinaryIO]:
    # Without a buffer: next to the header of a page it would read the beginning of the page.
    return cast(BinaryIO, source.open("rb", buffering=0)) if isinstance(source, Path) else nullcontext(source)


@dataclass(frozen=True)
class Chunk:
    """The pages of one column in one row group: where they begin, their bytes, values and rows, and the number of the group."""

    column: str
    at: int
    size: int
    values: int
    rows: int
    group: int


def read_chunks(source: Path | BinaryIO) -> list[Chunk]:
    """All chunks of a file; raises a ValueError if its footer is garbled or claims more bytes than the file has."""
    with _open_bytes(source) as file:
        file_size = file.seek(0, 2)
        file.seek(max(file_size - 8, 0))
        end = file.read(8)
        length = int.from_bytes(end[:4], "little")
        if end[4:] != ENDS or length > min(file_size - 8, LONGEST_FOOTER):
            raise ValueError("it has no footer that can be read")
        file.seek(file_size - 8 - length)
        raw = file.read(length)
    try:
        footer = Thrift(raw).read_struct()
    except IndexError as error:
        raise ValueError("its footer is damaged") from error
    chunks = [
        _describe_chunk(_require_field(column, 3, dict), _require_field(group, 3, int), number)
        for number, group in enumerate(_require_field(footer, 4, list))
        for column in _require_field(group, 1, list)
    ]
    if any(chunk.at + chunk.size > file_size for chunk in chunks) or sum(chunk.size for chunk in chunks) > file_size:
        raise ValueError("its columns claim more bytes than it has")
    return chunks


def _require_field(struct: object, number: int, kind: type[T]) -> T:
    """A field of a struct in the footer; a ValueError if it is missing or has another type."""
    value = struct.get(number) if isinstance(struct, dict) else None
    if type(value) is not kind:  # isinstance would take a bool for an int
        raise ValueError("its footer is damaged")
    return value


def _describe_chunk(column: Fields, rows: int, group: int) -> Chunk:
    """The chunk that the metadata of a column describes; raises a ValueError if it is damaged."""
    data = _require_field(column, 9, int)
    dictionary = _require_field(column, 11, int) if 11 in column else 0
    starts = [at for at in (dictionary, data) if at]
    numbers = min(starts, default=0), _require_field(column, 7, int) if starts else 0, _require_field(column, 5, int), rows
    path = _require_field(column, 3, list)
    if any(number < 0 for number in numbers) or not path or not isinstance(path[0], bytes):
        raise ValueError("its footer is damaged")
    return Chunk(path[0].decode("utf-8", "replace"), *numbers, group)


def check_pages(source: Path | BinaryIO, groups: Collection[int] | None = None) -> None:
    """Raise a ValueError if a page of these row groups, by default of all, claims more than its bytes can hold."""
    if groups is not None and not groups:
        return
    chunks = [chunk for chunk in read_chunks(source) if groups is None or chunk.group in groups]
    with _open_bytes(source) as file:
        for chunk in chunks:
            at, end = chunk.at, chunk.at + chunk.size
            while at < end:
                header, length = _read_page_header(file, at, end)
                unpacked, stored = header.get(2), header.get(3)
                if type(unpacked) is not int or type(stored) is not int or stored < 0:
                    raise ValueError("the header of a page does not say how large it is")
                at += length + stored
                if at > end:
                    raise ValueError(f"a page of {stored:,} bytes ends beyond its column")
                if not 0 <= unpacked <= max(LARGE, UNFOLDS * stored):
                    raise ValueError(f"a page of {stored:,} bytes claims {unpacked:,}")


def _read_page_header(file: BinaryIO, at: int, end: int) -> tuple[Fields, int]:
    """The header of the page that begins at `at`, and its length."""
    for size in (USUAL_HEADER, LONGEST_HEADER):
        file.seek(at)
        reader = Thrift(file.read(min(size, end - at)))
        try:
            return reader.read_struct(), reader.at
        except IndexError:
            continue
    raise ValueError("the header of a page has no end")


class Thrift:
    """Reads a struct from its first byte; raises an IndexError if it does not end."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.at = raw, 0

    def read_struct(self, depth: int = 0) -> Fields:
        """The values of a struct by the number of their field.

        >>> Thrift(bytes([0x15, 0, 0x15, 200, 1, 0x15, 40, 0])).read_struct()
        {1: 0, 2: 100, 3: 20}
        """
        if depth > DEEPEST:
            raise ValueError("it is nested too deeply")
        fields: Fields = {}
        field = 0
        while True:
            byte = self.raw[self.at]
            self.at += 1
            if not byte:
                return fields
            kind = byte & 15
            # The upper half is the distance to the previous field's number, or 0 if the number itself follows.
            field = field + (byte >> 4) if byte >> 4 else self.read_number()
            fields[field] = kind == TRUE if kind in (TRUE, FALSE) else self.read_value(kind, depth)

    def read_count(self) -> int:
        """Read an unsigned number of variable length: seven bits per byte, the lowest first."""
        value = shift = 0
        while True:
            byte = self.raw[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("it holds a number without end")

    def read_number(self) -> int:
        """Read a signed number: in zigzag order, 0, −1, 1, −2, so that small ones of either sign are short."""
        count = self.read_count()
        return (count >> 1) ^ -(count & 1)

    def read_value(self, kind: int, depth: int) -> Any:
        """Read one value of this type."""
        if BYTE < kind < DOUBLE:
            return self.read_number()
        if kind == BINARY:
            return self._read_bytes(self.read_count())
        if kind == STRUCT:
            return self.read_struct(depth + 1)
        if kind in (LIST, SET):
            byte = self._read_bytes(1)[0]
            count = byte >> 4 if byte >> 4 < 15 else self.read_count()
            if count > len(self.raw) - self.at:
                raise IndexError
            return [self.read_value(byte & 15, depth + 1) for _ in range(count)]
        if kind in (TRUE, FALSE, BYTE):  # within a list, a truth value is a byte
            return self._read_bytes(1)[0]
        if kind == DOUBLE:
            return self._read_bytes(8)
        raise ValueError(f"it holds a value of type {kind}, which is not known")

    def _read_bytes(self, count: int) -> bytes:
        piece = self.raw[self.at : self.at + count]
        if len(piece) < count:
            raise IndexError
        self.at += count
        return piece
