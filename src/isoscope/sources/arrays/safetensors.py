"""The .safetensors format: a JSON header says where each tensor lies; it is read here, so that no tensor need be loaded whole."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from isoscope.core.bounded import parse_json
from isoscope.core.errors import IsoscopeError
from isoscope.sources.arrays.file import choose
from isoscope.sources.arrays.region import Region, truncated

LONGEST_HEADER = 32_000_000
"""Of a header in bytes; the format allows 100,000,000, but as Python objects they may take twenty times as much."""

TYPES: dict[str, str] = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "<i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "<u1",
    "BOOL": "?",
}


def read_header(path: Path) -> tuple[dict[str, Any], int]:
    """The tensors' entries, and where the values begin."""

    def broken(reason: str) -> IsoscopeError:
        return IsoscopeError(f"{path} is not a .safetensors file: {reason}; save it again.")

    size = path.stat().st_size
    with path.open("rb") as file:
        first = file.read(8)
        if len(first) < 8:
            raise broken(f"it has only {size} bytes")
        length = int.from_bytes(first, "little")
        if length > LONGEST_HEADER:
            raise broken(f"its header would have {length} bytes, and {LONGEST_HEADER} is the most that is read")
        if 8 + length > size:
            raise truncated(path, 8 + length, size)
        try:
            header = parse_json(file.read(length))
        except ValueError as error:
            raise broken("its header is not JSON") from error
    if not isinstance(header, dict):
        raise broken("its header is not a JSON object")
    header.pop("__metadata__", None)
    for name, entry in header.items():
        if not well_formed(entry):
            raise broken(f"the entry of {name!r} in its header lacks a sound dtype, shape or data_offsets")
    check_places(header, broken)
    return header, 8 + length


def check_places(header: dict[str, Any], broken: Callable[[str], Exception]) -> None:
    """Refuse tensors that lie over each other: each takes its own part of the file, as the format demands."""
    at = 0
    for name, entry in sorted(header.items(), key=lambda one: one[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        if begin < at:
            raise broken(f"{name!r} lies over another tensor")
        at = end


def well_formed(entry: Any) -> bool:
    """Whether a tensor's entry says a type, a shape and a stretch of bytes, and they agree."""

    def sizes(value: Any) -> bool:
        return isinstance(value, list) and all(type(x) is int and x >= 0 for x in value)

    if not isinstance(entry, dict) or not isinstance(entry.get("dtype"), str):
        return False
    shape: Any = entry.get("shape")
    offsets: Any = entry.get("data_offsets")
    if not sizes(shape) or not sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        return False
    itemsize = np.dtype(TYPES[entry["dtype"]]).itemsize if entry["dtype"] in TYPES else None
    return itemsize is None or offsets[1] - offsets[0] == math.prod(shape) * itemsize


def open_safetensors(path: Path, key: str | None = None) -> Region:
    """The tensor that `key` names, or the only matrix among the tensors."""
    header, begin = read_header(path)
    name = choose(path, key, {name: tuple(entry["shape"]) for name, entry in header.items()})
    entry = header[name]
    if entry["dtype"] not in TYPES:
        raise IsoscopeError(f"{path} holds {name} as {entry['dtype']}, and one of {', '.join(TYPES)} is expected; save it as F32.")
    label = path.name if len(header) == 1 else f"{path.name}:{name}"
    shape, dtype = tuple(entry["shape"]), np.dtype(TYPES[entry["dtype"]])
    return Region(path, label, shape, dtype, begin + entry["data_offsets"][0], bfloat16=entry["dtype"] == "BF16")
