"""Where items come from: one file a kind of source. A source is streamed, can be read again, and knows its fingerprint."""

from __future__ import annotations

import sys
from pathlib import Path

from isoscope.core.errors import IsoscopeError
from isoscope.core.registry import Registry
from isoscope.core.source import Source, SourceKind

sources: Registry[SourceKind] = Registry(sys.modules[__name__], "kind of source", SourceKind)
"""Every kind of source, by the name of its file."""


def open_source(spec: str, column: str | None = None) -> Source:
    """The source that `spec` names: the first kind that takes it opens it.

    >>> open_source("embedded").modality
    'text'
    """
    for kind in sources:
        source = kind.open(spec, column)
        if source is not None:
            return source
    accepted = ", or ".join(kind.accepts for kind in sources if kind.modality != "matrix")
    if Path(spec).is_dir():
        problem = f"The folder {spec} holds no file that a source can read"
    elif Path(spec).exists():
        problem = f"No source reads {spec}, a file that ends in {Path(spec).suffix or 'no suffix'!r}"
    elif any(mark in spec for mark in "*?["):
        problem = f"The pattern {spec} matches no file"
    else:
        problem = f"There is no file or folder called {spec!r}"
    raise IsoscopeError(f"{problem}; a source is {accepted}.")
