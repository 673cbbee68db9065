"""Files of torch.save, looked at before they are opened: an archive holds what it claims, and no more than its bytes."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from isoscope.core.errors import IsoscopeError

if TYPE_CHECKING:
    from torch import Tensor

MEMBERS = 1 << 18
"""Storages of a checkpoint."""
SHARED = 8
"""Times the size of a file that its tensors may have together: some share their numbers with others."""


def check_archive(path: Path) -> None:
    """Refuse an archive that is compressed or claims more bytes than it has; torch.save writes neither. Other files are left to torch."""
    if not zipfile.is_zipfile(path):
        return
    size = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, IndexError, OSError) as error:
        raise IsoscopeError(f"{path} is damaged or is not a file of torch.save; copy or download it again.") from error
    if len(members) > MEMBERS or any(one.compress_type != zipfile.ZIP_STORED for one in members):
        raise IsoscopeError(f"{path} is an archive that torch.save did not write, and was not opened. Ask for safetensors.")
    if sum(max(one.file_size, one.compress_size) for one in members) > size:
        raise IsoscopeError(f"{path} claims to hold more than its {size:,} bytes, and was not opened; copy or download it again.")


def check_tensors(path: Path, tensors: Iterable[Tensor]) -> None:
    """Refuse tensors that are far larger than the file: one number can stand for a tensor of any size."""
    claimed = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    if claimed > SHARED * max(path.stat().st_size, 1 << 20):
        size = path.stat().st_size
        raise IsoscopeError(f"{path} holds tensors of {claimed:,} bytes in a file of {size:,}; save model.state_dict() anew.")
