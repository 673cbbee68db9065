"""Text that a terminal may show as it is."""

from __future__ import annotations

import re

HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Characters that steer a terminal, turn the direction of text round or are none; a tab and a line's end are left."""


def plain(text: str) -> str:
    """A text as a terminal may show it: whatever would steer the terminal is written out.

    >>> plain("red \\x1b[31mname"), plain("as it is: é, 東")
    ('red \\\\x1b[31mname', 'as it is: é, 東')
    """
    return HIDDEN.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)
