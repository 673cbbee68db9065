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

from isoscope.core.errors import IsoscopeError
from isoscope.sources.wiki.markup import HIDDEN

BLOCK = 1 << 16
LONGEST = 1 << 24
"""Characters of a page beyond which a dump is refused; wikis allow 2 MiB."""
LONGEST_TAG = 1 << 20
"""Bytes of one tag or comment of the XML; the parser reads an unfinished one anew with every block, which takes time with its square."""
RATIO = 200
"""Times its size to which a compressed dump may unfold (English Wikipedia: 3 to 6), beyond the first `LONGEST` bytes."""
MEMBERS = 1_000
"""Files of an archive that are looked into."""
DEEPEST = 32
"""Elements within elements; dumps have 5."""

UNREADABLE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError)
START = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*\?>)?(?:\s|<!--.*?-->)*<mediawiki[\s>]", re.DOTALL)
REDIRECT = re.compile(r"\s*#redirect\b", re.IGNORECASE)
GATHERED = frozenset({"title", "ns", "text", "namespace"})
MEANT = "a source of wiki pages is a MediaWiki XML dump, plain, .bz2 or .zip"
NAMESPACES = frozenset({"media", "special", "user", "wikipedia", "project", "file", "image", "mediawiki", "template", "help", "category"})
"""The namespaces beside the articles' own, in lower case, for dumps that neither number pages nor list them."""


@dataclass(frozen=True)
class Page:
    """One article as it stands in the dump."""

    title: str
    text: str
    """Wikitext, of the last revision that the dump has."""
    hidden: frozenset[str]
    """The prefixes of links that show no text, in the language of the wiki and in English."""


def starts_like_a_dump(head: bytes) -> bool:
    """Whether a file that begins so is a MediaWiki dump.

    >>> starts_like_a_dump(b'<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.3/">'), starts_like_a_dump(b"<html>")
    (True, False)
    """
    return START.match(head) is not None


def pages(path: Path) -> Iterator[Page]:
    """The articles of a dump; a page that the end of the dump cuts off, as in enwik8, is left out."""
    reader, fed, most = Reader(path), 0, LONGEST + RATIO * path.stat().st_size
    with opened(path) as file:
        while block := file.read(BLOCK):
            fed += len(block)
            if fed > most:
                raise IsoscopeError(f"{path} unfolds to more than {RATIO} times its size, which is refused as a decompression bomb.")
            reader.feed(block)
            if fed - reader.parser.CurrentByteIndex > LONGEST_TAG:
                raise IsoscopeError(f"{path} has a tag or comment of more than {LONGEST_TAG:,} bytes in its XML and is refused; {MEANT}.")
            yield from reader.found
            reader.found.clear()
    if not reader.begun:
        reader.feed(b"", last=True)


class Reader:
    """Follows the XML of a dump and gathers the articles; holds one page."""

    def __init__(self, path: Path) -> None:
        self.path, self.found = path, list[Page]()
        self.begun, self.depth, self.within, self.size = False, 0, "", 0
        self.gathered, self.page, self.key = list[str](), dict[str, str](), ""
        self.namespaces, self.hidden = set[str](), set(HIDDEN)
        self.parser = expat.ParserCreate()
        self.parser.buffer_text, self.parser.buffer_size = True, BLOCK
        self.parser.StartDoctypeDeclHandler = self.refuse
        self.parser.StartElementHandler, self.parser.EndElementHandler = self.start, self.end
        self.parser.CharacterDataHandler = self.characters

    def feed(self, block: bytes, last: bool = False) -> None:
        """Read on; what is not XML is named by its line."""
        try:
            self.parser.Parse(block, last)
        except (expat.ExpatError, LookupError, ValueError) as error:  # the latter two for encodings that are none
            raise IsoscopeError(f"{self.path} is not the XML of a MediaWiki dump, or is damaged ({error}); {MEANT}.") from error

    def refuse(self, *_: object) -> None:
        """Dumps declare no document type, and entities declared in one can grow without bound."""
        raise IsoscopeError(f"{self.path} declares a document type, which no dump does and which is refused; {MEANT}.")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        if not self.begun and name != "mediawiki":
            raise IsoscopeError(f"{self.path} is XML, but its outermost element is <{name[:40]}> instead of <mediawiki>; {MEANT}.")
        self.begun, self.depth = True, self.depth + 1
        if self.depth > DEEPEST:
            raise IsoscopeError(f"{self.path} has more than {DEEPEST} elements within each other and is refused; {MEANT}.")
        if name == "page":
            self.page = {}
        elif name == "redirect":
            self.page[name] = ""
        elif name in GATHERED:
            self.within, self.size, self.key = name, 0, attributes.get("key", "")
            self.gathered.clear()

    def characters(self, text: str) -> None:
        """Text, of the elements that are wanted."""
        if not self.within:
            return
        self.size += len(text)
        if self.size > LONGEST:
            raise IsoscopeError(f"{self.path} has a page of more than {LONGEST:,} characters and is refused; {MEANT}.")
        self.gathered.append(text)

    def end(self, name: str) -> None:
        """An element ends."""
        self.depth -= 1
        if name == "page":
            self.add()
        elif name == self.within:
            text, self.within = "".join(self.gathered), ""
            if name == "namespace":
                self.add_namespace(text.strip().lower())
            else:
                self.page[name] = text

    def add_namespace(self, name: str) -> None:
        """A namespace by its name and its number: those of media (-2, 6) and categories (14) are not shown where they are linked."""
        if name and self.key != "0":
            self.namespaces.add(name)
        if name and self.key in ("-2", "6", "14"):
            self.hidden.add(name)

    def add(self) -> None:
        """The page that ended, if it is an article and no redirect."""
        title, text = self.page.get("title", "").strip(), self.page.get("text", "")
        prefix, colon, _ = title.partition(":")
        elsewhere = bool(colon) and prefix.strip().lower() in (self.namespaces or NAMESPACES)
        article = self.page["ns"].strip() == "0" if "ns" in self.page else not elsewhere
        if article and title and "redirect" not in self.page and not REDIRECT.match(text):
            self.found.append(Page(title, text, frozenset(self.hidden)))


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The XML of a dump as a file, decompressed as it is read; what it is, its first bytes tell."""
    with path.open("rb") as file:
        head = file.read(4)
    if not head:
        raise IsoscopeError(f"{path} is empty; {MEANT}.")
    try:
        if head.startswith(b"BZh"):
            with bz2.open(path) as unpacked:
                yield cast(BinaryIO, unpacked)
        elif head.startswith(b"PK"):
            with zipfile.ZipFile(path) as archive, archive.open(dump_in(archive, path)) as member:
                yield cast(BinaryIO, member)
        else:
            with path.open("rb") as plain:
                yield plain
    except (OSError, EOFError, RuntimeError, ValueError, OverflowError, IndexError, *UNREADABLE) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise IsoscopeError(f"{path} is cut short, damaged or locked and cannot be unpacked ({reason}); fetch or write it anew.") from error


def dump_in(archive: zipfile.ZipFile, path: Path) -> zipfile.ZipInfo:
    """The only member of an archive that is a dump."""
    members = [member for member in archive.infolist() if not member.is_dir()]
    if len(members) > MEMBERS:
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
    raise IsoscopeError(f"{path} holds no MediaWiki dump (it holds {names}); {MEANT}.")
