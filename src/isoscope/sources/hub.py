"""A dataset of text, speech or images on the Hugging Face hub, streamed.

    hf:NAME[?config=CONFIG&split=SPLIT&revision=REVISION]

    hf:wikitext?config=wikitext-103-v1&split=validation
    hf:allenai/c4?config=en&split=validation&revision=607bd4c8450a42878aa9ddc051a65a055450ef87

The split defaults to `train`, the revision to the newest. When the source is opened, the revision is resolved to a commit. All rows are
read from that commit, and it is part of the fingerprint: a dataset that changes is another source.

Clips and images are fetched as stored bytes and decoded here like files: the client's own decoder of sound needs a package that brings
torch.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qsl

from isoscope.core.errors import IsoscopeError, first_line, import_optional, nearest
from isoscope.core.source import Item, SourceKind
from isoscope.sources.images import read_image
from isoscope.sources.speech import read_clip
from isoscope.sources.text import choose_column, string_columns

OPTIONS = ("config", "split", "revision")
USUAL_COLUMN = {"text": "text", "speech": "audio", "images": "image"}
FEATURE = {"speech": "Audio", "images": "Image"}
"""The client's name for the type of the column."""
MAX_BYTES = 1 << 30
"""Bytes of one clip or image."""
IN_ARCHIVE = re.compile(r"(?:zip|tar|gzip|bz2|xz|zstd)://")
HUB_FILE = re.compile(r"^(?:hf://|https://[^/]+/)datasets/")


class HubSource:
    """One column of one split of a dataset, at one commit."""

    def __init__(self, name: str, column: str | None, config: str | None, split: str, revision: str, modality: str = "text") -> None:
        self.name, self.column, self.config, self.split, self.revision = name, column, config, split, revision
        self.modality = modality

    @property
    def fingerprint(self) -> str:
        """SHA-256 over name, configuration, split, commit and column. The commit stands for the rows, which are not fetched for it."""
        parts = [self.name, self.config or "", self.split, self.revision, self.column or USUAL_COLUMN[self.modality]]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def items(self) -> Iterator[Item]:
        """Every row that holds text, a clip or an image. Empty rows are skipped, but counted in the ids."""
        label = "/".join(filter(None, (self.name, self.config, self.split)))
        with client_errors_as_user_errors(self.name):
            load = import_client(self.name, "datasets").load_dataset
            rows = load(self.name, self.config, split=self.split, revision=self.revision, streaming=True)
        contents = self._read_texts(rows) if self.modality == "text" else self._read_media(rows, label)
        # Empty rows keep their number, so that ids do not change with the modality or with what counts as empty.
        for ordinal, content in enumerate(contents):
            if content is not None:
                yield Item(f"{label}#{ordinal}", content)

    def _stream(self, rows: Any) -> Iterator[dict[str, Any]]:
        """The rows. Only the client runs inside the `with`, so that an error in our own reading of a row keeps its traceback."""
        with client_errors_as_user_errors(self.name):
            yield from rows

    def _read_texts(self, rows: Any) -> Iterator[str | None]:
        """The text of every row, or None."""
        column = self.column
        for ordinal, row in enumerate(self._stream(rows)):
            if column is None or column not in row:
                column = choose_column(f"The dataset {self.name}", column, list(row), string_columns(row))
            text = row[column]
            if not isinstance(text, str | None):
                kind = type(text).__name__
                raise IsoscopeError(f"The column {column!r} of the dataset {self.name} must hold strings; row {ordinal} is a {kind}.")
            yield text if text and not text.isspace() else None

    def _read_media(self, rows: Any, label: str) -> Iterator[Any]:
        """The clip or image of every row, or None."""
        feature, usual = getattr(import_client(self.name, "datasets"), FEATURE[self.modality]), USUAL_COLUMN[self.modality]
        # A streamed dataset may not know its features before its first row; then the usual name of the column is tried.
        features = rows.features or {self.column or usual: None}
        columns, fitting = list(features), [column for column, kind in features.items() if isinstance(kind, feature)]
        column = choose_column(f"The dataset {self.name}", self.column, columns if self.column else fitting or columns, fitting, usual)
        read = read_clip if self.modality == "speech" else read_image
        with client_errors_as_user_errors(self.name):
            rows = rows.select_columns([column]).cast_column(column, undecoded_type(feature))
        for ordinal, row in enumerate(self._stream(rows)):
            yield None if row[column] is None else read(self.open_cell(row[column]), f"{label}#{ordinal}")

    def open_cell(self, cell: dict[str, Any]) -> BinaryIO:
        """The bytes of a cell as a file. A cell without bytes has a path: on this machine, in an archive or on the hub."""
        if cell["bytes"] is not None:
            return io.BytesIO(cell["bytes"])
        if not self.owns(str(cell["path"])):
            raise IsoscopeError(f"The dataset {self.name} has a row that leads out of it ({cell['path']!r:.120}); it was not followed.")
        with client_errors_as_user_errors(self.name), import_client(self.name, "fsspec").open(cell["path"], "rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise IsoscopeError(f"The dataset {self.name} has a clip or image of more than {MAX_BYTES:,} bytes, which is refused.")
        return io.BytesIO(raw)

    def owns(self, path: str) -> bool:
        """Whether a path in a row is a file of this dataset, or of an archive of it. Rows are untrusted."""
        # A file in an archive is written as zip://member::archive; anything else before "::" would be another protocol.
        *archives, place = path.split("::")
        if not all(IN_ARCHIVE.match(archive) for archive in archives):
            return False
        if Path(self.name).is_dir():
            return Path(place).resolve().is_relative_to(Path(self.name).resolve())
        return HUB_FILE.sub("", place).startswith((f"{self.name}@", f"{self.name}/")) and ".." not in place


def undecoded_type(feature: Any) -> Any:
    """The type of a column of sounds or images as it is stored: bytes, or the path of a file.

    The client's own `Audio(decode=False)` still needs the decoder's package if the rows are files of a folder.
    """

    class Undecoded(feature):  # type: ignore[misc]
        def encode_example(self, value: Any) -> Any:
            return value if isinstance(value, dict) else {"bytes": None, "path": str(value)}

    return Undecoded(decode=False)


def import_client(dataset: str, module: str) -> Any:
    """Import a module of the hub's client, which only this kind of source needs."""
    return import_optional(module, f"hf:{dataset}")


@contextmanager
def client_errors_as_user_errors(dataset: str) -> Iterator[None]:
    """Report errors of the hub's client in one sentence. Its versions raise unrelated types for a missing network, name or right."""
    try:
        yield
    except IsoscopeError:
        raise
    except Exception as error:
        raise IsoscopeError(
            f"The dataset {dataset} could not be read from the hub ({first_line(error)}); check its name, config, split and revision and "
            "the network, or download its Parquet files and name those."
        ) from error


def parse_spec(spec: str) -> tuple[str, dict[str, str]]:
    """The dataset's name and the options in a spec.

    >>> parse_spec("hf:wikitext?config=wikitext-2-v1&split=test")
    ('wikitext', {'config': 'wikitext-2-v1', 'split': 'test'})
    """
    name, _, query = spec.removeprefix("hf:").partition("?")
    try:
        options = dict(parse_qsl(query, strict_parsing=True)) if query else {}
    except ValueError as error:
        raise IsoscopeError(f"{spec} must be hf:NAME?config=…&split=…&revision=…; {query!r} is not of that form.") from error
    for option in options:
        if option not in OPTIONS:
            hint = nearest(option, list(OPTIONS)).rstrip("?")
            raise IsoscopeError(f"{spec} has the option {option!r}{hint}; a dataset takes {', '.join(OPTIONS)}.")
    if not name:
        raise IsoscopeError(f"{spec} names no dataset; write hf:NAME?config=…&split=…&revision=….")
    return name, options


def open_hub(spec: str, column: str | None, modality: str) -> HubSource | None:
    """The dataset that `hf:…` names, at the commit of its revision now."""
    if not spec.startswith("hf:"):
        return None
    name, options = parse_spec(spec)
    import_client(name, "datasets")  # first, because huggingface_hub may be installed without it and needs the network
    with client_errors_as_user_errors(name):
        commit = import_client(name, "huggingface_hub").dataset_info(name, revision=options.get("revision")).sha
    return HubSource(name, column, options.get("config"), options.get("split", "train"), commit, modality)


ACCEPTS = "hf:NAME?config=…&split=…&revision=… for a dataset on the Hugging Face hub"
hub = SourceKind("hub", "text, speech, images", ACCEPTS, open_hub)
