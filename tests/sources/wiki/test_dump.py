"""A wiki dump: the right pages, cleaned of all that is no prose, in bounded time and memory, and a sentence for every mistake."""

import bz2
import tracemalloc
import unicodedata
import zipfile
from html import escape
from pathlib import Path

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError, IsoscopeWarning
from isoscope.sources import open_source
from isoscope.sources.wiki import LATIN, SIZE, frequent_characters

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.3/" version="0.3" xml:lang="en">
  <siteinfo>
    <sitename>Inventopaedia</sitename>
    <namespaces>
      <namespace key="-2">Media</namespace>
      <namespace key="0" />
      <namespace key="1">Talk</namespace>
      <namespace key="4">Inventopaedia</namespace>
      <namespace key="6">Bild</namespace>
      <namespace key="14">Kategorie</namespace>
    </namespaces>
  </siteinfo>
"""

LANTERN = """{{Infobox lamp
 | name = Tide lantern
 | light = {{convert|3|cd|{{unit|lm}}}}
}}
[[Image:Lantern.jpg|thumb|right|200px|A lantern of the [[Harbour Guild|guild]] in [[brass]]]]
The '''tide lantern''' is a [[lamp]] that burns while the [[sea level|water]] rises.<ref name="a">''Lamps'', p. 3</ref><ref name="a" />
It costs 5&nbsp;crowns &mdash; or 3 &lt; 5 shillings.<!-- check
this --> See [[Ostrava (town)|]], [[#Uses|below]] and [[:Category:Lamps]].

== Uses ==
* [[Sail]]ors' guides, see [http://example.org/lamps the list of lamps] and [http://example.org/bare]
* ''Fishing''<br />by night
# H<sub>2</sub>O is <span style="color: red">wet</span>

{| class="wikitable"
! Year !! Lamps
|-
| 1801 || {{nb|12}}
{| border=1
| inner
|}
|}
The wick is found by <math>\\frac{a}{{b}}</math> or by
 for wick in lamp:
     burn(wick)
and by <code>burn([[lamp]])</code>, <source lang="c">int x[3][[2]];</source> or <nowiki>[[not a link]]</nowiki>it goes out.
<gallery>
Image:One.jpg|One lamp
</gallery>
<timeline>
bar:1 from:0
</timeline>
<pre>
raw {{text}}
</pre>
=== Café &amp; inn ===
----
: It ends here. __NOTOC__

[[Category:Lamps]] [[Kategorie:Lampen]] [[Bild:x.png]] [[de:Gezeitenlaterne]] [[zh-min-nan:Lantern]]
"""

PLAIN = """The tide lantern is a lamp that burns while the water rises.
It costs 5 crowns — or 3 < 5 shillings. See Ostrava, below and Category:Lamps.

Uses
Sailors' guides, see the list of lamps and
Fishing
by night
H2O is wet

The wick is found by or by
and by, or it goes out.

Café & inn

It ends here."""


def page(title, text, *more):
    return (
        f"  <page>\n    <title>{escape(title)}</title>\n{''.join(more)}    <id>1</id>\n    <revision>\n      <id>2</id>\n      "
        f'<text xml:space="preserve">{escape(text)}</text>\n    </revision>\n  </page>\n'
    )


PAGES = [
    page("Tide lantern", LANTERN),
    page("Lantern, tide", "#REDIRECT [[Tide lantern]]"),
    page("Lamp of the tide", "[[Tide lantern]]", '    <redirect title="Tide lantern" />\n'),
    page("Talk:Tide lantern", "I do not believe in it."),
    page("Glass: a history", "Glass is '''old'''."),
    page("Only marks", "{{stub}} [[Category:Lamps]]"),
    page("Numbered talk", "Elsewhere.", "    <ns>1</ns>\n"),
    page("Talk:Numbered article", "An article.", "    <ns>0</ns>\n"),
]
DUMP = HEAD + "".join(PAGES) + "</mediawiki>\n"
TITLES = ["Tide lantern", "Glass: a history", "Talk:Numbered article"]


def write(path, content=DUMP):
    content = content.encode() if isinstance(content, str) else content
    if path.suffix == ".bz2":
        path.write_bytes(bz2.compress(content))
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("readme.txt", "what this is")
            archive.writestr("enwik8", content)
    else:
        path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize("name", ["enwik8", "dump.xml", "dump.xml.bz2", "enwik8.zip"])
def test_every_form_of_a_dump_gives_the_same_articles(tmp_path, name):
    source = open_source(write(tmp_path / name))
    items = list(source.items())
    assert (source.modality, source.name) == ("text", name)
    assert [item.id for item in items] == TITLES
    assert items[0].content == PLAIN
    assert items[1].content == "Glass is old."
    assert list(source.items()) == items


def test_a_page_that_the_end_cuts_off_is_left_out_wherever_it_is_cut(tmp_path):
    start, end = DUMP.index("<title>Glass"), DUMP.index("</page>", DUMP.index("<title>Glass"))
    for cut in range(start, end + len("</page>"), 7):
        items = list(open_source(write(tmp_path / "enwik8", DUMP[:cut])).items())
        assert [item.id for item in items] == TITLES[:1]
    assert [item.id for item in open_source(write(tmp_path / "enwik8", DUMP[: end + len("</page>")])).items()] == TITLES[:2]
    accented = (HEAD + page("A", "first") + page("B", "é")).encode()
    cut = accented.index("é".encode()) + 1
    assert [item.id for item in open_source(write(tmp_path / "enwik8", accented[:cut])).items()] == ["A"]


def test_the_last_revision_counts(tmp_path):
    twice = page("A", "old").replace("</revision>", "</revision>\n<revision><text>new</text></revision>")
    (item,) = open_source(write(tmp_path / "a.xml", f"<mediawiki>{twice}</mediawiki>")).items()
    assert item.content == "new"


def test_without_a_list_of_namespaces_the_english_ones_are_meant(tmp_path):
    dump = "<mediawiki>" + page("User:A", "me") + page("B", "[[Category:C]] text") + "</mediawiki>"
    assert [(item.id, item.content) for item in open_source(write(tmp_path / "a.xml", dump)).items()] == [("B", "text")]


def test_the_alphabets(tmp_path):
    text = "Tōkyō (東京) is a “large” city of cafés. " * 3
    path = write(tmp_path / "a.xml", f"<mediawiki>{page('A', text)}</mediawiki>")
    contents = {kind: next(open_source(f"{path}?alphabet={kind}").items()).content for kind in ("latin", "frequent", "all")}
    assert contents["latin"] == ("Tky is a “large” city of cafés. " * 3).strip()
    assert contents["frequent"] == contents["all"] == text.strip()
    prints = {open_source(spec).fingerprint for spec in (path, f"{path}?alphabet=latin")}
    assert len(prints) == 1
    assert len(prints | {open_source(f"{path}?alphabet={kind}").fingerprint for kind in ("frequent", "all")}) == 3
    assert open_source(f"{path}?alphabet=frequent").name == "a.xml?alphabet=frequent"


def test_an_alphabet_has_exactly_205_characters():
    assert SIZE == len(LATIN) == len(set(LATIN)) == 205
    assert unicodedata.is_normalized("NFC", LATIN)
    assert all(symbol == "\n" or symbol.isprintable() for symbol in LATIN)
    texts = ["".join(map(chr, range(0x4E00, 0x4E00 + 300))), "".join(map(chr, range(0x4E00 + 100, 0x4E00 + 300)))]
    chosen = frequent_characters(texts)
    assert len(chosen) == 205
    assert chosen == "\n " + "".join(map(chr, [*range(0x4E00, 0x4E00 + 3), *range(0x4E00 + 100, 0x4E00 + 300)]))


def test_the_fingerprint_follows_the_content_and_not_the_name(tmp_path):
    first, second = open_source(write(tmp_path / "a.xml")), open_source(write(tmp_path / "b"))
    assert first.fingerprint == second.fingerprint
    assert open_source(write(tmp_path / "c", DUMP.replace("old", "odd"))).fingerprint != first.fingerprint


def test_a_wiki_in_another_script_warns(tmp_path):
    path = write(tmp_path / "a.xml", f"<mediawiki>{page('A', 'Токио е град (1868).')}</mediawiki>")
    with pytest.warns(IsoscopeWarning, match=r"leaves out \d\d% of the first article of .*a\.xml; .*\?alphabet=frequent"):
        open_source(path)


def test_memory_holds_a_page_and_not_the_dump(tmp_path):
    words = [str(number) for number in np.random.default_rng(0).integers(10_000, 100_000, 20_000)]
    path = tmp_path / "big.xml.bz2"
    with bz2.open(path, "wb", compresslevel=1) as file:
        file.write(HEAD.encode())
        for i in range(80):
            file.write(page(f"A{i}", " ".join(words[i:] + words[:i])).encode())
    path.write_bytes(path.read_bytes() + bz2.compress(b"</mediawiki>"))  # a second stream, as dumps have them
    source = open_source(str(path))
    tracemalloc.start()
    assert sum(len(item.content) for item in source.items()) == 80 * 119_999
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3e6


BOMB = '<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.xml", "", r"a\.xml is empty; a source of wiki pages is a MediaWiki XML dump"),
        ("a.xml", "words", r"is not the XML of a MediaWiki dump, or is damaged \(syntax error: line 1"),
        ("a.xml", "<rss><item/></rss>", r"its outermost element is <rss> instead of <mediawiki>"),
        ("a.xml", BOMB + DUMP, r"declares a document type, which no dump does and which is refused"),
        ("a.xml", HEAD + "<page></title>", r"or is damaged \(mismatched tag: line 1\d"),
        ("a.xml", b"<mediawiki>\xff\xfe</mediawiki>", r"or is damaged \(not well-formed"),
        ("a.xml", '<?xml version="1.0" encoding="nonsense"?><mediawiki/>', r"or is damaged \(unknown encoding"),
        ("a.xml", "<mediawiki>" + "<a>" * 40, r"more than 32 elements within each other"),
        ("enwik8", HEAD, r"holds no complete article with text in the alphabet latin; give a dump"),
        ("a.xml", HEAD + PAGES[1], r"holds no complete article"),
        ("a.xml", DUMP[: DUMP.index("tide lantern")], r"holds no complete article"),
        ("a.xml.bz2", "words", r"a\.xml\.bz2 is not the XML of a MediaWiki dump"),
        ("a.zip", "words", r"a\.zip holds no MediaWiki dump \(it holds readme\.txt, enwik8\)"),
    ],
)
def test_files_that_are_no_dumps_are_refused_in_one_sentence(tmp_path, name, content, said):
    with pytest.raises(IsoscopeError, match=said):
        list(open_source(write(tmp_path / name, content)).items())


def test_archives_that_are_damaged(tmp_path):
    whole = bz2.compress(DUMP.encode())
    for name, content, said in [
        ("cut.bz2", whole[: len(whole) // 2], "cut short, damaged or locked"),
        ("bad.bz2", whole[:40] + b"garbled" + whole[47:], "cut short, damaged or locked"),
        ("not.bz2", b"plain words", "is not the XML"),
        ("not.zip", b"PK\x03\x04 and no more", "cut short, damaged or locked"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(IsoscopeError, match=said):
            open_source(str(tmp_path / name))
    archive = bytearray(Path(write(tmp_path / "a.zip")).read_bytes())
    middle = archive.index(b"enwik8") + 200
    archive[middle : middle + 50] = bytes(50)
    (tmp_path / "a.zip").write_bytes(archive)
    with pytest.raises(IsoscopeError, match="cut short, damaged or locked"):
        list(open_source(str(tmp_path / "a.zip")).items())


def test_an_archive_of_two_dumps_names_them(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("one.xml", DUMP)
        archive.writestr("two.xml", '<?xml version="1.0"?>\n' + DUMP)
    with pytest.raises(IsoscopeError, match=r"holds 2 MediaWiki dumps \(one\.xml, two\.xml\); unpack the one"):
        open_source(str(tmp_path / "a.zip"))


@pytest.mark.parametrize(
    ("name", "inside", "said"),
    [
        ("a.xml", "<page><title>A</title><revision><text>" + "a" * (1 << 24), r"a page of more than 16,777,216 characters"),
        ("a.xml", "<page a='" + "a" * (1 << 24), r"a tag or comment of more than 1,048,576 bytes"),
        ("a.xml.bz2", " " * (1 << 25), r"unfolds to more than 200 times its size, which is refused as a decompression bomb"),
        ("a.zip", " " * (1 << 25), r"unfolds to more than 200 times its size"),
    ],
)
def test_bombs_are_refused(tmp_path, name, inside, said):
    path = write(tmp_path / name, "<mediawiki>" + inside + "aa")
    with pytest.raises(IsoscopeError, match=said):
        open_source(path)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("alphabet=greek", r"the alphabet must be one of latin, frequent, all; it is 'greek'"),
        ("alphbet=all", r"has the option 'alphbet', did you mean alphabet; a dump takes alphabet"),
    ],
)
def test_unknown_options_are_refused(tmp_path, query, said):
    with pytest.raises(IsoscopeError, match=said):
        open_source(f"{write(tmp_path / 'a.xml')}?{query}")


def test_other_files_are_left_to_other_sources(tmp_path):
    assert [item.id for item in open_source(write(tmp_path / "a.txt", "<mediawiki> is an element")).items()] == ["a.txt#0"]
    with pytest.raises(IsoscopeError, match=r"No source reads .*a\.md"):
        open_source(write(tmp_path / "a.md", "words"))
