"""Names for what is not finished: nobody else makes the same one, and each says which process of which machine is writing.

A process is looked up by its number, which means nothing on another machine, in another container or after a restart. So a name holds
all of these, and only where they are those of this process can it be known that the writer has ended.
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
"""A writer in a file's name: its machine, its process, and letters by chance."""
TEMPORARY = re.compile(rf"\.(?P<name>.+)\.{WRITER}\.tmp", re.ASCII)
"""What is being written, or being deleted, out of sight."""
DAY = 86400.0
"""Seconds after which what a process elsewhere was writing counts as abandoned; a write takes seconds, of large cells minutes."""


@lru_cache
def this_machine() -> str:
    """This boot of this host and, within it, this container: where the number of a process says which process it is."""
    try:
        where = Path("/proc/sys/kernel/random/boot_id").read_text("ascii"), os.readlink("/proc/self/ns/pid")
    except OSError:  # macOS has neither, nor containers; elsewhere nothing is known, so that no other process counts as one of here
        where = ("", "") if sys.platform == "darwin" else (secrets.token_hex(8), "")
    return hashlib.sha256(repr((socket.gethostname(), *where)).encode()).hexdigest()[:8]


def new_writer() -> str:
    """A name for one act of writing."""
    return f"{this_machine()}-{os.getpid()}-{secrets.token_hex(4)}"


def temporary_for(path: Path) -> Path:
    """A name next to a file or folder under which it can be written, or deleted, out of sight."""
    return path.with_name(f".{path.name}.{new_writer()}.tmp")


def has_ended(name: re.Match[str]) -> bool | None:
    """Whether the process in a name has ended; None where it is one of another machine or container, or from before a restart."""
    if name["machine"] != this_machine():
        return None
    try:
        os.kill(int(name["process"]), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # it runs, as another user
        pass
    return False


def abandoned_in(folder: Path) -> Iterator[tuple[Path, re.Match[str]]]:
    """What lies in a folder because its writer was killed, with its name taken apart."""
    names = [(path, name) for path in sorted(folder.iterdir()) if (name := TEMPORARY.fullmatch(path.name))]
    if not names:
        return
    with tempfile.TemporaryFile(dir=folder) as file:
        now = os.fstat(file.fileno()).st_mtime  # the clock of the file system, which may differ from that of this machine
    for path, name in names:
        with contextlib.suppress(FileNotFoundError):  # another process clears up too
            if is_abandoned(path, name, now):
                yield path, name


def delete_whatever(path: Path) -> None:
    """Delete a file, a link or a folder, as far as that is possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def is_abandoned(path: Path, name: re.Match[str], now: float) -> bool:
    """Whether nobody is writing here any more: the process has ended, or is elsewhere and wrote nothing for a day."""
    if (ended := has_ended(name)) is not None:
        return ended
    inside = list(os.scandir(path)) if path.is_dir() and not path.is_symlink() else []
    return now - max(found.lstat().st_mtime for found in (path, *(Path(entry.path) for entry in inside))) > DAY
