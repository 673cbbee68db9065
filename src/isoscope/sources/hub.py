"""A dataset of text, speech or images on the Hugging Face hub, streamed.

    hf:NAME[?config=CONFIG&split=SPLIT&revision=REVISION]

    hf:wikitext?config=wikitext-103-v1&split=validation
    hf:allenai/c4?config=en&split=validation&revision=607bd4c8450a42878aa9ddc051a65a055450ef87

The split is `train` unless named, the revision the newest. Whatever was asked for, the revision is resolved to a commit when the
source is opened, read from that commit only, and is part of the fingerprint: a dataset that changes is another source.

Clips and images are fetched as the bytes they are stored as, and decoded here as files are: the client's own decoder of sound needs
a package that brings torch.
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

from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.extras import import_optional
from isoscope.core.source import Item, SourceKind
from isoscope.sources.images import read_image
from isoscope.sources.speech import read_clip
from isoscope.sources.text import choose_column

OPTIONS = ("config", "split", "revision")
USUAL = {"text": "text", "speech": "audio", "images": "image"}
"""What the column is called in most datasets of a modality."""
FEATURE = {"speech": "Audio", "images": "Image"}
"""What the client calls the type of the column."""


LARGEST = 1 << 30
"""Bytes of one clip or image."""
ARCHIVED = re.compile(r"(?:zip|tar|gzip|bz2|xz|zstd)://")
HUB_FILE = re.compile(r"^(?:hf://|https://[^/]+/)datasets/")


class HubSource:
    """One column of one split of a dataset, at one commit."""

    def __init__(self, name: str, column: str | None, config: str | None, split: str, revision: str, modality: str = "text") -> None:
        self.name, self.column, self.config, self.split, self.revision = name, column, config, split, revision
        self.modality = modality

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the dataset's name, configuration, split, commit and column; its rows are not fetched for it."""
        parts = [self.name, self.config or "", self.split, self.revision, self.column or USUAL[self.modality]]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def items(self) -> Iterator[Item]:
        """Every row that holds something; rows without are passed over but counted."""
        load = client(self.name, "datasets").load_dataset
        label = "/".join(filter(None, (self.name, self.config, self.split)))
        with explained(self.name):
            rows = load(self.name, self.config, split=self.split, revision=self.revision, streaming=True)
            contents = self.texts(rows) if self.modality == "text" else self.decoded(rows, label)
            for ordinal, content in enumerate(contents):
                if content is not None:
                    yield Item(f"{label}#{ordinal}", content)

    def texts(self, rows: Any) -> Iterator[str | None]:
        """The text of every row, or None."""
        column = self.column
        for ordinal, row in enumerate(rows):
            if column is None or column not in row:
                strings = [key for key, value in row.items() if isinstance(value, str)]
                column = choose_column(f"The dataset {self.name}", column, list(row), strings)
            text = row[column]
            if not isinstance(text, str | None):
                kind = type(text).__name__
                raise IsoscopeError(f"The column {column!r} of the dataset {self.name} must hold strings; row {ordinal} is a {kind}.")
            yield text if text and not text.isspace() else None

    def decoded(self, rows: Any, label: str) -> Iterator[Any]:
        """The clip or the image of every row, or None."""
        feature = getattr(client(self.name, "datasets"), FEATURE[self.modality])
        features = rows.features or {self.column or USUAL[self.modality]: None}
        columns, fitting = list(features), [column for column, kind in features.items() if isinstance(kind, feature)]
        known = columns if self.column else fitting or columns
        column = choose_column(f"The dataset {self.name}", self.column, known, fitting, USUAL[self.modality])
        read = read_clip if self.modality == "speech" else read_image
        for ordinal, row in enumerate(rows.select_columns([column]).cast_column(column, stored(feature))):
            if row[column] is None:
                yield None
                continue
            yield read(self.opened(row[column]), f"{label}#{ordinal}")

    def opened(self, cell: dict[str, Any]) -> BinaryIO:
        """The bytes of a cell as a file; where there are none, those its path leads to, on this machine, in an archive or on the hub."""
        if cell["bytes"] is not None:
            return io.BytesIO(cell["bytes"])
        if not self.owns(str(cell["path"])):
            raise IsoscopeError(f"The dataset {self.name} has a row that leads out of it ({cell['path']!r:.120}); it was not followed.")
        with client(self.name, "fsspec").open(cell["path"], "rb") as file:
            raw = file.read(LARGEST + 1)
        if len(raw) > LARGEST:
            raise IsoscopeError(f"The dataset {self.name} has a clip or image of more than {LARGEST:,} bytes, which is refused.")
        return io.BytesIO(raw)

    def owns(self, path: str) -> bool:
        """Whether a path that a row names is a file of this dataset, or of an archive of it: rows are written by strangers."""
        *within, place = path.split("::")
        if not all(ARCHIVED.match(one) for one in within):
            return False
        if Path(self.name).is_dir():
            return Path(place).resolve().is_relative_to(Path(self.name).resolve())
        return HUB_FILE.sub("", place).startswith((f"{self.name}@", f"{self.name}/")) and ".." not in place


def stored(feature: Any) -> Any:
    """The type of a column of sounds or images that is left as it is stored: bytes, or the path of a file.

    The client's own `Audio(decode=False)` still asks for the decoder's package where the rows are files of a folder.
    """

    class Stored(feature):  # type: ignore[misc]
        def encode_example(self, value: Any) -> Any:
            return value if isinstance(value, dict) else {"bytes": None, "path": str(value)}

    return Stored(decode=False)


def client(dataset: str, module: str) -> Any:
    """A module of the hub's client, which only this kind of source needs."""
    return import_optional(module, f"hf:{dataset}")


@contextmanager
def explained(dataset: str) -> Iterator[None]:
    """Say in one sentence what the hub's client raised: without a network, a name or a right, its versions raise unrelated types."""
    try:
        yield
    except IsoscopeError:
        raise
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise IsoscopeError(
            f"The dataset {dataset} could not be read from the hub ({reason}); check its name, config, split and revision and the network, "
            "or download its Parquet files and name those."
        ) from error


def parse(spec: str) -> tuple[str, dict[str, str]]:
    """The dataset's name and the options of a spec.

    >>> parse("hf:wikitext?config=wikitext-2-v1&split=test")
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
    """The dataset that `hf:…` names, at the commit that its revision means now."""
    if not spec.startswith("hf:"):
        return None
    name, options = parse(spec)
    client(name, "datasets")  # before the network: huggingface_hub may be there without it
    with explained(name):
        commit = client(name, "huggingface_hub").dataset_info(name, revision=options.get("revision")).sha
    return HubSource(name, column, options.get("config"), options.get("split", "train"), commit, modality)


ACCEPTS = "hf:NAME?config=…&split=…&revision=… for a dataset on the Hugging Face hub"
hub = SourceKind("hub", "text, speech, images", ACCEPTS, open_hub)
