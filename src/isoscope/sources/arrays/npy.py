"""NumPy's .npy, and its header, which the members of an .npz have too."""

from __future__ import annotations

import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.sources.arrays.region import Region


@dataclass(frozen=True)
class Header:
    """What stands before the values, and how many bytes it takes."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    length: int


def read_header(file: IO[bytes], what: str) -> Header:
    """The header at the start of `file`; NumPy parses it as a literal, and nothing is unpickled."""
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
        else:
            raise IsoscopeError(f"{what} is a structured array (.npy version {version[0]}); save a plain float32 matrix.")
    except (ValueError, EOFError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError, tokenize.TokenError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise IsoscopeError(f"{what} is not an .npy array: its header cannot be read ({reason}); save it again with numpy.save.") from error
    return Header(shape, fortran, dtype, file.tell())


def open_npy(path: Path, key: str | None = None) -> Region:
    """The array in an .npy file, which has no name: a key is refused, as it would choose nothing."""
    if key is not None:
        raise IsoscopeError(f"{path} holds one array without a name; leave out the key {key!r}.")
    with path.open("rb") as file:
        header = read_header(file, str(path))
    return Region(path, path.name, header.shape, header.dtype, header.length, header.fortran)
