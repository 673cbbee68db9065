"""Names that a user gives: one or several, as text or as paths."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

Name = str | os.PathLike[str]


def list_names(names: Name | Iterable[Name]) -> list[str]:
    """One name or several, as a list of strings.

    >>> from pathlib import Path
    >>> list_names("a"), list_names(Path("models/b")), list_names(["a", Path("b")])
    (['a'], ['models/b'], ['a', 'b'])
    """
    return [os.fspath(name) for name in ([names] if isinstance(names, (str, os.PathLike)) else names)]


def expand_home(name: str) -> Path:
    """A path in which `~` is replaced by the home folder; the `~name` of an unknown user stays as it is.

    >>> expand_home("~nobody-of-this-name/x").as_posix()
    '~nobody-of-this-name/x'
    """
    return Path(os.path.expanduser(name))  # Path.expanduser raises for an unknown user
