"""The files of a source, one after another, as one run of bytes: divided among shards by range, and hashed in blocks.

An item belongs to the shard in whose range it starts. So every shard reads its own bytes, and together they read the source once.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from isoscope.core.source import Item

SMALLEST_BLOCK = 1 << 13
MOST_BLOCKS = 1 << 15
"""Blocks of a source that are hashed one by one. A shard also hashes the rest of the blocks at its two ends: 1/32,768 of the source."""
NUMBERED = 1 << 14
"""Bytes of a file after which items are numbered anew, so that an item's number needs no reading of the file from its beginning."""
READ_BYTES = 1 << 20


@dataclass(frozen=True)
class Span:
    """A range of bytes of one file, and the name of the file in ids."""

    path: Path
    label: str
    start: int
    end: int


class FileBytes:
    """The bytes of files in order; `preface` is what else determines the items, such as a column."""

    def __init__(self, files: Sequence[Path], labels: Sequence[str], preface: str = "") -> None:
        self.files, self.labels, self.preface = files, labels, preface
        self._digests: dict[int, str] = {}

    @cached_property
    def sizes(self) -> list[int]:
        """The size of each file."""
        return [path.stat().st_size for path in self.files]

    @cached_property
    def _starts(self) -> list[int]:
        return list(accumulate(self.sizes, initial=0))

    @property
    def size(self) -> int:
        """The size of all files."""
        return self._starts[-1]

    @property
    def block(self) -> int:
        """The size of a block: it depends on the files only, so that all divisions hash the same blocks."""
        least = max(SMALLEST_BLOCK, self.size // MOST_BLOCKS)
        return 1 << (least - 1).bit_length()

    @cached_property
    def layout(self) -> str:
        """A hash of the preface and of the names and sizes of the files: what is known of a source without reading it."""
        lines = [f"{label} {size}\n" for label, size in zip(self.labels, self.sizes, strict=True)]
        return hashlib.sha256((self.preface + "".join(lines)).encode()).hexdigest()

    @property
    def fingerprint(self) -> str:
        """The fingerprint of all files."""
        return combine_blocks(self.layout, self.blocks(0, 1))

    def spans(self, i: int, k: int) -> Iterator[Span]:
        """The ranges of files that make up part `i` of `k`. An empty file has an empty range, in the part that reaches its place."""
        low, high = self.size * i // k, self.size * (i + 1) // k + (i + 1 == k)
        for path, label, start, size in zip(self.files, self.labels, self._starts, self.sizes, strict=False):
            if start < high and (low < start + size or low <= start):
                yield Span(path, label, max(low - start, 0), min(high - start, size))

    def blocks(self, i: int, k: int) -> dict[str, str]:
        """The hash of every block that part `i` of `k` touches, by its number."""
        low, high = self.size * i // k, self.size * (i + 1) // k
        numbers = range(low // self.block, -(-high // self.block)) if low < high else range(0)
        if missing := [number for number in numbers if number not in self._digests]:
            self._hash_blocks(missing[0], missing[-1] + 1)
        return {str(number): self._digests[number] for number in numbers}

    def _hash_blocks(self, first: int, end: int) -> None:
        number, digest, left = first, hashlib.sha256(), self.block
        for piece in self._read(first * self.block, min(end * self.block, self.size)):
            rest = memoryview(piece)
            while rest:
                digest.update(rest[:left])
                taken, rest = len(rest[:left]), rest[left:]
                left -= taken
                if not left:
                    self._digests[number] = digest.hexdigest()
                    number, digest, left = number + 1, hashlib.sha256(), self.block
        # The last block may be shorter, as may any if a file has lost bytes meanwhile.
        while number < end:
            self._digests[number] = digest.hexdigest()
            number, digest = number + 1, hashlib.sha256()

    def _read(self, low: int, high: int) -> Iterator[bytes]:
        for path, start, size in zip(self.files, self._starts, self.sizes, strict=False):
            at, end = max(low, start), min(high, start + size)
            if at < end:
                with path.open("rb", buffering=0) as file:
                    file.seek(at - start)
                    while at < end and (piece := file.read(min(READ_BYTES, end - at))):
                        yield piece
                        at += len(piece)


def combine_blocks(layout: str, blocks: Mapping[str, str]) -> str:
    """The fingerprint of a source, or of a part, from its layout and the hashes of its blocks."""
    listed = "".join(f"{number} {blocks[number]}\n" for number in sorted(blocks, key=int))
    return hashlib.sha256(f"{layout}\n{listed}".encode()).hexdigest()


class FileSource(ABC):
    """A source that consists of files."""

    name: str
    modality: str
    file_bytes: FileBytes

    @property
    def fingerprint(self) -> str:
        """A hash of the relative names, sizes and bytes of the files in order, and of the column of files with rows."""
        return self.file_bytes.fingerprint

    def part(self, i: int, k: int) -> FilePart:
        """The items that start in range `i` of `k` ranges of bytes."""
        return FilePart(self, i, k)

    def items(self) -> Iterator[Item]:
        """Every item, file after file."""
        return self.read_spans(self.file_bytes.spans(0, 1))

    @abstractmethod
    def read_spans(self, spans: Iterator[Span]) -> Iterator[Item]:
        """The items that start in these ranges, in order."""


class FilePart:
    """Part `i` of `k` of a source of files: the items that start in its range of bytes."""

    def __init__(self, source: FileSource, i: int, k: int) -> None:
        self.name, self.modality, self._source, self._place = source.name, source.modality, source, (i, k)

    @property
    def layout(self) -> str:
        """What all parts of the source have in common."""
        return self._source.file_bytes.layout

    @property
    def blocks(self) -> dict[str, str]:
        """The hash of every block that the part touches, by its number. Those of all parts are those of the source."""
        return self._source.file_bytes.blocks(*self._place)

    @property
    def fingerprint(self) -> str:
        """A hash of the layout of the source and of the part's blocks."""
        return combine_blocks(self.layout, self.blocks)

    def items(self) -> Iterator[Item]:
        """The items that start in the part's range."""
        return self._source.read_spans(self._source.file_bytes.spans(*self._place))


class Numbers:
    """Names the items of a file by their places: the first 16 KiB hold 0, 1, 2, …, the next 1.0, 1.1, 1.2, … .

    >>> numbers = Numbers()
    >>> [numbers.next(offset) for offset in (0, 900, 16_384, 20_000, 50_000)]
    ['0', '1', '1.0', '1.1', '3.0']
    """

    def __init__(self) -> None:
        self._block, self._count = -1, 0

    def next(self, offset: int) -> str:
        """The number of the next item, which starts at this byte. Items are named in order, from the first one of a block on."""
        block = offset // NUMBERED
        self._count = self._count + 1 if block == self._block else 0
        self._block = block
        return f"{block}.{self._count}" if block else str(self._count)


def numbering_start(offset: int) -> int:
    """The byte from which items must be counted to number those that start at `offset` or later.

    >>> numbering_start(20_000)
    16384
    """
    return offset - offset % NUMBERED
