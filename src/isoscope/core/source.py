"""The vocabulary of sources: an item, a source of items, and a kind of source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

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
