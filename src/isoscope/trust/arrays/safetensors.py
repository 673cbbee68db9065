"""The .safetensors format: a JSON header says where each tensor lies. It is read here, so that no tensor is loaded completely."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.trust.arrays.array_file import UncompressedArray, check_length, choose_array
from isoscope.trust.safe_io import parse_json

MAX_HEADER = 32_000_000
"""Bytes of a header. The format allows 100,000,000, but as Python objects these may take twenty times as much."""

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


def read_safetensors_header(path: Path) -> tuple[dict[str, Any], int]:
    """The entries of the tensors, and where the values begin."""

    def broken(reason: str) -> IsoscopeError:
        return IsoscopeError(f"{path} is not a .safetensors file: {reason}; save it again.")

    size = path.stat().st_size
    with path.open("rb") as file:
        first = file.read(8)
        if len(first) < 8:
            raise broken(f"it has only {size} bytes")
        length = int.from_bytes(first, "little")
        # Checked before the header is read: the length comes from the file, and reading allocates it.
        if length > MAX_HEADER:
            raise broken(f"its header would have {length} bytes, and {MAX_HEADER} is the most that is read")
        check_length(path, 8 + length, size)
        try:
            header = parse_json(file.read(length))
        except ValueError as error:
            raise broken("its header is not JSON") from error
    if not isinstance(header, dict):
        raise broken("its header is not a JSON object")
    header.pop("__metadata__", None)
    for name, entry in header.items():
        if not is_well_formed(entry):
            raise broken(f"the entry of {name!r} in its header lacks a sound dtype, shape or data_offsets")
    check_overlaps(header, broken)
    return header, 8 + length


def check_overlaps(header: dict[str, Any], broken: Callable[[str], Exception]) -> None:
    """Refuse tensors that overlap: the format demands that each has its own part of the file."""
    previous_end = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        if begin < previous_end:
            raise broken(f"{name!r} lies over another tensor")
        previous_end = end


def is_well_formed(entry: Any) -> bool:
    """Whether an entry has a type, a shape and a range of bytes, and they agree."""

    def are_sizes(value: Any) -> bool:
        # `type` and not isinstance, for which JSON's true would be the number 1.
        return isinstance(value, list) and all(type(x) is int and x >= 0 for x in value)

    if not isinstance(entry, dict) or not isinstance(entry.get("dtype"), str):
        return False
    shape: Any = entry.get("shape")
    offsets: Any = entry.get("data_offsets")
    if not are_sizes(shape) or not are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        return False
    # Types that numpy lacks (F8, F4) may stand next to the matrix; their sizes are not known here.
    itemsize = np.dtype(TYPES[entry["dtype"]]).itemsize if entry["dtype"] in TYPES else None
    return itemsize is None or offsets[1] - offsets[0] == math.prod(shape) * itemsize


def open_safetensors(path: Path, key: str | None = None) -> UncompressedArray:
    """The tensor that `key` names, or the only matrix among the tensors."""
    header, begin = read_safetensors_header(path)
    name, label = choose_array(path, key, {name: tuple(entry["shape"]) for name, entry in header.items()})
    entry = header[name]
    if entry["dtype"] not in TYPES:
        raise IsoscopeError(f"{path} holds {name} as {entry['dtype']}, and one of {', '.join(TYPES)} is expected; save it as F32.")
    shape, dtype = tuple(entry["shape"]), np.dtype(TYPES[entry["dtype"]])
    return UncompressedArray(path, label, shape, dtype, begin + entry["data_offsets"][0], bfloat16=entry["dtype"] == "BF16")
