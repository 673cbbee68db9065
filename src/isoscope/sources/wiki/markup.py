"""Wikitext to plain text: removes code, media, tables, templates, notes and tags, and keeps the words of links and headings.

Every step is one pass over the text. Marks are found by expressions with possessive quantifiers (`*+`, `++`), which cannot backtrack, and
nesting is kept on a stack, so that a page of nothing but opening marks costs no more than any other. A mark that is opened and never
closed is removed, but its content stays.
"""

from __future__ import annotations

import html
import re
import unicodedata

HIDDEN_PREFIXES = frozenset({"file", "image", "media", "category"})
"""The prefixes of links that show no text, in lower case: media and categories."""

CODE = "code|source|syntaxhighlight|pre|tt|kbd|samp|math|chem|ce|nowiki"
MEDIA = "gallery|timeline|imagemap|score|graph|mapframe|maplink|hiero|img|audio|video"
NOT_PROSE = "ref|references|table|templatedata|templatestyles|inputbox|categorytree|style|script|includeonly"
BLOCKS = "blockquote|br|caption|center|dd|div|dl|dt|h[1-6]|hr|li|ol|p|poem|td|th|tr|ul"
INLINE = (
    "a|abbr|b|bdi|bdo|big|cite|col|colgroup|data|del|dfn|em|font|i|indicator|ins|mark|nobr|noinclude|onlyinclude|q|rb|rp|rt|ruby|s|section|"
    "small|span|strike|strong|sub|sup|tbody|tfoot|thead|time|u|var|wbr"
)

CODE_LINE = "\x00"
"""Marks a line that began with a space, which wikis show as code. No page holds this character: it is removed first."""
INDENTED = re.compile(r"\n ++(?![\s{|!<])")
ELEMENT = re.compile(rf"<!--|-->|<(?=[/a-z])(/?)({CODE}|{MEDIA}|{NOT_PROSE})\b([^<>]*+)>", re.IGNORECASE)
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
INLINE_TAG = re.compile(rf"</?(?=[a-z])(?:(?:{INLINE}|{CODE}|{MEDIA}|{NOT_PROSE})\b[^<>]*+|[a-z][\w-]*+\s*+/?)>", re.IGNORECASE)
INVISIBLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe0f\ufeff\ufffe\uffff]+")
PILED = re.compile(r"([^\w\s\x00-\x7f]{30})[^\w\s\x00-\x7f]++")
"""More marks on one letter than Unicode's stream-safe format allows. Normalising sorts them, in quadratic time."""
BLANK = re.compile("[\t\x0b-\r\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")

SPACES = re.compile("  +")
EMPTY_LINES = re.compile("\n\n\n+")
EMPTY_PARENTHESES = re.compile(r"\([ ,;:]*+\)")
OPENED_BY_COMMA = re.compile(r"\([ ,;]++")
SPACE_BEFORE_STOP = re.compile(r" (?=[,;.)](?:\s|$))")
LIKE_A_TAG = re.compile(r"<(?=[A-Za-z/!])")
LIKE_A_MARK = re.compile(r"([\[\]{}])\1+")

MAX_LINK_DEPTH = 8
"""Links nested deeper than this are stray marks: each level copies its text once more."""


def clean(text: str, hidden: frozenset[str] = HIDDEN_PREFIXES) -> str:
    """The plain text of a page in wikitext; links with a prefix in `hidden` are left out.

    >>> clean("'''Lithium''' is a [[metal|soft metal]].{{cn|date=May}}<ref>A book</ref> [[Image:Li.jpg|thumb|In [[oil]]]]")
    'Lithium is a soft metal.'
    """
    text = INDENTED.sub("\n" + CODE_LINE, "\n" + text.replace(CODE_LINE, "").replace("\r\n", "\n"))
    text = remove_nested(PLAIN_LINK.sub(r"\1", remove_elements(text)), hidden)
    text = clean_lines(SWITCH.sub("", QUOTES.sub("", text)))
    text = OPEN_ADDRESS.sub("", NAMED_ADDRESS.sub(r"\1", text))
    text = html.unescape(ENDLESS.sub("", text))
    text = INLINE_TAG.sub("", BLOCK_TAG.sub("\n", text))
    # Normalised after entities are resolved, which may write a letter and its accent apart.
    text = PILED.sub(r"\1", BLANK.sub(" ", INVISIBLE.sub("", text)))
    return tidy_spaces(unicodedata.normalize("NFC", text))


def remove_elements(text: str) -> str:
    """Remove comments, and the elements whose content is no prose.

    An element that is opened again before it is closed was never closed: only its tag is removed.
    """
    marks = list(ELEMENT.finditer(text))
    ends = [mark.end() for mark in marks]  # the end of the part to remove: of the mark, or of the whole element
    # From the end to the start, so that the next mark of each name is known: whether it closes, and its end.
    following: dict[str, tuple[bool, int]] = {}
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


def remove_nested(text: str, hidden: frozenset[str]) -> str:
    """Remove templates and tables, and put the words of links in their place.

    A closing mark closes the nearest opening mark of its kind. Marks opened since then, or still open at the end, lose only the mark.
    """
    out = list[str]()
    stack = list[tuple[str, int]]()  # opening marks, each with the length of `out` at that time
    count = {"{{": 0, "{|": 0, "[[": 0}  # how many of each kind are on the stack

    def close(mark: str) -> None:
        if not count[mark]:
            return
        kind, start = "", 0
        while kind != mark:
            kind, start = stack.pop()
            count[kind] -= 1
        out[start:] = [link_text("".join(out[start:]), hidden)] if mark == "[[" else []

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
        # Depth is bounded for links only: a template or table is dropped when it closes, and its text is not copied.
        elif kind == "{|" or count[kind] < MAX_LINK_DEPTH:
            stack.append((kind, len(out)))
            count[kind] += 1
            out.append("\n{|" if kind == "{|" else "")
    return "".join(out)


def link_text(inside: str, hidden: frozenset[str]) -> str:
    """The text that a link shows, given the text between its brackets."""
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


def clean_lines(text: str) -> str:
    """Remove lines of code, rows of unclosed tables, rules, and the marks of headings and lists."""
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


def tidy_spaces(text: str) -> str:
    """Remove the gaps and empty parentheses that removed parts leave, and break up what still looks like a mark."""
    text = OPENED_BY_COMMA.sub("(", EMPTY_PARENTHESES.sub("", SPACES.sub(" ", text)))
    text = SPACE_BEFORE_STOP.sub("", SPACES.sub(" ", text)).replace(" \n", "\n").replace("\n ", "\n")
    return LIKE_A_TAG.sub("< ", LIKE_A_MARK.sub(r"\1", EMPTY_LINES.sub("\n\n", text).strip()))
