"""Small tables as aligned text, for a prompt, and as HTML, for a notebook. Nothing here needs rich or pandas."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from html import escape
from itertools import islice

Row = Sequence[str]
WIDTH = 80
"""The columns of a terminal that tables are made for; what does not go to a terminal has lines of this length."""


def text_width(text: str) -> int:
    """The columns of a terminal that a text takes.

    >>> text_width("ab"), text_width("東")
    (2, 2)
    """
    return sum(0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


def align_table(head: Row, rows: Sequence[Row], left: int = 1) -> str:
    """A table with the first `left` columns aligned to the left and the others to the right; columns without content are left out.

    >>> print(align_table(["metric", "value", "note"], [["mean_cosine", "0.5", ""], ["isoscore", "12.5", ""]]))
    metric       value
    mean_cosine    0.5
    isoscore      12.5
    """
    shown = _filled_columns(head, rows)
    widths = [max(text_width(row[i]) for row in [head, *rows]) for i in shown]

    def align(row: Row) -> str:
        cells = []
        for i, width in zip(shown, widths, strict=True):
            blank = " " * (width - text_width(row[i]))
            cells.append(row[i] + blank if i < left else blank + row[i])
        return "  ".join(cells).rstrip()

    return "\n".join(map(align, [head, *rows]))


def align_groups(head: Row, groups: Mapping[str, Sequence[Row]]) -> list[str]:
    """The lines of one aligned table whose rows stand in groups, each below its title and an empty line.

    >>> print("\\n".join(align_groups(["layer", "value"], {"mean_cosine": [["0", "0.5"], ["1", "0.25"]]})))
    layer  value
    <BLANKLINE>
    mean_cosine
    0        0.5
    1       0.25
    """
    heading, *rows = align_table(head, [row for own in groups.values() for row in own]).splitlines()
    lines, remaining = [heading], iter(rows)
    for title, own in groups.items():
        lines += ["", title, *islice(remaining, len(own))]
    return lines


def html_table(head: Row, rows: Sequence[Row], left: int = 1) -> str:
    """The same table as HTML, with all text escaped.

    >>> html_table(["a"], [["<b>"]]).partition("<tbody>")[2]
    '<tr><td style="text-align:left">&lt;b&gt;</td></tr></tbody></table>'
    """
    shown = _filled_columns(head, rows)

    def line(row: Row, tag: str) -> str:
        cells = [f'<{tag} style="text-align:{"left" if i < left else "right"}">{escape(row[i])}</{tag}>' for i in shown]
        return f"<tr>{''.join(cells)}</tr>"

    return f"<table><thead>{line(head, 'th')}</thead><tbody>{''.join(line(row, 'td') for row in rows)}</tbody></table>"


def _filled_columns(head: Row, rows: Sequence[Row]) -> list[int]:
    return [i for i in range(len(head)) if not rows or any(row[i].strip() for row in rows)]
