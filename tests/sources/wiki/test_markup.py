"""Wikitext is cleaned of everything that is no prose, in linear time."""

import re
import time
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from isoscope.sources.wiki import LATIN, clean, keep_characters


@pytest.mark.parametrize(
    ("wikitext", "plain"),
    [
        ("a {{b|{{c}}|{{{d|}}}}} e", "a e"),
        ("a {{{{b}}c}} d", "a d"),
        ("a {{b [[c|d e", "a b c|d e"),
        ("a [[b {{c}} d", "a b d"),
        ("a {{b|[[c}} d", "a d"),
        ("a ]] b }} c", "a b c"),
        ("[[File:a.png|thumb|see [http://b.org c]]] d", "d"),
        ("[[File:a.png|b\n\nc [[d]] e.\n\nf", "File:a.png|b\n\nc d e.\n\nf"),
        ("[[a\n\nb]] c", "a\n\nb c"),
        ("[[Star Trek: Voyager]]", "Star Trek: Voyager"),
        ("[[wikt:lamp|lamp]], [[fr:lampe|en français]], [[fr:lampe]]x", "lamp, en français, x"),
        ("[[:fr:lampe]]", "fr:lampe"),
        ("[[Portland, Oregon|]] [[a (b)|]] [[c:d|]]", "Portland a d"),
        ("a<ref>b c\n\nd<ref>e</ref> f", "ab c\n\nd f"),
        ("a<!-- b <!-- c --> d", "a b d"),
        ("a<nowiki><!--</nowiki> b", "a b"),
        ("a<REF name=b/>c<Ref >d</ REF></rEf >e", "ace"),
        ("x <y and y> z, <foo>bar</foo>, <b", "x < y and y> z, bar, < b"),
        ("&lt;b&gt;a&lt;/b&gt; &#91;&#91;c]] &amp;lt;", "a [c &lt;"),
        ("{| a\n| b\nc\n\nd", "c\n\nd"),
        ("a\n:{|\n| b\n|}\nc", "a\n\nc"),
        ("{{a\n|b=c\n|}} d", "d"),
        ("= a =\n== b == <!-- c -->\n=d", "a\nb\n=d"),
        ("a\n {{b}}c\n <blockquote>d</blockquote>", "a\nc\n\nd"),
        ("a (''{{b}}'', ) c ({{d}}; e).", "a c (e)."),
        ("the .NET of {{a}}, b", "the .NET of, b"),
        ("[https://a.org b [sic] c] [//d.org e] [f]", "b [sic] c] e [f]"),
        ("e\u0301 a\u00ad\u200bb\u2009c\r\nd", "é ab c\nd"),
        ("", ""),
    ],
)
def test_each_construct_of_wikitext(wikitext, plain):
    assert clean(wikitext) == plain


MARKS = [
    "{{",
    "}}",
    "{{{",
    "[[",
    "]]",
    "[",
    "]",
    "{",
    "<",
    ">",
    "<ref>",
    "</ref>",
    "<ref/>",
    "<!--",
    "-->",
    "|",
    "''",
    "=",
    "<b",
    "/",
    "!",
    "(",
]
MARKS += ["File:", "de:", "&lt;", "&#91;", "&#123;", ")", ",", "東", "é", "a"]
MARKS += ["\n{|", "\n|}", "\n ", "\n", "[http://a.org ", "\u0338", "\u200b"]


@settings(max_examples=250, deadline=None)
@given(st.one_of(st.text(), st.lists(st.sampled_from(MARKS)).map("".join)))
@example("<<b>b>[<i>[{</i>{")
@example("<東b [東[ {()( )}{ <()b")
@example("&#" + "9" * 5000 + ";")
def test_no_text_leaves_an_opening_mark_after_cleaning(wikitext):
    plain = clean(wikitext)
    narrow = keep_characters(plain, LATIN)
    assert set(narrow) <= set(LATIN)
    assert unicodedata.is_normalized("NFC", plain)
    for text in (plain, narrow):
        assert not re.search(r"<[a-zA-Z/!]|\[\[|\{\{", text)


def seconds(text):
    started = time.process_time()
    clean(text)
    return time.process_time() - started


OPENED = ["{{", "[[", "<ref>", "<!--", "\n{|", "<", "[http://", "[[File:", "{{[[", "<ref><math>", "(", "\u0301\u0323"]


@pytest.mark.parametrize("opened", OPENED)
def test_a_megabyte_of_one_mark_takes_linear_time(opened):
    assert seconds(opened * (1_000_000 // len(opened))) < max(2, 8 * seconds(opened * (250_000 // len(opened))))  # 16 if quadratic


def test_deep_links_take_linear_time_and_keep_their_words():
    def deep(n):
        return "[[" * n + "word " * n + "]]" * n

    assert clean(deep(1000)).count("word") == 1000
    assert seconds(deep(100_000)) < max(2, 8 * seconds(deep(25_000)))
