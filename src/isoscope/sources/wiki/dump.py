"""The articles of a MediaWiki dump, streamed: plain XML, .bz2, or .zip with one dump in it."""

from __future__ import annotations

import bz2
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast
from xml.parsers import expat

from isoscope.core.errors import IsoscopeError, first_line
from isoscope.sources.wiki.markup import HIDDEN_PREFIXES

BLOCK = 1 << 16
MAX_PAGE = 1 << 24
"""Characters of a page beyond which a dump is refused; wikis allow 2 MiB."""
MAX_TAG = 1 << 20
"""Bytes of one tag or comment of the XML. The parser reads an unfinished one again with every block, in quadratic time."""
MAX_RATIO = 200
"""The most that a dump may be compressed (English Wikipedia: 3 to 6), beyond the first `MAX_PAGE` bytes."""
MAX_MEMBERS = 1_000
"""Files in an archive that are examined."""
MAX_DEPTH = 32
"""Nested elements; dumps have 5."""

UNREADABLE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError)
START = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*\?>)?(?:\s|<!--.*?-->)*<mediawiki[\s>]", re.DOTALL)
REDIRECT = re.compile(r"\s*#redirect\b", re.IGNORECASE)
TEXT_ELEMENTS = frozenset({"title", "ns", "text", "namespace"})
EXPECTED = "a source of wiki pages is a MediaWiki XML dump, plain, .bz2 or .zip"
NAMESPACES = frozenset({"media", "special", "user", "wikipedia", "project", "file", "image", "mediawiki", "template", "help", "category"})
"""Namespaces other than that of articles, in lower case, for dumps that neither number their pages nor list their namespaces."""


@dataclass(frozen=True)
class Page:
    """One article as it stands in the dump."""

    title: str
    text: str
    """Wikitext, of the last revision in the dump."""
    hidden_prefixes: frozenset[str]
    """The prefixes of links that show no text, in the language of the wiki and in English."""


def starts_like_a_dump(head: bytes) -> bool:
    """Whether a file with this beginning is a MediaWiki dump.

    >>> starts_like_a_dump(b'<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.3/">'), starts_like_a_dump(b"<html>")
    (True, False)
    """
    return START.match(head) is not None


def read_pages(path: Path) -> Iterator[Page]:
    """The articles of a dump. A page that the end of the dump cuts off, as in enwik8, is left out."""
    parser, size, most = DumpParser(path), 0, MAX_PAGE + MAX_RATIO * path.stat().st_size
    with open_dump(path) as file:
        while block := file.read(BLOCK):
            size += len(block)
            if size > most:
                raise IsoscopeError(f"{path} unfolds to more than {MAX_RATIO} times its size, which is refused as a decompression bomb.")
            parser.feed(block)
            # The index stands at the beginning of an unfinished tag, which the parser keeps and scans again with the next block.
            if size - parser.expat.CurrentByteIndex > MAX_TAG:
                raise IsoscopeError(f"{path} has a tag or comment of more than {MAX_TAG:,} bytes in its XML and is refused; {EXPECTED}.")
            yield from parser.articles
            parser.articles.clear()
    # The XML of a dump that is cut off never ends; only a file without any element is told that it must.
    if not parser.begun:
        parser.feed(b"", last=True)


class DumpParser:
    """Follows the XML of a dump and collects the articles. It holds one page."""

    def __init__(self, path: Path) -> None:
        self.path, self.articles = path, list[Page]()
        self.begun, self.depth = False, 0
        self.element, self.pieces, self.size = "", list[str](), 0  # the text element that is open, and its text so far
        self.page, self.namespace_key = dict[str, str](), ""
        self.namespaces, self.hidden_prefixes = set[str](), set(HIDDEN_PREFIXES)
        self.expat = expat.ParserCreate()
        self.expat.buffer_text, self.expat.buffer_size = True, BLOCK
        self.expat.StartDoctypeDeclHandler = self.refuse_doctype
        self.expat.StartElementHandler, self.expat.EndElementHandler = self.start_element, self.end_element
        self.expat.CharacterDataHandler = self.add_text

    def feed(self, block: bytes, last: bool = False) -> None:
        """Parse the next bytes."""
        try:
            self.expat.Parse(block, last)
        except (expat.ExpatError, LookupError, ValueError) as error:  # the latter two for unknown encodings
            raise IsoscopeError(f"{self.path} is not the XML of a MediaWiki dump, or is damaged ({error}); {EXPECTED}.") from error

    def refuse_doctype(self, *_: object) -> None:
        """Refuse a document type: dumps declare none, and entities declared in one can grow without bound."""
        raise IsoscopeError(f"{self.path} declares a document type, which no dump does and which is refused; {EXPECTED}.")

    def start_element(self, name: str, attributes: dict[str, str]) -> None:
        """Note the beginning of an element."""
        if not self.begun and name != "mediawiki":
            raise IsoscopeError(f"{self.path} is XML, but its outermost element is <{name[:40]}> instead of <mediawiki>; {EXPECTED}.")
        self.begun, self.depth = True, self.depth + 1
        if self.depth > MAX_DEPTH:
            raise IsoscopeError(f"{self.path} has more than {MAX_DEPTH} elements within each other and is refused; {EXPECTED}.")
        if name == "page":
            self.page = {}
        elif name == "redirect":
            self.page[name] = ""
        elif name in TEXT_ELEMENTS:
            self.element, self.size, self.namespace_key = name, 0, attributes.get("key", "")
            self.pieces.clear()

    def add_text(self, text: str) -> None:
        """Add to the text of the open element, if its text is needed."""
        if not self.element:
            return
        self.size += len(text)
        if self.size > MAX_PAGE:
            raise IsoscopeError(f"{self.path} has a page of more than {MAX_PAGE:,} characters and is refused; {EXPECTED}.")
        self.pieces.append(text)

    def end_element(self, name: str) -> None:
        """Use the text of an element that ends."""
        self.depth -= 1
        if name == "page":
            self.end_page()
        elif name == self.element:
            text, self.element = "".join(self.pieces), ""
            if name == "namespace":
                self.add_namespace(text.strip().lower())
            else:
                self.page[name] = text

    def add_namespace(self, name: str) -> None:
        """Note a namespace. Links to media (keys -2 and 6) and categories (14) show no text."""
        if name and self.namespace_key != "0":
            self.namespaces.add(name)
        if name and self.namespace_key in ("-2", "6", "14"):
            self.hidden_prefixes.add(name)

    def end_page(self) -> None:
        """Add the page that ends, if it is an article and no redirect."""
        title, text = self.page.get("title", "").strip(), self.page.get("text", "")
        prefix, colon, _ = title.partition(":")
        has_other_namespace = bool(colon) and prefix.strip().lower() in (self.namespaces or NAMESPACES)
        is_article = self.page["ns"].strip() == "0" if "ns" in self.page else not has_other_namespace
        if is_article and title and "redirect" not in self.page and not REDIRECT.match(text):
            self.articles.append(Page(title, text, frozenset(self.hidden_prefixes)))


@contextmanager
def open_dump(path: Path) -> Iterator[BinaryIO]:
    """The XML of a dump as a file, decompressed while it is read. Its first bytes tell the format."""
    with path.open("rb") as file:
        head = file.read(4)
    if not head:
        raise IsoscopeError(f"{path} is empty; {EXPECTED}.")
    try:
        if head.startswith(b"BZh"):
            with bz2.open(path) as unpacked:
                yield cast(BinaryIO, unpacked)
        elif head.startswith(b"PK"):
            with zipfile.ZipFile(path) as archive, archive.open(find_dump(archive, path)) as member:
                yield cast(BinaryIO, member)
        else:
            with path.open("rb") as plain:
                yield plain
    except (OSError, EOFError, RuntimeError, ValueError, OverflowError, IndexError, *UNREADABLE) as error:
        reason = first_line(error)
        raise IsoscopeError(
            f"{path} is cut short, damaged or locked and cannot be unpacked ({reason}); fetch or write it again."
        ) from error


def find_dump(archive: zipfile.ZipFile, path: Path) -> zipfile.ZipInfo:
    """The only member of an archive that is a dump."""
    members = [member for member in archive.infolist() if not member.is_dir()]
    if len(members) > MAX_MEMBERS:
        raise IsoscopeError(f"{path} holds {len(members):,} files, and one dump is expected; unpack the one that is meant and name it.")
    dumps = list[zipfile.ZipInfo]()
    for member in members:
        with archive.open(member) as file:
            if starts_like_a_dump(file.read(BLOCK)):
                dumps.append(member)
    if len(dumps) == 1:
        return dumps[0]
    names = ", ".join(member.filename for member in (dumps or members)[:5]) or "nothing"
    if dumps:
        raise IsoscopeError(f"{path} holds {len(dumps)} MediaWiki dumps ({names}); unpack the one that is meant and name it.")
    raise IsoscopeError(f"{path} holds no MediaWiki dump (it holds {names}); {EXPECTED}.")
