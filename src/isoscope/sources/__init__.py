"""Where items come from: one file a kind of source. A source is streamed, can be read again, and knows its fingerprint."""

from __future__ import annotations

import glob
from collections import Counter
from pathlib import Path

from isoscope.core.errors import IsoscopeError
from isoscope.core.registry import Registry
from isoscope.core.source import ENDINGS, Source, SourceKind, matching

sources: Registry[SourceKind] = Registry(SourceKind, "kind of source", __name__)
"""Every kind of source, by the name of its file."""


def open_source(spec: str, column: str | None = None, modality: str = "text") -> Source:
    """The source that `spec` names: the first kind that takes it opens it.

    The modality (text, speech or images) says what is meant where the spec alone does not: `embedded`, `hf:…`, a folder, a pattern
    whose files are of several kinds. A file is opened as what it is, whatever the modality.

    >>> open_source("embedded").modality
    'text'
    """
    if modality not in ENDINGS:
        raise IsoscopeError(f"The modality must be one of {', '.join(ENDINGS)}; it is {modality!r}.")
    accepted = ", or ".join(kind.accepts for kind in sources if modality in kind.modality.split(", "))
    if not spec:
        raise IsoscopeError(f"The name of a source is empty; a source of {modality} is {accepted}.")
    for kind in sources:
        source = kind.open(spec, column, modality)
        if source is not None:
            return source
    if Path(spec).is_dir():
        problem = f"The folder {spec} holds no file that a source can read as {modality}{instead(glob.escape(spec) + '/**/*')}"
    elif Path(spec).exists():
        problem = f"No source reads {spec}, a file that ends in {Path(spec).suffix or 'no suffix'!r}"
    elif any(mark in spec for mark in "*?["):
        problem = f"The pattern {spec} matches no file that a source can read as {modality}{instead(spec)}"
    else:
        problem = f"There is no file or folder called {spec!r}"
    raise IsoscopeError(f"{problem}; a source of {modality} is {accepted}.")


def instead(pattern: str) -> str:
    """The endings of what a pattern matches, for one who looked for something else."""
    found = Counter(path.suffix.lower() or "no suffix" for path in matching(pattern)).most_common(3)
    return f" (it has {', '.join(f'{count} of {ending}' for ending, count in found)})" if found else ""
