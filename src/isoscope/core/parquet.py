"""Parquet files of strangers, whose pages are looked at before Arrow takes the memory that they claim.

A page says in its own header how large it will be when it is unpacked, and Arrow believes it: a few bytes can claim two gigabytes. Headers
are Thrift's compact protocol; of each only the first numbers matter here, and the rest is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

LARGE = 1 << 28
"""Bytes that a page may claim whatever it holds; writers make pages of one megabyte, or of one document."""
UNFOLDS = 256
"""Times its size that a larger page may claim."""
USUAL_HEADER, LONGEST_HEADER = 1 << 9, 1 << 16
DEEPEST = 16
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
"""Types of Thrift's compact protocol; those between a byte and a double are numbers of as many bytes as they need."""


@contextmanager
def opened(path: Path, **options: Any) -> Iterator[Any]:
    """The file, open; a ValueError where a page claims more than its bytes can hold."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False, **options) as file:
        check_pages(path, file.metadata)
        yield file


def check_pages(path: Path, metadata: Any) -> None:
    """A ValueError where a page claims more than its bytes can hold."""
    left = path.stat().st_size
    with path.open("rb") as file:
        for group in range(metadata.num_row_groups):
            row_group = metadata.row_group(group)
            for column in range(row_group.num_columns):
                chunk = row_group.column(column)
                left -= max(chunk.total_compressed_size, 0)
                if left < 0:
                    raise ValueError("its columns claim more bytes than it has")
                starts = [at for at in (chunk.dictionary_page_offset, chunk.data_page_offset) if at]
                if starts:
                    _check_chunk(file, min(starts), chunk.total_compressed_size)


def _check_chunk(file: BinaryIO, at: int, size: int) -> None:
    end = at + size
    while at < end:
        found = _read(file, at, min(USUAL_HEADER, end - at)) or _read(file, at, min(LONGEST_HEADER, end - at))
        if found is None:
            raise ValueError("the header of a page has no end")
        header, (whole, stored) = found
        at += header.at + stored
        if stored < 0 or at > end:
            raise ValueError(f"a page of {stored:,} bytes ends beyond its column")
        if not 0 <= whole <= max(LARGE, UNFOLDS * stored):
            raise ValueError(f"a page of {stored:,} bytes claims {whole:,}")


def _read(file: BinaryIO, at: int, size: int) -> tuple[Header, tuple[int, int]] | None:
    """The header of the page that begins at `at`, and its sizes; None where it is longer than `size`."""
    file.seek(at)
    header = Header(file.read(size))
    try:
        return header, header.sizes()
    except IndexError:
        return None


class Header:
    """The header of a page."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.at = raw, 0

    def sizes(self) -> tuple[int, int]:
        """Bytes of the page when it is unpacked, and as it is stored; then `at` is where the page begins.

        >>> Header(bytes([0x15, 0, 0x15, 200, 1, 0x15, 40, 0])).sizes()
        (100, 20)
        """
        found: dict[int, int] = {}
        self._struct(found, 0)
        if 2 not in found or 3 not in found:
            raise ValueError("the header of a page does not say how large it is")
        return found[2], found[3]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.raw[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("the header of a page holds a number without end")

    def _struct(self, found: dict[int, int], depth: int) -> None:
        """Pass over a struct; the outermost one's numbers are kept by their field."""
        if depth > DEEPEST:
            raise ValueError("the header of a page is nested too deeply")
        field = 0
        while (byte := self.raw[self.at]) != 0:
            self.at += 1
            kind = byte & 15
            field = field + (byte >> 4) if byte >> 4 else _signed(self._varint())
            if BYTE < kind < DOUBLE:
                number = _signed(self._varint())
                if not depth:
                    found[field] = number
            elif kind not in (TRUE, FALSE):
                self._skip(kind, depth)
        self.at += 1

    def _skip(self, kind: int, depth: int) -> None:
        if BYTE < kind < DOUBLE:
            self._varint()
        elif kind in (TRUE, FALSE, BYTE):  # within a list a truth is a byte
            self.at += 1
        elif kind == DOUBLE:
            self.at += 8
        elif kind == BINARY:
            length = self._varint()
            self.at += length
        elif kind == STRUCT:
            self._struct({}, depth + 1)
        elif kind in (LIST, SET):
            byte = self.raw[self.at]
            self.at += 1
            for _ in range(byte >> 4 if byte >> 4 < 15 else self._varint()):
                self._skip(byte & 15, depth + 1)
                self._inside()
        elif kind == MAP and (count := self._varint()):
            byte = self.raw[self.at]
            self.at += 1
            for _ in range(count):
                self._skip(byte >> 4, depth + 1)
                self._skip(byte & 15, depth + 1)
                self._inside()
        else:
            raise ValueError(f"the header of a page holds a value of type {kind}, which is not known")

    def _inside(self) -> None:
        if self.at > len(self.raw):
            raise IndexError


def _signed(number: int) -> int:
    """Zigzag: small numbers of either sign are short."""
    return (number >> 1) ^ -(number & 1)
