"""Pages of a wiki: the articles of a MediaWiki XML dump such as enwik8, as plain text in an alphabet of 205 characters."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from urllib.parse import parse_qsl

from isoscope.core.errors import IsoscopeError, IsoscopeWarning, nearest
from isoscope.core.source import Item, SourceKind
from isoscope.sources._file_parts import FileBytes
from isoscope.sources._item_files import short_name
from isoscope.sources.wiki.dump import read_pages, starts_like_a_dump
from isoscope.sources.wiki.markup import clean, tidy_spaces

__all__ = ["LATIN", "WikiSource", "clean", "frequent_characters", "keep_characters", "wiki"]

CLEANING_VERSION = 1
"""Part of the fingerprint. Raise it when a change of the cleaning changes the text."""
SIZE = 205
"""Characters in the alphabet: the number of different byte values in enwik8."""
LATIN = "\n" + "".join(map(chr, [*range(0x20, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)])) + "–—‘’“”…•†€′″−→™"
"""The default alphabet: the line feed, printable ASCII, Latin-1 without its two invisible characters, and fifteen signs."""
ALPHABETS = ("latin", "frequent", "all")
MAX_LOSS = 0.2
"""The share of the first article that the Latin alphabet may remove without a warning."""
ENDINGS = (".xml", ".bz2", ".zip")


class WikiSource:
    """The articles of one dump, one item each, by title. Redirects and pages of other namespaces are left out.

    The dump is streamed: memory holds one page.
    """

    modality = "text"

    def __init__(self, path: Path, alphabet: str = "latin") -> None:
        self.path, self.alphabet = path, alphabet
        self.name = short_name(str(path)) + ("" if alphabet == "latin" else f"?alphabet={alphabet}")

    @cached_property
    def symbols(self) -> str | None:
        """The characters that are kept, in order, or None for all; `frequent` reads the whole dump to find them."""
        if self.alphabet == "frequent":
            return frequent_characters(text for _, text in self.read_articles())
        return LATIN if self.alphabet == "latin" else None

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the version of the cleaning, the alphabet, and the file's size and bytes; its name does not count."""
        alphabet = hashlib.sha256(self.symbols.encode()).hexdigest() if self.symbols is not None else "all"
        return FileBytes([self.path], ["dump"], f"cleaning {CLEANING_VERSION} alphabet {alphabet}\n").fingerprint

    def read_articles(self) -> Iterator[tuple[str, str]]:
        """Titles and plain texts, before the alphabet is applied."""
        return ((page.title, clean(page.text, page.hidden_prefixes)) for page in read_pages(self.path))

    def items(self) -> Iterator[Item]:
        """Every article that has text left."""
        is_empty, symbols = True, self.symbols
        for title, article in self.read_articles():
            if text := article if symbols is None else keep_characters(article, symbols):
                is_empty = False
                yield Item(title, text)
        if is_empty:
            condition = "" if symbols is None else f" in the alphabet {self.alphabet}"
            raise IsoscopeError(f"{self.path} holds no complete article with text{condition}; give a dump with one that is no redirect.")


def keep_characters(text: str, symbols: str) -> str:
    """A text without the characters that an alphabet lacks.

    >>> keep_characters("Tokyo (東京) is “large”", LATIN)
    'Tokyo is “large”'
    """
    return tidy_spaces(re.sub(f"[^{re.escape(symbols)}]+", "", text))


def frequent_characters(texts: Iterable[str], size: int = SIZE) -> str:
    """The most frequent characters of texts, sorted by code point. If frequencies are equal, the lower code point is preferred.

    The line feed and the space are always among them, because they lay out the text.

    >>> frequent_characters(["banana", "bees"], size=5)
    '\\n abe'
    """
    counts = Counter[str]()
    for text in texts:
        counts.update(text)
    frequent = sorted(counts.keys() - {"\n", " "}, key=lambda symbol: (-counts[symbol], symbol))[: size - 2]
    return "".join(sorted(["\n", " ", *frequent]))


def parse_spec(spec: str) -> tuple[Path, str] | None:
    """The file and the alphabet of a spec, or None if it names no file."""
    if Path(spec).is_file():
        return Path(spec), "latin"
    name, _, query = spec.rpartition("?")
    if "=" not in query or not Path(name).is_file():
        return None
    options = dict(parse_qsl(query, keep_blank_values=True))
    for option in options:
        if option != "alphabet":
            raise IsoscopeError(f"{spec} has the option {option!r}{nearest(option, ['alphabet']).rstrip('?')}; a dump takes alphabet.")
    alphabet = options.get("alphabet", "latin")
    if alphabet not in ALPHABETS:
        raise IsoscopeError(f"{spec}: the alphabet must be one of {', '.join(ALPHABETS)}; it is {alphabet!r}.")
    return Path(name), alphabet


def is_dump(path: Path) -> bool:
    """Whether a file is meant as a dump, by its ending or its beginning."""
    if path.suffix.lower() in ENDINGS:
        return True
    with path.open("rb") as file:
        return starts_like_a_dump(file.read(4096))


def open_wiki(spec: str, column: str | None, modality: str) -> WikiSource | None:
    """The dump that `spec` names, or None."""
    parsed = parse_spec(spec)
    if parsed is None or not is_dump(parsed[0]):
        return None
    source = WikiSource(*parsed)
    first = next(source.items())  # an error in the first page is reported before a model is loaded
    if source.alphabet == "latin":
        text = next(text for title, text in source.read_articles() if title == first.id)
        loss = 1 - len(first.content) / len(text)
        if loss > MAX_LOSS:
            warnings.warn(
                f"The alphabet of {SIZE} Latin characters leaves out {loss:.0%} of the first article of {parsed[0]}; for a wiki in another "
                f"script write {parsed[0]}?alphabet=frequent or ?alphabet=all.",
                IsoscopeWarning,
                stacklevel=2,
            )
    return source


ACCEPTS = "a MediaWiki XML dump such as enwik8 (plain, .bz2 or .zip; ?alphabet=latin, frequent or all)"
wiki = SourceKind("wiki", "text", ACCEPTS, open_wiki)
