"""What is printed for people: names in a stranger's run may hold characters that steer a terminal, and those are written out."""

from __future__ import annotations

import re
from typing import IO, Any

from isoscope.core.printable import plain

COLOUR = re.compile("(\x1b\\[[0-9;]{0,40}m)")
"""The only sequences that tables and help need; a name that holds one can be coloured, and nothing more."""


class Guarded:
    """A terminal's stream that passes on text and colours."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write what is harmless as it is, and the rest as its escape."""
        self._stream.write(guarded(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """One after the other."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def guarded(text: str) -> str:
    """A text with its colours, and without whatever else would steer a terminal.

    >>> guarded("\\x1b[1mbold\\x1b[0m \\x1b[2J")
    '\\x1b[1mbold\\x1b[0m \\\\x1b[2J'
    """
    return "".join(part if i % 2 else plain(part) for i, part in enumerate(COLOUR.split(text)))
