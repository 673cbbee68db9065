"""The state of a cell that is under way: one safetensors file that ends with a hash of all before it.

A state that was cut off, or changed by a disk or by somebody, would count items twice or not at all, and nothing would show it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from isoscope.core.bounded import parse_json
from isoscope.store.tensors import SEAL, Arrays, write_tensors


def write_partial(path: Path, cursor: dict[str, int], arrays: Arrays) -> None:
    """Write how far a cell got (`cursor`) and what was found until there."""
    write_tensors(arrays, path, {"cursor": json.dumps(cursor)}, seal=True)


def read_cursor(path: Path) -> dict[str, int] | None:
    """How far a cell got; None where the file is not as it was written."""
    from safetensors import SafetensorError, safe_open

    try:
        if not _whole(path):
            return None
        with safe_open(path, framework="numpy") as file:
            found: Any = parse_json(file.metadata()["cursor"])
    except (OSError, SafetensorError, KeyError, TypeError, ValueError):
        return None
    counts = isinstance(found, dict) and all(type(count) is int and count >= 0 for count in found.values())
    return found if counts and "items" in found else None


def read_partial(path: Path) -> tuple[dict[str, int], dict[str, np.ndarray]] | None:
    """How far a cell got and what was found until there; None where the file is not as it was written."""
    from safetensors import SafetensorError, safe_open

    if (cursor := read_cursor(path)) is None:
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            return cursor, {name: file.get_tensor(name) for name in file.keys() if name != SEAL}  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, OverflowError, MemoryError):
        return None


def _whole(path: Path) -> bool:
    """Whether the last bytes of a file are the hash of the others."""
    size = hashlib.sha256().digest_size
    left = path.stat().st_size - size
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while left > 0 and (block := file.read(min(left, 1 << 20))):
            digest.update(block)
            left -= len(block)
        return not left and file.read(size + 1) == digest.digest()
