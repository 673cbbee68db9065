"""Parquet files of strangers, whose pages are looked at before Arrow takes the memory that they claim.

A page says in its own header how large it will be when it is unpacked, and Arrow believes it: a few bytes can claim two gigabytes. Where
the pages lie is read from the footer here too, because pyarrow ends the whole process where it is asked for a column that is garbled.
Footer and headers are in Thrift's compact protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from isoscope.core.errors import IsoscopeError, first_line

LARGE = 1 << 28
"""Bytes that a page may claim whatever it holds; writers make pages of one megabyte, or of one document."""
UNFOLDS = 256
"""Times its size that a larger page may claim."""
LONGEST_FOOTER = 1 << 26
USUAL_HEADER, LONGEST_HEADER = 1 << 9, 1 << 16
DEEPEST = 16
ENDS = b"PAR1"
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
"""Types of Thrift's compact protocol; those between a byte and a double are numbers of as many bytes as they need."""
Fields = dict[int, Any]
T = TypeVar("T")


@contextmanager
def opened(source: Path | BinaryIO, **options: Any) -> Iterator[Any]:
    """A file, or one that is open for reading, as a Parquet file; a ValueError where a page claims more than its bytes can hold."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(source, buffer_size=1 << 20, pre_buffer=False, **options) as file:
        check_pages(source)
        yield file


@contextmanager
def open_parquet_file(path: Path, **options: Any) -> Iterator[Any]:
    """The open Parquet file. Errors that Arrow raises for a damaged file, then or while it is read, become one sentence."""
    import pyarrow as pa

    try:
        with opened(path, **options) as file:
            yield file
    except (pa.ArrowException, OSError, ValueError) as error:
        raise IsoscopeError(f"{path} is not a readable Parquet file, or is damaged ({first_line(error)}); write it again.") from error


def _bytes_of(source: Path | BinaryIO) -> AbstractContextManager[BinaryIO]:
    return source.open("rb") if isinstance(source, Path) else nullcontext(source)


@dataclass(frozen=True)
class Chunk:
    """The pages of one column in one group of rows: where they begin, their bytes, values and rows."""

    column: str
    at: int
    size: int
    values: int
    rows: int


def chunks(source: Path | BinaryIO) -> list[Chunk]:
    """All chunks of a file; a ValueError where its footer is garbled, or they claim more bytes than it has."""
    with _bytes_of(source) as file:
        whole = file.seek(0, 2)
        file.seek(max(whole - 8, 0))
        end = file.read(8)
        length = int.from_bytes(end[:4], "little")
        if end[4:] != ENDS or length > min(whole - 8, LONGEST_FOOTER):
            raise ValueError("it has no footer that can be read")
        file.seek(whole - 8 - length)
        raw = file.read(length)
    try:
        footer = Thrift(raw).struct()
    except IndexError as error:
        raise ValueError("its footer is damaged") from error
    found = [
        _chunk(_field(column, 3, dict), _field(group, 3, int)) for group in _field(footer, 4, list) for column in _field(group, 1, list)
    ]
    if any(chunk.at + chunk.size > whole for chunk in found) or sum(chunk.size for chunk in found) > whole:
        raise ValueError("its columns claim more bytes than it has")
    return found


def _field(struct: object, number: int, kind: type[T]) -> T:
    """A field of a struct in the footer; a ValueError if it is missing or has another type."""
    value = struct.get(number) if isinstance(struct, dict) else None
    if type(value) is not kind:  # a truth is an int to isinstance
        raise ValueError("its footer is damaged")
    return value


def _chunk(column: Fields, rows: int) -> Chunk:
    """The chunk that the metadata of a column describe; a ValueError if they are damaged."""
    data = _field(column, 9, int)
    dictionary = _field(column, 11, int) if 11 in column else 0
    starts = [at for at in (dictionary, data) if at]
    numbers = min(starts, default=0), _field(column, 7, int) if starts else 0, _field(column, 5, int), rows
    path = _field(column, 3, list)
    if any(number < 0 for number in numbers) or not path or not isinstance(path[0], bytes):
        raise ValueError("its footer is damaged")
    return Chunk(path[0].decode("utf-8", "replace"), *numbers)


def check_pages(source: Path | BinaryIO) -> None:
    """A ValueError where a page claims more than its bytes can hold."""
    found = chunks(source)
    with _bytes_of(source) as file:
        for chunk in found:
            at, end = chunk.at, chunk.at + chunk.size
            while at < end:
                header, length = _header(file, at, end)
                whole, stored = header.get(2), header.get(3)
                if type(whole) is not int or type(stored) is not int or stored < 0:
                    raise ValueError("the header of a page does not say how large it is")
                at += length + stored
                if at > end:
                    raise ValueError(f"a page of {stored:,} bytes ends beyond its column")
                if not 0 <= whole <= max(LARGE, UNFOLDS * stored):
                    raise ValueError(f"a page of {stored:,} bytes claims {whole:,}")


def _header(file: BinaryIO, at: int, end: int) -> tuple[Fields, int]:
    """The header of the page that begins at `at`, and its length."""
    for size in (USUAL_HEADER, LONGEST_HEADER):
        file.seek(at)
        read = Thrift(file.read(min(size, end - at)))
        try:
            return read.struct(), read.at
        except IndexError:
            continue
    raise ValueError("the header of a page has no end")


class Thrift:
    """Reads on through a struct, from its first byte; an IndexError where it does not end."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.at = raw, 0

    def struct(self, depth: int = 0) -> Fields:
        """Its values by the number of their field.

        >>> Thrift(bytes([0x15, 0, 0x15, 200, 1, 0x15, 40, 0])).struct()
        {1: 0, 2: 100, 3: 20}
        """
        if depth > DEEPEST:
            raise ValueError("it is nested too deeply")
        found: Fields = {}
        field = 0
        while True:
            byte = self.raw[self.at]
            self.at += 1
            if not byte:
                return found
            kind = byte & 15
            field = field + (byte >> 4) if byte >> 4 else self.number()
            found[field] = kind == TRUE if kind in (TRUE, FALSE) else self.value(kind, depth)

    def count(self) -> int:
        """A number of as many bytes as it needs."""
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

    def number(self) -> int:
        """The same with a sign: zigzag, so that small ones of either sign are short."""
        found = self.count()
        return (found >> 1) ^ -(found & 1)

    def value(self, kind: int, depth: int) -> Any:
        """One value of this type."""
        if BYTE < kind < DOUBLE:
            return self.number()
        if kind == BINARY:
            return self._bytes(self.count())
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in (LIST, SET):
            byte = self._bytes(1)[0]
            count = byte >> 4 if byte >> 4 < 15 else self.count()
            if count > len(self.raw) - self.at:
                raise IndexError
            return [self.value(byte & 15, depth + 1) for _ in range(count)]
        if kind in (TRUE, FALSE, BYTE):  # within a list a truth is a byte
            return self._bytes(1)[0]
        if kind == DOUBLE:
            return self._bytes(8)
        raise ValueError(f"it holds a value of type {kind}, which is not known")

    def _bytes(self, count: int) -> bytes:
        found = self.raw[self.at : self.at + count]
        if len(found) < count:
            raise IndexError
        self.at += count
        return found
