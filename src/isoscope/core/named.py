"""What a user names: one thing or several, as text or as paths."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

Name = str | os.PathLike[str]


def named(given: Name | Iterable[Name]) -> list[str]:
    """All that is named, as text.

    >>> from pathlib import Path
    >>> named("a"), named(Path("models/b")), named(["a", Path("b")])
    (['a'], ['models/b'], ['a', 'b'])
    """
    return [os.fspath(one) for one in ([given] if isinstance(given, (str, os.PathLike)) else given)]


def at_home(name: str) -> Path:
    """A path, with the home folder that `~` means; the name of nobody's stays as it is, and is not found.

    >>> at_home("~nobody-of-this-name/x").as_posix()
    '~nobody-of-this-name/x'
    """
    return Path(os.path.expanduser(name))
