"""What a source of items is, whatever the modality."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Item:
    """One document, clip or image, with an id that does not change between readings or machines."""

    id: str
    content: Any


class Source(Protocol):
    """A stream of items that can be read again, and a fingerprint of everything in it."""

    name: str
    modality: str

    @property
    def fingerprint(self) -> str:
        """A hash of what the source holds; equal content has an equal fingerprint, wherever it lies."""

    def items(self) -> Iterator[Item]:
        """The items, always in the same order."""


@dataclass(frozen=True)
class SourceKind:
    """A way to open a source: what it takes, in words, and the function that opens it or answers None if it is not meant."""

    name: str
    modality: str
    accepts: str
    open: Callable[[str, str | None], Source | None]
    """`open(spec, column)`."""
