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

from isoscope.core.bounded import parse_json
from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.parquet import opened
from isoscope.core.source import Item, SourceKind, find, fingerprint_of, relative, short_name

EMBEDDED = Path(__file__).parent / "data" / "text.jsonl"
LONGEST = 1 << 27
"""Bytes of a line, a paragraph or a row beyond which a text is refused; all of text8 is one line of 100,000,000."""
LONGEST_ROW = 1 << 25
"""Bytes of a line of JSON, which as Python objects may take twenty times as much."""
BATCH = 64
"""Rows of Parquet that are decoded at a time: a document may be long."""


class TextSource:
    """Documents from files, one after the other.

    Files are streamed: memory holds one paragraph, one row or one batch of rows of one column. Ids name a file by its path below
    the folder that all files share, so that they, and with them the sample drawn by their hashes, are the same on every machine.
    """

    modality = "text"

    def __init__(self, name: str, files: Sequence[Path], column: str | None = None, labels: Sequence[str] | None = None) -> None:
        self.name, self.files, self.column = name, list(files), column
        self.labels = list(labels) if labels else relative(self.files)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the files' relative names (items are named by them), sizes and bytes in order, and over the column."""
        rows = any(path.suffix.lower() != ".txt" for path in self.files)
        return fingerprint_of(self.files, self.labels, f"column {self.column or 'text'}\n" if rows else "")

    def items(self) -> Iterator[Item]:
        """Every paragraph and every row that holds text, file after file."""
        found = False
        for path, label in zip(self.files, self.labels, strict=True):
            for ordinal, text in read(path, self.column, str(path) if label != "stdin" else "Standard input"):
                found = True
                yield Item(f"{label}#{ordinal}", text)
        if not found:
            which = self.labels[0] if len(self.files) == 1 else f"{self.name} ({len(self.files)} files)"
            raise IsoscopeError(f"{which} holds no text: it is empty or has only white space; give a source with at least one document.")


class EmbeddedText(TextSource):
    """The corpus that comes with isoscope, whose rows carry ids of their own."""

    def items(self) -> Iterator[Item]:
        """Every document, the works interleaved, so that a prefix is already a fair mixture of them."""
        with EMBEDDED.open(encoding="utf-8") as file:
            for line in file:
                row = json.loads(line)
                yield Item(row["id"], row["text"])


def read(path: Path, column: str | None, shown: str) -> Iterator[tuple[int, str]]:
    """The ordinals and texts of one file, which errors call `shown`."""
    if path.suffix.lower() == ".txt":
        return paragraphs(path, shown)
    return (json_rows if path.suffix.lower() == ".jsonl" else parquet_rows)(path, column, shown)


def lines(path: Path, shown: str, most: int = LONGEST) -> Iterator[str]:
    """Lines of UTF-8, with or without a byte order mark, ended in either fashion; what cannot be decoded is named by its offset."""
    offset = 0
    with path.open("rb") as file:
        while raw := file.readline(most + 1):
            if len(raw) > most:
                raise IsoscopeError(f"{shown} has a line of more than {most:,} bytes at offset {offset} and is refused; divide it.")
            mark = 3 if offset == 0 and raw.startswith(b"\xef\xbb\xbf") else 0
            try:
                yield raw[mark:].decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                what, at = f"byte 0x{raw[mark + error.start]:02x}", offset + mark + error.start
                raise IsoscopeError(f"{shown} is not UTF-8: {what} at offset {at} cannot be decoded; convert it to UTF-8.") from error
            offset += len(raw)


def paragraphs(path: Path, shown: str) -> Iterator[tuple[int, str]]:
    """Runs of lines between blank ones."""
    ordinal, gathered, size = 0, list[str](), 0
    for line in chain(lines(path, shown), [""]):
        if line.strip():
            gathered.append(line)
            size += len(line)
            if size > LONGEST:
                raise IsoscopeError(f"{shown} has a paragraph of more than {LONGEST:,} characters and is refused; put blank lines into it.")
        elif gathered:
            yield ordinal, "\n".join(gathered).strip()
            ordinal, gathered, size = ordinal + 1, [], 0


def json_rows(path: Path, column: str | None, shown: str) -> Iterator[tuple[int, str]]:
    """The named field of each line; rows without text are passed over but counted."""
    ordinal = -1
    for number, line in enumerate(lines(path, shown, LONGEST_ROW), 1):
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
            strings = [name for name, value in row.items() if isinstance(value, str)]
            column = choose_column(f"{shown}, line {number}", column, list(row), strings)
        text = row[column]
        if not isinstance(text, str | None):
            raise IsoscopeError(f"{shown}, line {number}: {column!r} must be a string; it is a {type(text).__name__}.")
        if text and not text.isspace():
            yield ordinal, text


def parquet_rows(path: Path, column: str | None, shown: str) -> Iterator[tuple[int, str]]:
    """The named column, a batch of rows at a time; rows without text are passed over but counted."""
    import pyarrow as pa

    def is_text(kind: Any) -> bool:
        return is_text(kind.value_type) if pa.types.is_dictionary(kind) else pa.types.is_string(kind) or pa.types.is_large_string(kind)

    try:
        with opened(path) as file:
            schema = file.schema_arrow
            texts = [field.name for field in schema if is_text(field.type)]
            column = choose_column(shown, column, schema.names, texts)
            if column not in texts:
                raise IsoscopeError(f"{shown}: the column {column!r} must hold strings; it holds {schema.field(column).type}.")
        ordinal = 0
        # Equal documents are decoded once and not once a row, and one of them at a time is made a string.
        with opened(path, read_dictionary=[column]) as file:
            for batch in file.iter_batches(batch_size=BATCH, columns=[column]):
                for cell in batch.column(0):
                    text = cell.as_py()
                    if text and len(text) > LONGEST:
                        raise IsoscopeError(f"{shown}: row {ordinal} has more than {LONGEST:,} characters and is refused; divide it.")
                    if text and not text.isspace():
                        yield ordinal, text
                    ordinal += 1
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise IsoscopeError(f"{shown} is not a readable Parquet file, or is damaged ({reason}); write it anew.") from error


def choose_column(where: str, column: str | None, columns: list[str], fitting: list[str], usual: str = "text") -> str:
    """The column asked for; without one the usual one, or the only one that holds what is wanted."""
    if column in columns:
        return str(column)
    if column is None and usual in columns:
        return usual
    if column is None and len(fitting) == 1:
        return fitting[0]
    missing = f"has no column {column or usual!r}{nearest(column or usual, columns).rstrip('?')}"
    raise IsoscopeError(f"{where} {missing}; its columns are {', '.join(columns) or 'none'}: choose one with --column.")


def standard_input() -> TextSource:
    """Standard input as a file of paragraphs: spooled to disk, because a source is read more than once."""
    with tempfile.NamedTemporaryFile(suffix=".txt", delete=False) as spool:
        shutil.copyfileobj(sys.stdin.buffer, spool)
    source = TextSource("stdin", [Path(spool.name)], labels=["stdin"])
    weakref.finalize(source, os.unlink, spool.name)
    return source


def open_text(spec: str, column: str | None, modality: str) -> TextSource | None:
    """The text that `spec` means, or None; the first item is read at once, so that a mistake is told before a model is loaded."""
    if spec == "embedded":
        return EmbeddedText("embedded", [EMBEDDED]) if modality == "text" else None
    if spec == "-":
        if modality != "text":
            raise IsoscopeError(f"Standard input is read as text, and the model reads {modality}; name a file or a folder instead of -.")
        source = standard_input()
    else:
        files = find(spec, "text", modality)
        if not files:
            return None
        source = TextSource(short_name(spec), files, column)
    next(source.items())
    return source


ACCEPTS = "`embedded`, a .txt, .jsonl or .parquet file, a folder or pattern of them, - for standard input"
text = SourceKind("text", "text", ACCEPTS, open_text)
