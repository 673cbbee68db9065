"""NumPy's .npy, and its header, which the members of an .npz have too."""

from __future__ import annotations

import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from isoscope.core.errors import IsoscopeError, first_line
from isoscope.trust.arrays.uncompressed import UncompressedArray


@dataclass(frozen=True)
class NpyHeader:
    """The header before the values, and its length in bytes."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    length: int


def read_npy_header(file: IO[bytes], shown: str) -> NpyHeader:
    """The header at the start of `file`, which errors call `shown`. NumPy parses it as a literal; nothing is unpickled."""
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
        else:
            raise IsoscopeError(f"{shown} is a structured array (.npy version {version[0]}); save a plain float32 matrix.")
    except (ValueError, EOFError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError, tokenize.TokenError) as error:
        reason = first_line(error)
        raise IsoscopeError(
            f"{shown} is not an .npy array: its header cannot be read ({reason}); save it again with numpy.save."
        ) from error
    return NpyHeader(shape, fortran, dtype, file.tell())


def open_npy(path: Path, key: str | None = None) -> UncompressedArray:
    """The array in an .npy file. It has no name, so a key is refused."""
    if key is not None:
        raise IsoscopeError(f"{path} holds one array without a name; leave out the key {key!r}.")
    with path.open("rb") as file:
        header = read_npy_header(file, str(path))
    return UncompressedArray(path, path.name, header.shape, header.dtype, header.length, header.fortran)
