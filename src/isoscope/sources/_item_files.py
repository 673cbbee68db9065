"""Files of a source: how they are found, named and hashed, and sources whose files hold one item each (clips, images)."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from isoscope.core.errors import IsoscopeError
from isoscope.core.source import Item, SourceKind
from isoscope.sources._file_parts import FileBytes, FileSource, Span

ENDINGS = {
    "text": (".txt", ".jsonl", ".parquet"),
    "speech": (".wav", ".flac", ".ogg", ".mp3"),
    "images": (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"),
}
"""The modalities, and the endings of their files."""


class FileItems(FileSource):
    """Files that hold one item each. One is read at a time."""

    def __init__(self, modality: str, name: str, files: Sequence[Path], read: Callable[[BinaryIO, str], Any]) -> None:
        self.modality, self.name, self.files, self.read = modality, name, list(files), read
        self.file_bytes = FileBytes(self.files, relative_names(self.files))

    def read_spans(self, spans: Iterator[Span]) -> Iterator[Item]:
        """The files that begin in these ranges."""
        for span in spans:
            if span.start == 0:
                with span.path.open("rb") as file:
                    content = self.read(file, str(span.path))
                yield Item(span.label, content)


def file_items_kind(modality: str, accepts: str, embedded: Path, read: Callable[[BinaryIO, str], Any]) -> SourceKind:
    """The kind of source whose files hold one item each, which `read` decodes."""

    def open_files(spec: str, column: str | None, wanted: str) -> FileItems | None:
        if spec == "embedded":
            return FileItems(modality, spec, match_files(f"{glob.escape(str(embedded))}/*"), read) if modality == wanted else None
        files = find_files(spec, modality, wanted)
        if not files:  # another kind of source may accept the name
            return None
        source = FileItems(modality, short_name(spec), files, read)
        next(source.items())  # an error in the first file is reported before a model is loaded
        return source

    return SourceKind(modality, modality, accepts, open_files)


def relative_names(files: Sequence[Path]) -> list[str]:
    """Each file's path below the folder that all of them share, with forward slashes on every system.

    Items are named by it, and the sample is drawn by hashes of these names: it must not depend on where a corpus lies.
    """
    # The parents, because a single file would be the common path of itself, and have an empty name.
    shared = os.path.commonpath([path.absolute().parent for path in files])
    return [path.absolute().relative_to(shared).as_posix() for path in files]


def modality_of(path: Path) -> str | None:
    """The modality of a file by its ending.

    >>> modality_of(Path("a/Clip.WAV")), modality_of(Path("readme.md"))
    ('speech', None)
    """
    return next((modality for modality, endings in ENDINGS.items() if path.suffix.lower() in endings), None)


def find_files(spec: str, modality: str, wanted: str) -> list[Path]:
    """The files of one modality that a path, a folder or a pattern names, sorted by name.

    A single file has the modality of its ending, and so have the files of a pattern if their endings agree. In a folder, and among files of
    several modalities, only those of the modality `wanted` are meant.
    """
    path = Path(spec)
    if path.is_file():
        return [path] if modality_of(path) == modality else []
    if path.is_dir():
        inside = match_files(f"{glob.escape(spec)}/**/*") if modality == wanted else []
        return [file for file in inside if modality_of(file) == modality]
    files = match_files(spec)
    modalities = {modality_of(file) for file in files}
    if modalities != {modality} and (modality != wanted or modality not in modalities):
        return []
    # A pattern that also matches a README is more likely too wide than meant so.
    unknown = next((file for file in files if modality_of(file) is None), None)
    if unknown:
        endings = f"{', '.join(ENDINGS[modality][:-1])} or {ENDINGS[modality][-1]}"
        hint = f"narrow it, as in **/*{ENDINGS[modality][0]}"
        raise IsoscopeError(f"The pattern {spec} also matches {unknown}, not a {endings} file; {hint}.")
    return [file for file in files if modality_of(file) == modality]


def match_files(pattern: str) -> list[Path]:
    """The files that a pattern matches, without hidden ones. They are sorted by name, because disks list files in any order."""
    return sorted((file for file in map(Path, glob.iglob(pattern, recursive=True)) if file.is_file()), key=Path.as_posix)


def short_name(spec: str) -> str:
    """The name of a source in a table: that of its file or folder, or its pattern, without the folders above.

    >>> short_name("/home/me/corpus/**/*.txt"), short_name("corpus/a.txt")
    ('**/*.txt', 'a.txt')
    """
    path = Path(spec)
    if path.exists() or not glob.has_magic(spec):
        return path.absolute().name
    return "/".join(path.parts[next(i for i, part in enumerate(path.parts) if glob.has_magic(part)) :])
