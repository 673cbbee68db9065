"""The .safetensors format: a JSON header says where each tensor lies. It is read here, so that no tensor is loaded completely."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.trust.arrays.array_file import UncompressedArray, choose_array
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


def read_header(file: BinaryIO) -> tuple[dict[str, Any], dict[str, Any], int]:
    """The entries of the tensors, the metadata, and where the values begin; a ValueError if the header is damaged."""
    size = file.seek(0, 2)
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    # Checked before the header is read: the length comes from the file, and reading allocates it.
    if size < 8 or length > MAX_HEADER:
        claims = f"its header would have {length} bytes, and {MAX_HEADER} is the most that is read"
        raise ValueError(claims if size >= 8 else f"it has only {size} bytes")
    if length > size - 8:
        raise ValueError(f"it is truncated: its header would have {length} bytes, and {size - 8} are left")
    try:
        header = parse_json(file.read(length))
    except ValueError as error:
        raise ValueError("its header is not JSON") from error
    if not isinstance(header, dict):
        raise ValueError("its header is not a JSON object")
    metadata = header.pop("__metadata__", None)
    for name, entry in header.items():
        if not is_well_formed(entry):
            raise ValueError(f"the entry of {name!r:.80} in its header lacks a sound dtype, shape or data_offsets")
    # Every tensor has a place of its own, as the format demands. So no file makes more arrays than it has bytes.
    previous_end = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        if begin < previous_end:
            raise ValueError(f"{name!r:.80} lies over another tensor")
        previous_end = end
    return header, metadata if isinstance(metadata, dict) else {}, 8 + length


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
    try:
        with path.open("rb") as file:
            header, _, begin = read_header(file)
    except ValueError as error:
        raise IsoscopeError(f"{path} is not a .safetensors file: {error}; save it again.") from error
    name, label = choose_array(path, key, {name: tuple(entry["shape"]) for name, entry in header.items()})
    entry = header[name]
    if entry["dtype"] not in TYPES:
        raise IsoscopeError(f"{path} holds {name} as {entry['dtype']}, and one of {', '.join(TYPES)} is expected; save it as F32.")
    shape, dtype = tuple(entry["shape"]), np.dtype(TYPES[entry["dtype"]])
    return UncompressedArray(path, label, shape, dtype, begin + entry["data_offsets"][0], bfloat16=entry["dtype"] == "BF16")
