"""A dataset of text on the Hugging Face hub, streamed.

    hf:NAME[?config=CONFIG&split=SPLIT&revision=REVISION]

    hf:wikitext?config=wikitext-103-v1&split=validation
    hf:allenai/c4?config=en&split=validation&revision=607bd4c8450a42878aa9ddc051a65a055450ef87

The split is `train` unless named, the revision the newest. Whatever was asked for, the revision is resolved to a commit when the
source is opened, read from that commit only, and is part of the fingerprint: a dataset that changes is another source.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl

from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.source import Item, SourceKind
from isoscope.sources.text import choose_column

OPTIONS = ("config", "split", "revision")


class HubText:
    """One column of one split of a dataset, at one commit."""

    modality = "text"

    def __init__(self, name: str, column: str | None, config: str | None, split: str, revision: str) -> None:
        self.name, self.column, self.config, self.split, self.revision = name, column, config, split, revision

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the dataset's name, configuration, split, commit and column; its rows are not fetched for it."""
        parts = [self.name, self.config or "", self.split, self.revision, self.column or "text"]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def items(self) -> Iterator[Item]:
        """Every row that holds text; rows without are passed over but counted."""
        load = client(self.name, "datasets").load_dataset
        label = "/".join(filter(None, (self.name, self.config, self.split)))
        column = self.column
        with explained(self.name):
            for ordinal, row in enumerate(load(self.name, self.config, split=self.split, revision=self.revision, streaming=True)):
                if column is None or column not in row:
                    strings = [key for key, value in row.items() if isinstance(value, str)]
                    column = choose_column(f"The dataset {self.name}", column, list(row), strings)
                text = row[column]
                if not isinstance(text, str | None):
                    kind = type(text).__name__
                    raise IsoscopeError(f"The column {column!r} of the dataset {self.name} must hold strings; row {ordinal} is a {kind}.")
                if text and not text.isspace():
                    yield Item(f"{label}#{ordinal}", text)


def client(dataset: str, module: str) -> Any:
    """A module of the hub's client, which only this kind of source needs."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise IsoscopeError(f"hf:{dataset} needs the package datasets: pip install 'isoscope[datasets]'.") from error


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


def open_hub(spec: str, column: str | None) -> HubText | None:
    """The dataset that `hf:…` names, at the commit that its revision means now."""
    if not spec.startswith("hf:"):
        return None
    name, options = parse(spec)
    client(name, "datasets")  # before the network: huggingface_hub may be there without it
    with explained(name):
        commit = client(name, "huggingface_hub").dataset_info(name, revision=options.get("revision")).sha
    return HubText(name, column, options.get("config"), options.get("split", "train"), commit)


hub = SourceKind("hub", "text", "hf:NAME?config=…&split=…&revision=… for a dataset on the Hugging Face hub", open_hub)
