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
from isoscope.core.source import Item, SourceKind, fingerprint_of, short_name
from isoscope.sources.wiki.dump import pages, starts_like_a_dump
from isoscope.sources.wiki.markup import clean, compact

__all__ = ["LATIN", "WikiSource", "clean", "most_frequent", "restricted", "wiki"]

CLEANING = 1
"""To be raised when a change of the cleaning changes the text: it is part of the fingerprint."""
SIZE = 205
"""Characters in the alphabet, as many as enwik8 has byte values."""
LATIN = "\n" + "".join(map(chr, [*range(0x20, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)])) + "–—‘’“”…•†€′″−→™"
"""The default alphabet: a line's end, printable ASCII, Latin-1 without its two invisible characters, and fifteen signs."""
ALPHABETS = ("latin", "frequent", "all")
STRANGE = 0.2
"""The share of the first article that may fall to the Latin alphabet without a warning."""
ENDINGS = (".xml", ".bz2", ".zip")


class WikiSource:
    """The articles of one dump, an item each, by their titles; redirects and pages of other namespaces are left out.

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
            return most_frequent(text for _, text in self.cleaned())
        return LATIN if self.alphabet == "latin" else None

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the rules of the cleaning, over the alphabet's own hash, and over the file's size and bytes, not its name."""
        kept = hashlib.sha256(self.symbols.encode()).hexdigest() if self.symbols is not None else "all"
        return fingerprint_of([self.path], ["dump"], f"cleaning {CLEANING} alphabet {kept}\n")

    def cleaned(self) -> Iterator[tuple[str, str]]:
        """Titles and plain texts, before the alphabet is applied."""
        return ((page.title, clean(page.text, page.hidden)) for page in pages(self.path))

    def items(self) -> Iterator[Item]:
        """Every article that has text left."""
        found, symbols = False, self.symbols
        for title, text in self.cleaned():
            if kept := text if symbols is None else restricted(text, symbols):
                found = True
                yield Item(title, kept)
        if not found:
            which = "" if symbols is None else f" in the alphabet {self.alphabet}"
            raise IsoscopeError(f"{self.path} holds no complete article with text{which}; give a dump with one that is no redirect.")


def restricted(text: str, symbols: str) -> str:
    """A text without the characters that an alphabet lacks.

    >>> restricted("Tokyo (東京) is “large”", LATIN)
    'Tokyo is “large”'
    """
    return compact(re.sub(f"[^{re.escape(symbols)}]+", "", text))


def most_frequent(texts: Iterable[str], size: int = SIZE) -> str:
    """The most frequent characters of texts, in the order of their code points; of equally frequent ones those with lower ones.

    A line's end and the space are always among them, because texts are laid out with them.

    >>> most_frequent(["banana", "bees"], size=5)
    '\\n abe'
    """
    counts = Counter[str]()
    for text in texts:
        counts.update(text)
    chosen = sorted(counts.keys() - {"\n", " "}, key=lambda symbol: (-counts[symbol], symbol))[: size - 2]
    return "".join(sorted(["\n", " ", *chosen]))


def parse(spec: str) -> tuple[Path, str] | None:
    """The file and the alphabet of a spec, or None where it names no file."""
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
    """Whether a file is meant as a dump: by its ending, or by how it begins."""
    if path.suffix.lower() in ENDINGS:
        return True
    with path.open("rb") as file:
        return starts_like_a_dump(file.read(4096))


def open_wiki(spec: str, column: str | None, modality: str) -> WikiSource | None:
    """The dump that `spec` means, or None; the first page is read at once, so that a mistake is told before a model is loaded."""
    parsed = parse(spec)
    if parsed is None or not is_dump(parsed[0]):
        return None
    source = WikiSource(*parsed)
    first = next(source.items())
    if source.alphabet == "latin":
        text = next(text for title, text in source.cleaned() if title == first.id)
        lost = 1 - len(first.content) / len(text)
        if lost > STRANGE:
            warnings.warn(
                f"The alphabet of {SIZE} Latin characters leaves out {lost:.0%} of the first article of {parsed[0]}; for a wiki in another "
                f"script write {parsed[0]}?alphabet=frequent or ?alphabet=all.",
                IsoscopeWarning,
                stacklevel=2,
            )
    return source


ACCEPTS = "a MediaWiki XML dump such as enwik8 (plain, .bz2 or .zip; ?alphabet=latin, frequent or all)"
wiki = SourceKind("wiki", "text", ACCEPTS, open_wiki)
