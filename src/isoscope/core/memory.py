"""How much memory may still be taken: of the machine, of the container or job that this is in, and of what the process is allowed."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from isoscope.core.errors import IsoscopeError

LIMITS = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""Of either version of control groups: the limit, what is taken, and what of that is only kept of files, and given up when needed."""


def memory_left() -> int:
    """Bytes that this process can still take, as far as the system says."""
    root = Path("/")
    return max(0, min(_of_machine(root), _of_groups(root), _of_process(root)))


def check_room(what: str, needed: int, less: str, left: int | None = None) -> None:
    """Refuse what would take more memory than can be had, or than there was `left` at some time; `less` says what to do instead."""
    left = memory_left() if left is None else left
    if needed > left:
        raise IsoscopeError(f"{what} would take {needed >> 30:,} GB, and {left >> 30:,} GB are free; {less}.")


def addresses_left() -> int:
    """Bytes that this process may still reserve, taken or not: what `ulimit -v` leaves."""
    return _of_process(Path("/"))


def _of_machine(root: Path) -> int:
    try:
        said = (root / "proc/meminfo").read_text("ascii")
        return int(said.partition("MemAvailable:")[2].split()[0]) << 10
    except (OSError, IndexError, ValueError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_groups(root: Path) -> int:
    """What the control groups allow in which containers and jobs of a cluster run; the machine may have far more."""
    left = sys.maxsize
    for folder, (limit, taken, cached) in _groups(root):
        with contextlib.suppress(OSError, ValueError):  # `max`, where there is no limit
            most, used = (int((folder / name).read_text("ascii")) for name in (limit, taken))
            kept = (line.split() for line in (folder / "memory.stat").read_text("ascii").splitlines())
            left = min(left, most - used + sum(int(size) for name, size in kept if name == cached))
    return left


def _groups(root: Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """The groups that limit memory, from that of the process outwards; within a container the outermost is often all that is to be seen."""
    with contextlib.suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text("utf-8").splitlines():
            _, kinds, path = line.split(":", 2)
            for kind in set(kinds.split(",")) & set(LIMITS):
                top = root / "sys/fs/cgroup" / kind
                inner = top / path.strip("/")
                for folder in (inner, *inner.parents):
                    if folder.is_relative_to(top):
                        yield folder, LIMITS[kind]


def _of_process(root: Path) -> int:
    """What `ulimit -v` leaves."""
    with contextlib.suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most != resource.RLIM_INFINITY:
            return most - int((root / "proc/self/statm").read_text("ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return sys.maxsize
