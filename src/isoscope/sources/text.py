"""Text: the embedded corpus, files of paragraphs or rows, standard input."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.source import Item, SourceKind
from isoscope.sources._file_parts import FileBytes, FileSource, Numbers, Span, numbering_start
from isoscope.sources._item_files import find_files, relative_names, short_name
from isoscope.trust.parquet_layout import open_parquet_file, read_chunks
from isoscope.trust.safe_io import parse_json

EMBEDDED = Path(__file__).parent / "data" / "text.jsonl"
MAX_TEXT = 1 << 27
"""Bytes of a line, or characters of a paragraph or row, beyond which a text is refused. All of text8 is one line of 100,000,000."""
MAX_JSON_LINE = 1 << 25
"""Bytes of a line of JSON, which may take twenty times as much memory as Python objects."""
BATCH = 64
"""Rows of Parquet that are decoded at a time: a document may be long."""
BACK = 1 << 12
"""Bytes that are read backwards at a time, to see whether a line before a range is blank."""
BOM = b"\xef\xbb\xbf"


class TextSource(FileSource):
    """Documents from files, one after the other.

    Files are streamed: memory holds one paragraph, one row, or one batch of rows of one column. An id names a file by its path below
    the folder that all files share, so that ids, and the sample that is drawn by their hashes, are the same on every machine.
    """

    modality = "text"

    def __init__(self, name: str, files: Sequence[Path], column: str | None = None, labels: Sequence[str] | None = None) -> None:
        self.name, self.files, self.column = name, list(files), column
        self.labels = list(labels) if labels else relative_names(self.files)
        # Without rows the column plays no part, and --column must not change the fingerprint.
        has_rows = any(path.suffix.lower() != ".txt" for path in self.files)
        self.file_bytes = FileBytes(self.files, self.labels, f"column {column or 'text'}\n" if has_rows else "")

    def items(self) -> Iterator[Item]:
        """Every paragraph and every row that holds text, file after file."""
        is_empty = True
        for item in super().items():
            is_empty = False
            yield item
        if is_empty:
            name = self.labels[0] if len(self.files) == 1 else f"{self.name} ({len(self.files)} files)"
            raise IsoscopeError(f"{name} holds no text: it is empty or has only white space; give a source with at least one document.")

    def read_spans(self, spans: Iterator[Span]) -> Iterator[Item]:
        """The paragraphs, lines and row groups that start in these ranges."""
        for span in spans:
            shown = str(span.path) if span.label != "stdin" else "Standard input"
            for number, text in read_texts(span, self.column, shown):
                yield Item(f"{span.label}#{number}", text)


class EmbeddedText(TextSource):
    """The corpus that comes with isoscope. Its rows have ids of their own."""

    def read_spans(self, spans: Iterator[Span]) -> Iterator[Item]:
        """Documents. The works are interleaved, so that any prefix is a fair mixture of them."""
        for span in spans:
            for _, _, row in read_objects(span, str(span.path)):
                yield Item(row["id"], row["text"])


def read_texts(span: Span, column: str | None, shown: str) -> Iterator[tuple[str, str]]:
    """The numbers and texts of a file, which errors call `shown`. Rows without text are skipped, but have a number."""
    ending = span.path.suffix.lower()
    if ending == ".txt":
        return read_paragraphs(span, shown)
    return (read_json_rows if ending == ".jsonl" else read_parquet_rows)(span, column, shown)


def read_lines(file: BinaryIO, offset: int, shown: str, most: int = MAX_TEXT) -> Iterator[tuple[int, str]]:
    """Offsets and lines of UTF-8 from `offset` on, with or without a byte order mark, with either line ending.

    An undecodable byte is reported with its offset.
    """
    # The bound is part of the read: a file without a line end would otherwise be one line of its whole size.
    while raw := file.readline(most + 1):
        if len(raw) > most:
            raise IsoscopeError(f"{shown} has a line of more than {most:,} bytes at offset {offset} and is refused; divide it.")
        # The offset counts the byte order mark, as an editor or hexdump does.
        mark = len(BOM) if offset == 0 and raw.startswith(BOM) else 0
        try:
            yield offset, raw[mark:].decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            byte, at = f"byte 0x{raw[mark + error.start]:02x}", offset + mark + error.start
            raise IsoscopeError(f"{shown} is not UTF-8: {byte} at offset {at} cannot be decoded; convert it to UTF-8.") from error
        offset += len(raw)


def find_line(file: BinaryIO, at: int, end: int) -> tuple[int, bool]:
    """The offset of the first line that starts at `at` or later, where the file then is, and whether the line before it is blank.

    A line that reaches beyond `end` is not read further.
    """
    before = _line_before(file, at)
    file.seek(at)
    rest = b"" if before.endswith(b"\n") or not at else file.readline(max(end - at, 0))
    return at + len(rest), not (before + rest).decode("utf-8", "ignore").strip()


def _line_before(file: BinaryIO, at: int) -> bytes:
    """The line that holds the byte before `at`, up to `at`; of a long line enough to see that it is not blank."""
    piece, start = b"", at
    while start > 0:
        size = min(start, BACK)
        start -= size
        file.seek(start)
        piece = file.read(size) + piece
        line_start = piece.rfind(b"\n", 0, len(piece) - 1) + 1
        # Characters that the beginning of the piece cuts are left out, so only what is seen counts.
        if line_start or piece.decode("utf-8", "ignore").strip():
            return piece[line_start:]
    return piece.removeprefix(BOM)


def read_paragraphs(span: Span, shown: str) -> Iterator[tuple[str, str]]:
    """The runs of lines between blank lines that start in the range; the last one is read to its end."""
    numbers, number, paragraph, size = Numbers(), "", list[str](), 0
    with span.path.open("rb") as file:
        begun, after_blank = find_line(file, numbering_start(span.start), span.end)
        if begun >= span.end:
            return
        for offset, line in read_lines(file, begun, shown):
            if not line.strip():
                if paragraph and begun >= span.start:
                    yield number, "\n".join(paragraph).strip()
                after_blank, paragraph, size = True, [], 0
            elif after_blank or paragraph:
                if not paragraph:
                    number, begun = numbers.next(offset), offset
                paragraph.append(line)
                size += len(line)
                if size > MAX_TEXT:
                    raise IsoscopeError(
                        f"{shown} has a paragraph of more than {MAX_TEXT:,} characters and is refused; put blank lines into it."
                    )
            if file.tell() >= span.end and not (paragraph and begun >= span.start):
                return
    if paragraph and begun >= span.start:
        yield number, "\n".join(paragraph).strip()


def read_objects(span: Span, shown: str) -> Iterator[tuple[str, str, Any]]:
    """The number, the place for errors and the parsed JSON of every line that starts in the range and is not blank."""
    numbers = Numbers()
    with span.path.open("rb") as file:
        first, _ = find_line(file, numbering_start(span.start), span.end)
        lines = read_lines(file, first, shown, MAX_JSON_LINE)
        for line_number, (offset, line) in enumerate(lines if first < span.end else (), 1):
            if line.strip():
                number = numbers.next(offset)
                if offset >= span.start:
                    # Of a part of a file only the offset of a line is known.
                    where = f"{shown}, line {line_number}" if first == 0 else f"{shown}, the line at offset {offset}"
                    try:
                        yield number, where, parse_json(line)
                    except ValueError as error:
                        raise IsoscopeError(f"{where} is not JSON ({error}); each line must be one complete object.") from error
            if file.tell() >= span.end:
                return


def read_json_rows(span: Span, column: str | None, shown: str) -> Iterator[tuple[str, str]]:
    """The text field of each line. The first line of the file decides which it is, whatever the range."""
    if span.start:
        head = Span(span.path, span.label, 0, span.path.stat().st_size)
        first = next(read_objects(head, shown), None)
        column = column if first is None else choose_text_field(*first[1:], column)
    for number, where, row in read_objects(span, shown):
        column = choose_text_field(where, row, column)
        text = row[column]
        if not isinstance(text, str | None):
            raise IsoscopeError(f"{where}: {column!r} must be a string; it is a {type(text).__name__}.")
        if text and not text.isspace():
            yield number, text


def choose_text_field(where: str, row: Any, column: str | None) -> str:
    """The field of a line that holds its text."""
    if not isinstance(row, dict):
        raise IsoscopeError(f"{where} must be a JSON object with a text field; it is a {type(row).__name__}.")
    return column if column is not None and column in row else choose_column(where, column, list(row), string_columns(row))


def read_parquet_rows(span: Span, column: str | None, shown: str) -> Iterator[tuple[str, str]]:
    """The text column of the row groups that start in the range, one batch of rows at a time."""
    import pyarrow as pa

    def is_text(kind: Any) -> bool:
        return is_text(kind.value_type) if pa.types.is_dictionary(kind) else pa.types.is_string(kind) or pa.types.is_large_string(kind)

    with open_parquet_file(span.path, groups=()) as file:
        schema = file.schema_arrow
        texts = [field.name for field in schema if is_text(field.type)]
        column = choose_column(shown, column, schema.names, texts)
        if column not in texts:
            raise IsoscopeError(f"{shown}: the column {column!r} must hold strings; it holds {schema.field(column).type}.")
        places: dict[int, tuple[int, int]] = {}  # by number of the row group: where it starts, and its rows
        for chunk in read_chunks(span.path):
            places[chunk.group] = min(chunk.at, places.get(chunk.group, (chunk.at, 0))[0]), chunk.rows
    chosen = [group for group, (at, _) in places.items() if span.start <= at < span.end]
    if not chosen:
        return
    # As a dictionary, equal documents are decoded once and not once per row. A few kilobytes of Parquet can repeat a long document a
    # thousand times; only one of its copies at a time becomes a Python string.
    with open_parquet_file(span.path, groups=chosen, read_dictionary=[column]) as file:
        for group in chosen:
            number = sum(rows for other, (_, rows) in places.items() if other < group)
            for batch in file.iter_batches(batch_size=BATCH, row_groups=[group], columns=[column]):
                for cell in batch.column(0):
                    text = cell.as_py()
                    if text and len(text) > MAX_TEXT:
                        raise IsoscopeError(f"{shown}: row {number} has more than {MAX_TEXT:,} characters and is refused; divide it.")
                    if text and not text.isspace():
                        yield str(number), text
                    number += 1


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
