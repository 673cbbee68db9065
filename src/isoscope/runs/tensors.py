"""Write and read safetensors files one array at a time, so that memory never holds a copy of all of them.

The safetensors library copies all arrays before it writes. To read, it maps the file into memory: if the file shrinks, or is deleted on
another machine, the process ends with a signal.

The state of an unfinished cell is such a file that ends with a hash of everything before it. A state that was cut off or changed would
count items twice or not at all, and no number would show it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from isoscope.core.site import Site
from isoscope.statistics.any_statistics import Statistics, from_state, state_of
from isoscope.trust.arrays.safetensors import TYPES, read_header
from isoscope.trust.safe_io import open_regular, parse_json

NAMES = {np.dtype(kind): name for name, kind in TYPES.items() if name != "BF16"}
"""The format's names of the types that NumPy has."""
NUMPY_TYPES = frozenset(NAMES.values())
SEAL = "seal"
"""The array at the end of a sealed file: the SHA-256 of every byte before it."""

Arrays = Callable[[], Iterable[tuple[str, np.ndarray]]]
"""Returns names and arrays, the same at each call. The `items` of a dict is an example."""


def pack_statistics(sites: Statistics, *, sample: bool = True) -> Iterator[tuple[str, np.ndarray]]:
    """Statistics as named arrays, those of one site at a time."""
    for site, statistics in sites.items():
        for name, array in state_of(statistics, sample=sample).items():
            yield f"{site.label}/{name}", array


def unpack_statistics(arrays: dict[str, np.ndarray]) -> Statistics:
    """Statistics by site from named arrays: the inverse of `pack_statistics`."""
    states = {Site.parse(label): state for label, state in group_by_site(arrays).items()}
    return {site: from_state(site.kind, states[site]) for site in sorted(states, key=lambda site: site.order)}


def group_by_site(arrays: dict[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """The state of each site, from arrays whose names begin with its label."""
    states: dict[str, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        label, _, rest = name.partition("/")
        states.setdefault(label, {})[rest] = array
    return states


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
    # The format pads its header with spaces, so that the arrays begin at a multiple of eight bytes.
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:

        def put(raw: bytes | memoryview) -> None:
            file.write(raw)
            if seal:
                digest.update(raw)

        put(len(text).to_bytes(8, "little"))
        put(text)
        # Only one array is in memory at a time: a generator may compute each when it is asked for.
        for _, array in arrays():
            put(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        if seal:
            file.write(digest.digest())


class TensorFile:
    """A safetensors file that is open for reading; a ValueError if it is damaged."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._entries, self.metadata, self._begin = read_header(file)
        room = file.seek(0, 2) - self._begin
        for name, entry in self._entries.items():
            if entry["dtype"] not in NUMPY_TYPES or entry["data_offsets"][1] > room:
                raise ValueError(f"its header does not say soundly what {name!r:.80} is and where it lies")

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


def write_partial(path: Path, cursor: dict[str, int], arrays: Arrays) -> None:
    """Write how far a cell got (`cursor`), and its statistics up to there."""
    write_tensors(arrays, path, {"cursor": json.dumps(cursor)}, seal=True)


def read_cursor(path: Path) -> dict[str, int] | None:
    """How far a cell got; None if the file is damaged."""
    try:
        with open_regular(path) as file:
            return _parse_cursor(file)
    except (OSError, ValueError):
        return None


def read_partial(path: Path) -> tuple[dict[str, int], dict[str, np.ndarray]] | None:
    """How far a cell got, and its statistics up to there; None if the file is damaged, and then the cell starts over."""
    try:
        with open_regular(path) as file:
            if (cursor := _parse_cursor(file)) is None:
                return None
            tensors = TensorFile(file)
            return cursor, {name: tensors.read(name) for name in tensors.names if name != SEAL}
    except (OSError, ValueError, OverflowError, MemoryError):  # NumPy limits shapes too
        return None


def _parse_cursor(file: BinaryIO) -> dict[str, int] | None:
    if not _is_sealed(file):
        return None
    cursor: Any = parse_json(str(TensorFile(file).metadata.get("cursor")))
    is_cursor = isinstance(cursor, dict) and all(type(count) is int and 0 <= count <= sys.maxsize for count in cursor.values())
    return cursor if is_cursor and "items" in cursor else None


def _is_sealed(file: BinaryIO) -> bool:
    """Whether the last bytes of a file are the hash of the others."""
    size = hashlib.sha256().digest_size
    left = file.seek(0, 2) - size
    file.seek(0)
    digest = hashlib.sha256()
    while left > 0 and (block := file.read(min(left, 1 << 20))):
        digest.update(block)
        left -= len(block)
    return not left and file.read(size + 1) == digest.digest()
