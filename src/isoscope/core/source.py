"""What a source of items is, whatever the modality, and how files are found, named and hashed for one."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from isoscope.core.errors import IsoscopeError

ENDINGS = {
    "text": (".txt", ".jsonl", ".parquet"),
    "speech": (".wav", ".flac", ".ogg", ".mp3"),
    "images": (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"),
}
"""The modalities, and the endings of the files that hold them."""


@dataclass(frozen=True)
class Clip:
    """What an item of speech holds."""

    samples: np.ndarray
    """(n,) float32, mono, in [-1, 1]."""
    rate: int
    """Samples a second, as recorded."""


@dataclass(frozen=True)
class Item:
    """One document, clip or image, with an id that does not change between readings or machines."""

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
        """A hash of what the source holds; equal content has an equal fingerprint, wherever it lies."""

    def items(self) -> Iterator[Item]:
        """The items, always in the same order."""


@dataclass(frozen=True)
class SourceKind:
    """A way to open a source: what it takes, in words, and the function that opens it or answers None if it is not meant."""

    name: str
    modality: str
    accepts: str
    open: Callable[[str, str | None, str], Source | None]
    """`open(spec, column, modality)`; the modality says what is meant where the spec alone does not."""


class FileItems:
    """Files that are one item each, as clips and images are; one is read at a time."""

    def __init__(self, modality: str, name: str, files: Sequence[Path], read: Callable[[BinaryIO, str], Any]) -> None:
        self.modality, self.name, self.files, self.read = modality, name, list(files), read
        self.labels = relative(self.files)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the files' relative names, sizes and bytes, in order."""
        return fingerprint_of(self.files, self.labels)

    def items(self) -> Iterator[Item]:
        """Every file, by its path below the folder that all share."""
        for path, label in zip(self.files, self.labels, strict=True):
            with path.open("rb") as file:
                content = self.read(file, str(path))
            yield Item(label, content)


def open_files(spec: str, kind: str, wanted: str, embedded: Path, read: Callable[[BinaryIO, str], Any]) -> FileItems | None:
    """The files of one kind that `spec` means, or None; the first is read at once."""
    if spec == "embedded":
        return FileItems(kind, spec, matching(f"{glob.escape(str(embedded))}/*"), read) if kind == wanted else None
    files = find(spec, kind, wanted)
    if not files:
        return None
    source = FileItems(kind, short_name(spec), files, read)
    next(source.items())
    return source


def relative(files: Sequence[Path]) -> list[str]:
    """Each file's path below the folder that all of them share, with forward slashes everywhere."""
    shared = os.path.commonpath([path.absolute().parent for path in files])
    return [path.absolute().relative_to(shared).as_posix() for path in files]


def fingerprint_of(files: Sequence[Path], labels: Sequence[str], preface: str = "") -> str:
    """SHA-256 over a preface and over the files' names (items are named by them), sizes and bytes, in order."""
    digest = hashlib.sha256(preface.encode())
    for path, label in zip(files, labels, strict=True):
        digest.update(f"{label} {path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def modality_of(path: Path) -> str | None:
    """The modality that a file's ending tells.

    >>> modality_of(Path("a/Clip.WAV")), modality_of(Path("readme.md"))
    ('speech', None)
    """
    return next((modality for modality, endings in ENDINGS.items() if path.suffix.lower() in endings), None)


def read_by(modality: str) -> str:
    """The modality of the sources that models of a modality read.

    >>> read_by("characters"), read_by("speech")
    ('text', 'speech')
    """
    return "text" if modality == "characters" else modality


def find(spec: str, kind: str, wanted: str) -> list[Path]:
    """The files of one kind (a modality) that a path, a folder or a pattern means, in the order of their names.

    A file is of the kind that its ending tells, and so are the files of a pattern if they are all of one kind; in a folder and among
    files of several kinds those of the modality `wanted` are meant.
    """
    path = Path(spec)
    if path.is_file():
        return [path] if modality_of(path) == kind else []
    if path.is_dir():
        inside = matching(f"{glob.escape(spec)}/**/*") if kind == wanted else []
        return [file for file in inside if modality_of(file) == kind]
    files = matching(spec)
    kinds = {modality_of(file) for file in files}
    if kinds != {kind} and (kind != wanted or kind not in kinds):
        return []
    strange = next((file for file in files if modality_of(file) is None), None)
    if strange:
        endings = f"{', '.join(ENDINGS[kind][:-1])} or {ENDINGS[kind][-1]}"
        raise IsoscopeError(f"The pattern {spec} also matches {strange}, not a {endings} file; narrow it, as in **/*{ENDINGS[kind][0]}.")
    return [file for file in files if modality_of(file) == kind]


def matching(pattern: str) -> list[Path]:
    """The files that a pattern matches, hidden ones left out, in the order of their names, whatever order the disk has them in."""
    return sorted((file for file in map(Path, glob.iglob(pattern, recursive=True)) if file.is_file()), key=Path.as_posix)


def short_name(spec: str) -> str:
    """What a spec is called in a table, without the folders above: a file's or folder's own name, or a pattern.

    >>> short_name("/home/me/corpus/**/*.txt"), short_name("corpus/a.txt")
    ('**/*.txt', 'a.txt')
    """
    path = Path(spec)
    if path.exists() or not glob.has_magic(spec):
        return path.absolute().name
    return "/".join(path.parts[next(i for i, part in enumerate(path.parts) if glob.has_magic(part)) :])
