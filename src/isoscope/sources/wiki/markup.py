"""Wikitext to plain text: code, media, tables, templates, notes and tags out, the words of links and headings kept.

Every step is one pass over the text: marks are found by expressions that cannot backtrack, and nesting is kept on a stack, so that a page
of nothing but opening marks costs no more than any other. What is opened and never closed loses its mark and keeps its content.
"""

from __future__ import annotations

import html
import re
import unicodedata

HIDDEN = frozenset({"file", "image", "media", "category"})
"""The prefixes of links that show no text, in lower case: media and categories."""

CODE = "code|source|syntaxhighlight|pre|tt|kbd|samp|math|chem|ce|nowiki"
MEDIA = "gallery|timeline|imagemap|score|graph|mapframe|maplink|hiero|img|audio|video"
APART = "ref|references|table|templatedata|templatestyles|inputbox|categorytree|style|script|includeonly"
BLOCKS = "blockquote|br|caption|center|dd|div|dl|dt|h[1-6]|hr|li|ol|p|poem|td|th|tr|ul"
INLINE = (
    "a|abbr|b|bdi|bdo|big|cite|col|colgroup|data|del|dfn|em|font|i|indicator|ins|mark|nobr|noinclude|onlyinclude|q|rb|rp|rt|ruby|s|section|"
    "small|span|strike|strong|sub|sup|tbody|tfoot|thead|time|u|var|wbr"
)

CODE_LINE = "\x00"
"""Put before a line that began with a space, which wikis show as code; no page holds this character."""
INDENTED = re.compile(r"\n ++(?![\s{|!<])")
ELEMENT = re.compile(rf"<!--|-->|<(?=[/a-z])(/?)({CODE}|{MEDIA}|{APART})\b([^<>]*+)>", re.IGNORECASE)
PLAIN_LINK = re.compile(r"\[\[(?:[^][{}|:#\n]*+\|)?([^][{}|:#\n]++)\]\]")
NESTING = re.compile(r"(\{\{\{*+|\}\}\}*+|\[\[|\]\](?!\](?!\]))|\n[ \t:\x00]*+(?:\{\||\|\}(?!\})))")
LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[a-z-]+)?|simple")
QUALIFIER = re.compile(r" ?\([^()]*+\)$|, .*+$")
QUOTES = re.compile(r"''+")
SWITCH = re.compile(r"__[A-Z]{3,}+__")
ENDLESS = re.compile(r"&#(?:[0-9]{8,}+|[xX][0-9a-fA-F]{8,}+);?")
ADDRESS = r"\[(?:https?:|ftps?:|mailto:|news:|ircs?:|gopher:|telnet:|//)[^]\s[<>]*+[ \t]*+"
NAMED_ADDRESS, OPEN_ADDRESS = re.compile(rf"{ADDRESS}([^][\n]*+)\]", re.IGNORECASE), re.compile(ADDRESS, re.IGNORECASE)
BLOCK_TAG = re.compile(rf"</?(?=[a-z])(?:{BLOCKS})\b[^<>]*+>", re.IGNORECASE)
INLINE_TAG = re.compile(rf"</?(?=[a-z])(?:(?:{INLINE}|{CODE}|{MEDIA}|{APART})\b[^<>]*+|[a-z][\w-]*+\s*+/?)>", re.IGNORECASE)
INVISIBLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe0f\ufeff\ufffe\uffff]+")
PILED = re.compile(r"([^\w\s\x00-\x7f]{30})[^\w\s\x00-\x7f]++")
"""More marks on one letter than Unicode's stream-safe format allows: to put them in order takes time that grows with their square."""
BLANK = re.compile("[\t\x0b-\r\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")

SPACES, EMPTY_LINES = re.compile("  +"), re.compile("\n\n\n+")
HOLLOW, LIMPING, LOOSE = re.compile(r"\([ ,;:]*+\)"), re.compile(r"\([ ,;]++"), re.compile(r" (?=[,;.)](?:\s|$))")
RESEMBLING, DOUBLED = re.compile(r"<(?=[A-Za-z/!])"), re.compile(r"([\[\]{}])\1+")

DEEPEST_LINK = 8
"""Links within links beyond this are stray marks: each level copies its text once more."""


def clean(text: str, hidden: frozenset[str] = HIDDEN) -> str:
    """The plain text of a page in wikitext; `hidden` are the prefixes of links that are left out.

    >>> clean("'''Lithium''' is a [[metal|soft metal]].{{cn|date=May}}<ref>A book</ref> [[Image:Li.jpg|thumb|In [[oil]]]]")
    'Lithium is a soft metal.'
    """
    text = INDENTED.sub("\n" + CODE_LINE, "\n" + text.replace(CODE_LINE, "").replace("\r\n", "\n"))
    text = without_nested(PLAIN_LINK.sub(r"\1", without_elements(text)), hidden)
    text = by_line(SWITCH.sub("", QUOTES.sub("", text)))
    text = OPEN_ADDRESS.sub("", NAMED_ADDRESS.sub(r"\1", text))
    text = html.unescape(ENDLESS.sub("", text))
    text = INLINE_TAG.sub("", BLOCK_TAG.sub("\n", text))
    text = PILED.sub(r"\1", BLANK.sub(" ", INVISIBLE.sub("", text)))
    return compact(unicodedata.normalize("NFC", text))


def without_elements(text: str) -> str:
    """Without comments and without the elements whose content is no prose.

    An element that is opened again before it is closed was never closed: it loses its tag, not what follows.
    """
    marks = list(ELEMENT.finditer(text))
    ends = [mark.end() for mark in marks]  # of what goes: the mark, or the whole element
    following: dict[str, tuple[bool, int]] = {}  # whether the next mark of each name closes, and its end
    for i in range(len(marks) - 1, -1, -1):
        slash, name, attributes = marks[i].groups()
        if name is None:
            name, closes = "comment", marks[i][0] == "-->"
        elif attributes and attributes.rstrip().endswith("/"):
            continue
        else:
            name, closes = name.lower(), bool(slash)
        if not closes and (after := following.get(name)) and after[0]:
            ends[i] = after[1]
        following[name] = closes, marks[i].end()
    pieces, position = list[str](), 0
    for mark, end in zip(marks, ends, strict=True):
        if (start := mark.start()) >= position:
            pieces.append(text[position:start])
            position = end
    pieces.append(text[position:])
    return "".join(pieces)


def without_nested(text: str, hidden: frozenset[str]) -> str:
    """Without templates and tables, and with the words of links in their place.

    A closing mark closes the nearest of its kind; what was opened since then, and what is open at the end, loses its mark only.
    """
    out, stack, count = list[str](), list[tuple[str, int]](), {"{{": 0, "{|": 0, "[[": 0}

    def close(opened: str) -> None:
        if not count[opened]:
            return
        kind, start = "", 0
        while kind != opened:
            kind, start = stack.pop()
            count[kind] -= 1
        out[start:] = [link_text("".join(out[start:]), hidden)] if opened == "[[" else []

    for i, piece in enumerate(NESTING.split(text)):
        kind = piece[-2:]
        if i % 2 == 0:
            out.append(piece)
        elif kind == "{{":
            stack.extend([(kind, len(out))] * (len(piece) // 2))
            count[kind] += len(piece) // 2
        elif kind == "}}":
            for _ in range(len(piece) // 2):
                close("{{")
        elif kind == "]]":
            close("[[")
        elif kind == "|}":
            close("{|")
            out.append("\n")
        elif kind == "{|" or count[kind] < DEEPEST_LINK:
            stack.append((kind, len(out)))
            count[kind] += 1
            out.append("\n{|" if kind == "{|" else "")
    return "".join(out)


def link_text(inside: str, hidden: frozenset[str]) -> str:
    """What a link shows, given what stands between its brackets."""
    target, pipe, shown = inside.partition("|")
    name = target.strip()
    prefix, colon, rest = name.partition(":")
    if colon and (prefix.strip().lower().replace("_", " ") in hidden or (not pipe and LANGUAGE.fullmatch(prefix))):
        return ""
    if "\n" in name:
        return inside
    if pipe and not shown.strip():
        return QUALIFIER.sub("", rest if colon else name)
    return shown if pipe else name.lstrip(":#")


def by_line(text: str) -> str:
    """Without lines of code, rows of tables that were never closed, rules, and the marks of headings and lists."""
    lines = list[str]()
    for raw in text.split("\n"):
        line = raw.strip()
        first = line[:1]
        if first == CODE_LINE or first == "|" or line.startswith("{|"):
            continue
        if first in ("*", "#", ":", ";"):
            line = line.lstrip("*#:; ")
        elif first == "=" and line[-1] == "=":
            line = line.strip("= ")
        elif line.startswith("----"):
            line = line.lstrip("-")
        lines.append(line)
    return "\n".join(lines)


def compact(text: str) -> str:
    """Without the gaps and empty brackets that taking things out leaves, and without what still looks like an opened mark."""
    text = LIMPING.sub("(", HOLLOW.sub("", SPACES.sub(" ", text)))
    text = LOOSE.sub("", SPACES.sub(" ", text)).replace(" \n", "\n").replace("\n ", "\n")
    return RESEMBLING.sub("< ", DOUBLED.sub(r"\1", EMPTY_LINES.sub("\n\n", text).strip()))
