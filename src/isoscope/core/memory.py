"""How much memory is left: on the machine, in the container or job of this process, and in what the process may reserve."""

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
"""For each version of control groups, the files with the limit and the usage, and the part of the usage that the kernel gives up when
memory is needed: cached contents of files."""


def memory_left() -> int:
    """Bytes that this process can still allocate, as far as the system reports it."""
    root = Path("/")
    return max(0, min(_left_on_machine(root), _left_in_control_groups(root), _left_in_address_space(root)))


def check_room(what: str, needed: int, less: str, left: int | None = None) -> None:
    """Refuse work that needs more memory than is left now, or than was `left` earlier; `less` says what to do instead."""
    left = memory_left() if left is None else left
    if needed > left:
        raise IsoscopeError(f"{what} would take {needed >> 30:,} GB, and {left >> 30:,} GB are free; {less}.")


def addresses_left() -> int:
    """Bytes of address space that `ulimit -v` still allows this process to reserve, used or not."""
    return _left_in_address_space(Path("/"))


def _left_on_machine(root: Path) -> int:
    try:
        meminfo = (root / "proc/meminfo").read_text("ascii")
        return int(meminfo.partition("MemAvailable:")[2].split()[0]) << 10
    except (OSError, IndexError, ValueError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _left_in_control_groups(root: Path) -> int:
    """Bytes that the control groups allow. Containers and jobs of a cluster run in them; the machine may have far more."""
    # Every group on the way to the root limits the process, and the tightest limit counts.
    left = sys.maxsize
    for folder, (limit, taken, cached) in _control_groups(root):
        with contextlib.suppress(OSError, ValueError):  # the file holds `max` if there is no limit
            most, used = (int((folder / name).read_text("ascii")) for name in (limit, taken))
            statistics = (line.split() for line in (folder / "memory.stat").read_text("ascii").splitlines())
            left = min(left, most - used + sum(int(size) for name, size in statistics if name == cached))
    return left


def _control_groups(root: Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """The groups that limit memory, from that of the process outwards. In a container often only the outermost is visible."""
    with contextlib.suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text("utf-8").splitlines():
            _, kinds, path = line.split(":", 2)
            for kind in set(kinds.split(",")) & set(LIMITS):
                top = root / "sys/fs/cgroup" / kind
                inner = top / path.strip("/")
                for folder in (inner, *inner.parents):
                    if folder.is_relative_to(top):
                        yield folder, LIMITS[kind]


def _left_in_address_space(root: Path) -> int:
    """Bytes of address space that `ulimit -v` leaves."""
    with contextlib.suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most != resource.RLIM_INFINITY:
            return most - int((root / "proc/self/statm").read_text("ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return sys.maxsize
