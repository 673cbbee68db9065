"""Write and read safetensors files one array at a time, so that memory never holds a copy of all of them.

The safetensors library copies all arrays before it writes. To read, it maps the file into memory: if the file shrinks, or is deleted on
another machine, the process ends with a signal.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from isoscope.trust.arrays.safetensors import MAX_HEADER, TYPES, check_overlaps, is_well_formed
from isoscope.trust.safe_io import parse_json

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
"""The names of types in the format."""
NUMPY_TYPES = frozenset(NAMES.values())

SEAL = "seal"
"""The array at the end of a sealed file: the SHA-256 of every byte before it."""

Arrays = Callable[[], Iterable[tuple[str, np.ndarray]]]
"""Returns names and arrays, the same at each call. The `items` of a dict is an example."""


def write_tensors(arrays: Arrays, path: Path, metadata: Mapping[str, str] | None = None, *, seal: bool = False) -> None:
    """Write a file. `arrays` is called twice, for sizes and for contents, so that its arrays need not be in memory together."""
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    digest = hashlib.sha256()
    offset = 0
    for name, array in arrays():
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    if seal:
        header[SEAL] = {"dtype": "U8", "shape": [digest.digest_size], "data_offsets": [offset, offset + digest.digest_size]}
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


class TensorFile:
    """A safetensors file that is open for reading; a ValueError if it is damaged."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        size = file.seek(0, 2)
        file.seek(0)
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, MAX_HEADER):
            raise ValueError(f"its header would have {length} bytes")
        header: Any = parse_json(file.read(length))
        if not isinstance(header, dict):
            raise ValueError("its header is not a JSON object")
        metadata = header.pop("__metadata__", None)
        self.metadata: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
        for name, entry in header.items():
            if not (is_well_formed(entry) and entry["dtype"] in NUMPY_TYPES and entry["data_offsets"][1] <= size - 8 - length):
                raise ValueError(f"its header does not say soundly what {name!r:.80} is and where it lies")
        check_overlaps(header, ValueError)
        self._entries, self._begin = header, 8 + length

    @property
    def names(self) -> list[str]:
        """The names of its arrays."""
        return list(self._entries)

    def read(self, name: str) -> np.ndarray:
        """Read one array."""
        entry = self._entries[name]
        array = np.empty(entry["shape"], TYPES[entry["dtype"]])
        self._file.seek(self._begin + entry["data_offsets"][0])
        if array.nbytes and self._file.readinto(array.reshape(-1).view(np.uint8).data) != array.nbytes:  # type: ignore[attr-defined]
            raise ValueError(f"it ends within {name!r:.80}")
        return array
