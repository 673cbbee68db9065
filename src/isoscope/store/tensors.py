"""Arrays into a safetensors file, one after the other: no copy of all of them is ever made, as the library itself would."""

from __future__ import annotations

import hashlib
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

SEAL = "seal"
"""The array at the end of a file that is sealed: the SHA-256 of every byte before it."""

Arrays = Callable[[], Iterable[tuple[str, np.ndarray]]]
"""Gives names and arrays, the same each time that it is called; `items` of a dict is one."""


def write_tensors(arrays: Arrays, path: Path, metadata: Mapping[str, str] | None = None, *, seal: bool = False) -> None:
    """Write a file; `arrays` is called twice, for sizes and for contents, so that what it gives need not be held."""
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    digest = hashlib.sha256()
    at = 0
    for name, array in arrays():
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    if seal:
        header[SEAL] = {"dtype": "U8", "shape": [digest.digest_size], "data_offsets": [at, at + digest.digest_size]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:

        def put(raw: bytes | memoryview) -> None:
            file.write(raw)
            if seal:
                digest.update(raw)

        put(len(text).to_bytes(8, "little"))
        put(text)
        for _, array in arrays():
            put(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        if seal:
            file.write(digest.digest())
