"""Temporary names for unfinished files and folders. Each is unique and says which process on which machine is writing.

A process is found by its number, which means nothing on another machine, in another container or after a restart. So a name identifies
all three, and only if they are those of this process can we know whether the writer has ended.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

WRITER = r"(?P<machine>[0-9a-f]{8})-(?P<process>[0-9]{1,10})-[0-9a-f]{8}"
"""A writer in a file name: machine, process and random digits."""
TEMPORARY = re.compile(rf"\.(?P<name>.+)\.{WRITER}\.tmp", re.ASCII)
"""The hidden name of something that is being written or deleted."""
DAY = 86400.0
"""Seconds without a write after which the file of a process on another machine counts as abandoned. A write takes seconds or minutes."""


@lru_cache
def this_machine() -> str:
    """A hash of host, boot and container: within these, a process number identifies a process."""
    try:
        where = Path("/proc/sys/kernel/random/boot_id").read_text("ascii"), os.readlink("/proc/self/ns/pid")
    except OSError:  # macOS has neither, and no containers. Elsewhere, a random value makes every other process a stranger
        where = ("", "") if sys.platform == "darwin" else (secrets.token_hex(8), "")
    return hashlib.sha256(repr((socket.gethostname(), *where)).encode()).hexdigest()[:8]


def new_writer_name() -> str:
    """A unique name for one act of writing."""
    return f"{this_machine()}-{os.getpid()}-{secrets.token_hex(4)}"


def temporary_path(path: Path) -> Path:
    """A hidden name next to a file or folder, under which it can be written or deleted and then renamed."""
    return path.with_name(f".{path.name}.{new_writer_name()}.tmp")


def writer_has_ended(name: re.Match[str]) -> bool | None:
    """Whether the process in a name has ended; None if it belongs to another machine or container, or to the time before a restart."""
    if name["machine"] != this_machine():
        return None
    try:
        # Signal 0 is never delivered; it only asks whether the process exists. A number used again by another process counts as running.
        os.kill(int(name["process"]), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # it runs as another user
        pass
    return False


def find_abandoned(folder: Path) -> Iterator[tuple[Path, re.Match[str]]]:
    """The files and folders that killed writers left in a folder, with the parts of their names."""
    names = [(path, name) for path in sorted(folder.iterdir()) if (name := TEMPORARY.fullmatch(path.name))]
    if not names:
        return
    with tempfile.TemporaryFile(dir=folder) as file:
        now = os.fstat(file.fileno()).st_mtime  # the clock of the file system, which may differ from ours
    for path, name in names:
        with contextlib.suppress(FileNotFoundError):  # another process cleans up too
            if is_abandoned(path, name, now):
                yield path, name


def delete_path(path: Path) -> None:
    """Delete a file, a link or a folder as far as possible; no error is raised."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def is_abandoned(path: Path, name: re.Match[str], now: float) -> bool:
    """Whether nobody is writing here any more: the process has ended, or is on another machine and wrote nothing for a day."""
    if (ended := writer_has_ended(name)) is not None:
        return ended
    # Writing to a file does not change the time of its folder, so the files in it are asked too.
    inside = list(path.iterdir()) if path.is_dir() and not path.is_symlink() else []
    return now - max(written.lstat().st_mtime for written in (path, *inside)) > DAY
