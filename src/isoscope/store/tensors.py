"""Arrays into a safetensors file, one after the other: no copy of all of them is ever made, as the library itself would."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np

NAMES = {
    np.dtype(kind): name
    for kind, name in (
        (np.float64, "F64"),
        (np.float32, "F32"),
        (np.float16, "F16"),
        (np.int64, "I64"),
        (np.int32, "I32"),
        (np.int16, "I16"),
        (np.int8, "I8"),
        (np.uint64, "U64"),
        (np.uint32, "U32"),
        (np.uint16, "U16"),
        (np.uint8, "U8"),
        (np.bool_, "BOOL"),
    )
}
"""What the format calls a type."""

Arrays = Callable[[], Iterable[tuple[str, np.ndarray]]]
"""Gives names and arrays, the same each time that it is called; `items` of a dict is one."""


def write_tensors(arrays: Arrays, path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write a file; `arrays` is called twice, for sizes and for contents, so that what it gives need not be held."""
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    at = 0
    for name, array in arrays():
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for _, array in arrays():
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
