"""What a user names: one thing or several, as text or as paths."""

from __future__ import annotations

import os
from collections.abc import Iterable

Name = str | os.PathLike[str]


def named(given: Name | Iterable[Name]) -> list[str]:
    """All that is named, as text.

    >>> from pathlib import Path
    >>> named("a"), named(Path("models/b")), named(["a", Path("b")])
    (['a'], ['models/b'], ['a', 'b'])
    """
    return [os.fspath(one) for one in ([given] if isinstance(given, (str, os.PathLike)) else given)]
