"""The state of an unfinished cell: one safetensors file that ends with a hash of everything before it.

The hash is needed because a state that was cut off or changed would count items twice or not at all, and no number would show it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from isoscope.runs.tensors import SEAL, Arrays, TensorFile, write_tensors
from isoscope.trust.safe_io import open_regular, parse_json


def write_partial(path: Path, cursor: dict[str, int], arrays: Arrays) -> None:
    """Write how far a cell got (`cursor`), and its statistics up to there."""
    write_tensors(arrays, path, {"cursor": json.dumps(cursor)}, seal=True)


def read_cursor(path: Path) -> dict[str, int] | None:
    """How far a cell got; None if the file is damaged."""
    try:
        with open_regular(path) as file:
            return _cursor(file)
    except (OSError, ValueError):
        return None


def read_partial(path: Path) -> tuple[dict[str, int], dict[str, np.ndarray]] | None:
    """How far a cell got, and its statistics up to there; None if the file is damaged, and then the cell starts over."""
    try:
        with open_regular(path) as file:
            if (cursor := _cursor(file)) is None:
                return None
            tensors = TensorFile(file)
            return cursor, {name: tensors.read(name) for name in tensors.names if name != SEAL}
    except (OSError, ValueError, OverflowError, MemoryError):  # NumPy limits shapes too
        return None


def _cursor(file: BinaryIO) -> dict[str, int] | None:
    if not _is_whole(file):
        return None
    cursor: Any = parse_json(str(TensorFile(file).metadata.get("cursor")))
    is_cursor = isinstance(cursor, dict) and all(type(count) is int and count >= 0 for count in cursor.values())
    return cursor if is_cursor and "items" in cursor else None


def _is_whole(file: BinaryIO) -> bool:
    """Whether the last bytes of a file are the hash of the others."""
    size = hashlib.sha256().digest_size
    left = file.seek(0, 2) - size
    file.seek(0)
    digest = hashlib.sha256()
    while left > 0 and (block := file.read(min(left, 1 << 20))):
        digest.update(block)
        left -= len(block)
    return not left and file.read(size + 1) == digest.digest()
