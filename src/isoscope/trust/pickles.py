"""Files of torch.save, checked before they are opened: an archive may not claim more than its bytes hold."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from isoscope.core.errors import IsoscopeError

if TYPE_CHECKING:
    from torch import Tensor

MAX_MEMBERS = 1 << 18
"""Storages of a checkpoint."""
END, LOCATOR, END64 = struct.Struct("<4s4HLLH"), struct.Struct("<4sLQL"), struct.Struct("<4sQ2H2L4Q")
"""The last records of an archive: its end, and before it, in 64-bit archives, the locator of the long form and the long form itself."""
MAX_SHARING = 8
"""How many times the size of a file its tensors may have together: some share their numbers with others."""


def is_archive(path: Path) -> bool:
    """Whether torch will read a file as an archive: it looks only at the first bytes."""
    with path.open("rb") as file:
        return file.read(4) == b"PK\3\4"


def check_archive(path: Path) -> None:
    """Refuse an archive that is compressed or claims more bytes than it has; torch.save writes neither. Other files are left to torch."""
    if not is_archive(path):
        return
    size = path.stat().st_size
    foreign = IsoscopeError(f"{path} is an archive that torch.save did not write, and was not opened. Ask for safetensors.")
    if not _has_one_directory(path, size):
        raise foreign
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, IndexError, OSError) as error:
        raise IsoscopeError(f"{path} is damaged or is not a file of torch.save; copy or download it again.") from error
    if len(members) > MAX_MEMBERS or any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise foreign
    if sum(max(member.file_size, member.compress_size) for member in members) > size:
        raise IsoscopeError(f"{path} claims to hold more than its {size:,} bytes, and was not opened; copy or download it again.")


def _has_one_directory(path: Path, size: int) -> bool:
    """Whether every reader finds the same directory: at the end, without a comment, and right before the records that point to it.

    Readers differ in how they look for it before a comment, in which of two sizes they trust, and in where they count offsets from. With
    any of these, the directory that `zipfile` checks might not be the one that torch opens.
    """
    with path.open("rb") as file:
        # The last record has a fixed size if there is no comment, so everything lies at known offsets from the end.
        file.seek(max(0, size - END.size - LOCATOR.size - END64.size))
        tail = file.read()
    if len(tail) < END.size:
        return False
    mark, *_, length, start, comment = END.unpack(tail[-END.size :])
    end = size - END.size
    if mark != b"PK\5\6" or comment:
        return False
    if tail[-END.size - LOCATOR.size :].startswith(b"PK\6\7"):
        end = size - END.size - LOCATOR.size - END64.size
        _, _, place, _ = LOCATOR.unpack(tail[END64.size : END64.size + LOCATOR.size])
        mark, *_, length, start = END64.unpack(tail[: END64.size])
        if mark != b"PK\6\6" or place != end:
            return False
    return bool(start + length == end)


def check_tensors(path: Path, tensors: Iterable[Tensor]) -> None:
    """Refuse tensors that are far larger than the file: one stored number can stand for a tensor of any size."""
    # A pickle can give a tensor strides of 0, by which one number is read again and again.
    claimed = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    if claimed > MAX_SHARING * max(path.stat().st_size, 1 << 20):
        size = path.stat().st_size
        raise IsoscopeError(f"{path} holds tensors of {claimed:,} bytes in a file of {size:,}; save model.state_dict() anew.")
