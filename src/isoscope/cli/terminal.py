"""A standard output that escapes control characters: names in a stranger's run could otherwise steer the terminal."""

from __future__ import annotations

import re
from typing import IO, Any

from isoscope.core.printable import plain

COLOUR = re.compile("(\x1b\\[[0-9;]{0,40}m)")
"""The only sequences that tables and help need; the worst that a name with one can do is to be coloured."""


class GuardedStream:
    """The stream of a terminal that lets only text and colours through."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write harmless text unchanged, and anything else as its escape."""
        self._stream.write(escape_controls(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write lines one after the other."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def escape_controls(text: str) -> str:
    """A text with its colours, and with all other control sequences escaped.

    >>> escape_controls("\\x1b[1mbold\\x1b[0m \\x1b[2J")
    '\\x1b[1mbold\\x1b[0m \\\\x1b[2J'
    """
    return "".join(part if i % 2 else plain(part) for i, part in enumerate(COLOUR.split(text)))
