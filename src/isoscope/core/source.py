"""The vocabulary of sources: an item, a source of items, and a kind of source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np


@dataclass(frozen=True)
class Clip:
    """The content of an item of speech."""

    samples: np.ndarray
    """(n,) float32, mono, in [-1, 1]."""
    rate: int
    """Samples per second, as recorded."""


@dataclass(frozen=True)
class Item:
    """One document, clip or image, with an id that is the same in every reading and on every machine."""

    id: str
    content: Any
    """A string, a `Clip`, or a PIL image in mode RGB."""


class Source(Protocol):
    """A stream of items that can be read again, and a fingerprint of everything in it."""

    name: str
    modality: str
    """`text`, `speech` or `images`."""

    @property
    def fingerprint(self) -> str:
        """A hash of the content. Equal content has an equal fingerprint, wherever it is stored."""

    def items(self) -> Iterator[Item]:
        """The items, always in the same order."""


class SourcePart(Source, Protocol):
    """One of the parts of a source. Together the parts have the items of the source, each once, with the same ids."""

    @property
    def layout(self) -> str:
        """A hash that all parts of the source have in common."""

    @property
    def blocks(self) -> dict[str, str]:
        """Hashes of the content by the number of their block. The parts' together, with the layout, make the source's fingerprint."""


@runtime_checkable
class Divisible(Protocol):
    """A source that can be divided without reading it: by file and by range of bytes."""

    def part(self, i: int, k: int) -> SourcePart:
        """Part `i` of `k`."""


def part_of(source: Source, shard: tuple[int, int], *, limited: bool) -> SourcePart | None:
    """What a shard reads; None if it reads the source and takes every k-th item.

    That is so for a source that cannot be divided, and for one of which only the beginning is measured: its end is found by reading.
    """
    return source.part(*shard) if shard[1] > 1 and not limited and isinstance(source, Divisible) else None


@dataclass(frozen=True)
class SourceKind:
    """A way to open a source: a description of the names it accepts, and a function that opens one or returns None."""

    name: str
    modality: str
    accepts: str
    open: Callable[[str, str | None, str], Source | None]
    """`open(spec, column, modality)`. The modality decides if the spec alone does not, as for a folder."""


def source_modality(modality: str) -> str:
    """The modality of the sources for models of a modality: models of characters read text.

    >>> source_modality("characters"), source_modality("speech")
    ('text', 'speech')
    """
    return "text" if modality == "characters" else modality
