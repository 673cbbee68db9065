"""Text: the embedded corpus, files of paragraphs or rows, standard input."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.source import Item, SourceKind
from isoscope.sources._item_files import find_files, hash_files, relative_names, short_name
from isoscope.trust.parquet_layout import open_parquet_file
from isoscope.trust.safe_io import parse_json

EMBEDDED = Path(__file__).parent / "data" / "text.jsonl"
MAX_TEXT = 1 << 27
"""Bytes of a line, or characters of a paragraph or row, beyond which a text is refused. All of text8 is one line of 100,000,000."""
MAX_JSON_LINE = 1 << 25
"""Bytes of a line of JSON, which may take twenty times as much memory as Python objects."""
BATCH = 64
"""Rows of Parquet that are decoded at a time: a document may be long."""


class TextSource:
    """Documents from files, one after the other.

    Files are streamed: memory holds one paragraph, one row, or one batch of rows of one column. An id names a file by its path below
    the folder that all files share, so that ids, and the sample that is drawn by their hashes, are the same on every machine.
    """

    modality = "text"

    def __init__(self, name: str, files: Sequence[Path], column: str | None = None, labels: Sequence[str] | None = None) -> None:
        self.name, self.files, self.column = name, list(files), column
        self.labels = list(labels) if labels else relative_names(self.files)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the relative names, sizes and bytes of the files in order, and over the column of files with rows."""
        # Without rows the column plays no part, and --column must not change the fingerprint.
        has_rows = any(path.suffix.lower() != ".txt" for path in self.files)
        return hash_files(self.files, self.labels, f"column {self.column or 'text'}\n" if has_rows else "")

    def items(self) -> Iterator[Item]:
        """Every paragraph and every row that holds text, file after file."""
        is_empty = True
        for path, label in zip(self.files, self.labels, strict=True):
            for ordinal, text in read_texts(path, self.column, str(path) if label != "stdin" else "Standard input"):
                is_empty = False
                yield Item(f"{label}#{ordinal}", text)
        if is_empty:
            name = self.labels[0] if len(self.files) == 1 else f"{self.name} ({len(self.files)} files)"
            raise IsoscopeError(f"{name} holds no text: it is empty or has only white space; give a source with at least one document.")


class EmbeddedText(TextSource):
    """The corpus that comes with isoscope. Its rows have ids of their own."""

    def items(self) -> Iterator[Item]:
        """Every document. The works are interleaved, so that any prefix is a fair mixture of them."""
        with EMBEDDED.open(encoding="utf-8") as file:
            for line in file:
                row = json.loads(line)
                yield Item(row["id"], row["text"])


def read_texts(path: Path, column: str | None, shown: str) -> Iterator[tuple[int, str]]:
    """The ordinals and texts of one file, which errors call `shown`. Rows without text are skipped, but have an ordinal."""
    ending = path.suffix.lower()
    if ending == ".txt":
        return read_paragraphs(path, shown)
    return (read_json_rows if ending == ".jsonl" else read_parquet_rows)(path, column, shown)


def read_lines(path: Path, shown: str, most: int = MAX_TEXT) -> Iterator[str]:
    """Lines of UTF-8, with or without a byte order mark, with either line ending. An undecodable byte is reported with its offset."""
    offset = 0
    with path.open("rb") as file:
        # The bound is part of the read: a file without a line end would otherwise be one line of its whole size.
        while raw := file.readline(most + 1):
            if len(raw) > most:
                raise IsoscopeError(f"{shown} has a line of more than {most:,} bytes at offset {offset} and is refused; divide it.")
            # The offset counts the byte order mark, as an editor or hexdump does.
            mark = 3 if offset == 0 and raw.startswith(b"\xef\xbb\xbf") else 0
            try:
                yield raw[mark:].decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                byte, at = f"byte 0x{raw[mark + error.start]:02x}", offset + mark + error.start
                raise IsoscopeError(f"{shown} is not UTF-8: {byte} at offset {at} cannot be decoded; convert it to UTF-8.") from error
            offset += len(raw)


def read_paragraphs(path: Path, shown: str) -> Iterator[tuple[int, str]]:
    """The runs of lines between blank lines."""
    ordinal, paragraph, size = 0, list[str](), 0
    for line in chain(read_lines(path, shown), [""]):  # the last blank line ends the last paragraph
        if line.strip():
            paragraph.append(line)
            size += len(line)
            if size > MAX_TEXT:
                raise IsoscopeError(
                    f"{shown} has a paragraph of more than {MAX_TEXT:,} characters and is refused; put blank lines into it."
                )
        elif paragraph:
            yield ordinal, "\n".join(paragraph).strip()
            ordinal, paragraph, size = ordinal + 1, [], 0


def read_json_rows(path: Path, column: str | None, shown: str) -> Iterator[tuple[int, str]]:
    """The text field of each line."""
    ordinal = -1
    for number, line in enumerate(read_lines(path, shown, MAX_JSON_LINE), 1):
        if not line.strip():
            continue
        ordinal += 1
        try:
            row = parse_json(line)
        except ValueError as error:
            raise IsoscopeError(f"{shown}, line {number} is not JSON ({error}); each line must be one complete object.") from error
        if not isinstance(row, dict):
            raise IsoscopeError(f"{shown}, line {number} must be a JSON object with a text field; it is a {type(row).__name__}.")
        if column is None or column not in row:
            column = choose_column(f"{shown}, line {number}", column, list(row), string_columns(row))
        text = row[column]
        if not isinstance(text, str | None):
            raise IsoscopeError(f"{shown}, line {number}: {column!r} must be a string; it is a {type(text).__name__}.")
        if text and not text.isspace():
            yield ordinal, text


def read_parquet_rows(path: Path, column: str | None, shown: str) -> Iterator[tuple[int, str]]:
    """The text column, one batch of rows at a time."""
    import pyarrow as pa

    def is_text(kind: Any) -> bool:
        return is_text(kind.value_type) if pa.types.is_dictionary(kind) else pa.types.is_string(kind) or pa.types.is_large_string(kind)

    with open_parquet_file(path) as file:
        schema = file.schema_arrow
        texts = [field.name for field in schema if is_text(field.type)]
        column = choose_column(shown, column, schema.names, texts)
        if column not in texts:
            raise IsoscopeError(f"{shown}: the column {column!r} must hold strings; it holds {schema.field(column).type}.")
    ordinal = 0
    # As a dictionary, equal documents are decoded once and not once per row. A few kilobytes of Parquet can repeat a long document a
    # thousand times; only one of its copies at a time becomes a Python string.
    with open_parquet_file(path, read_dictionary=[column]) as file:
        for batch in file.iter_batches(batch_size=BATCH, columns=[column]):
            for cell in batch.column(0):
                text = cell.as_py()
                if text and len(text) > MAX_TEXT:
                    raise IsoscopeError(f"{shown}: row {ordinal} has more than {MAX_TEXT:,} characters and is refused; divide it.")
                if text and not text.isspace():
                    yield ordinal, text
                ordinal += 1


def string_columns(row: dict[str, Any]) -> list[str]:
    """The columns of a row that hold strings."""
    return [name for name, value in row.items() if isinstance(value, str)]


def choose_column(where: str, column: str | None, columns: list[str], fitting: list[str], usual: str = "text") -> str:
    """The column asked for. Without one, the column of the usual name, or the only one of a fitting type."""
    if column in columns:
        return str(column)
    if column is None and usual in columns:
        return usual
    if column is None and len(fitting) == 1:
        return fitting[0]
    missing = f"has no column {column or usual!r}{nearest(column or usual, columns).rstrip('?')}"
    raise IsoscopeError(f"{where} {missing}; its columns are {', '.join(columns) or 'none'}: choose one with --column.")


def spool_standard_input() -> TextSource:
    """Standard input as a file of paragraphs: copied to disk, because a source is read more than once."""
    with tempfile.NamedTemporaryFile(suffix=".txt", delete=False) as spool:
        shutil.copyfileobj(sys.stdin.buffer, spool)
    source = TextSource("stdin", [Path(spool.name)], labels=["stdin"])
    # The file lives as long as the source, in which it is read once for the fingerprint and once or more for the items.
    weakref.finalize(source, os.unlink, spool.name)
    return source


def open_text(spec: str, column: str | None, modality: str) -> TextSource | None:
    """The text that `spec` names, or None."""
    if spec == "embedded":
        return EmbeddedText("embedded", [EMBEDDED]) if modality == "text" else None
    if spec == "-":
        if modality != "text":
            raise IsoscopeError(f"Standard input is read as text, and the model reads {modality}; name a file or a folder instead of -.")
        source = spool_standard_input()
    else:
        files = find_files(spec, "text", modality)
        if not files:
            return None
        source = TextSource(short_name(spec), files, column)
    next(source.items())  # an error in the first item is reported before a model is loaded
    return source


ACCEPTS = "`embedded`, a .txt, .jsonl or .parquet file, a folder or pattern of them, - for standard input"
text = SourceKind("text", "text", ACCEPTS, open_text)
