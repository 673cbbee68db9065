"""Matrices on disk, read in blocks of rows: never completely and never memory-mapped, so memory is a few blocks for any size.

A memory map looks just as cheap, but its pages count as memory of the process while they are used. If the file shrinks or the disk fails,
the process is killed by a signal and prints no error.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.source import Source, SourceKind
from isoscope.trust.arrays.array_file import ArrayFile
from isoscope.trust.arrays.delimited import open_delimited
from isoscope.trust.arrays.numpy_files import open_npy, open_npz
from isoscope.trust.arrays.parquet import open_parquet
from isoscope.trust.arrays.safetensors import open_safetensors
from isoscope.trust.arrays.torch_files import open_torch

__all__ = ["ArrayFile", "arrays", "open_array"]

FORMATS: dict[str, Callable[[Path, str | None], ArrayFile]] = {
    ".npy": open_npy,
    ".npz": open_npz,
    ".safetensors": open_safetensors,
    ".parquet": open_parquet,
    ".csv": open_delimited,
    ".tsv": open_delimited,
    ".pt": open_torch,
    ".pth": open_torch,
}
ITEMS_TOO = (".parquet", ".csv", ".tsv", ".pt", ".pth")
"""Files that may also hold documents or a model."""


def open_array(path: str | Path, key: str | None = None) -> ArrayFile:
    """The matrix (n, d) in a file of one of `FORMATS`; `key` names one of several arrays or columns."""
    path = Path(path)
    if path.is_dir():
        raise IsoscopeError(f"{path} is a folder; name one file in it.")
    if path.suffix.lower() not in FORMATS:
        ending, hint = path.suffix or "no suffix", nearest(path.suffix, list(FORMATS)).rstrip("?")
        raise IsoscopeError(f"{path} must be a matrix in one of {', '.join(FORMATS)}; it ends in {ending!r}{hint}.")
    if not path.exists():
        raise IsoscopeError(f"There is no file called {path}; a matrix is a {', '.join(FORMATS)} file.")
    return FORMATS[path.suffix.lower()](path, key)


def refuse_matrix(spec: str, column: str | None, modality: str) -> Source | None:
    """Refuse a matrix that is given as a source of items, and point to the command that reads it."""
    path = Path(spec)
    if path.suffix.lower() in set(FORMATS) - set(ITEMS_TOO) and path.is_file():
        raise IsoscopeError(f"{spec} is a matrix, and a model reads documents; to measure the matrix itself: isoscope embeddings {spec}")
    return None


ACCEPTS = "a matrix (n, d) in a .npy, .npz, .safetensors, .parquet, .csv, .tsv or .pt file, for `isoscope embeddings`"
arrays = SourceKind("arrays", "matrix", ACCEPTS, refuse_matrix)
