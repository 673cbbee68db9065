"""This machine: its cores, memory and disk, how much of them is left, and how processes are started on it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from isoscope.core.errors import IsoscopeError
from isoscope.core.wording import format_bytes

LIMITS = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""For each version of control groups, the files with the limit and the usage, and the part of the usage that the kernel gives up when
memory is needed: cached contents of files."""
SAFE_PATH = "PYTHONSAFEPATH"
"""With this variable set, Python does not search the current folder for modules (`python -P`)."""

_start_lock = threading.RLock()


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def oom_kills() -> int:
    """How many processes the system has killed for lack of memory since it started; 0 if it keeps no count."""
    return _read_entry(Path("/proc/vmstat"), "oom_kill ") or 0


def resident_memory() -> int:
    """The memory that this process holds now, in bytes."""
    return _process_memory("VmRSS")


def peak_memory() -> int:
    """The most memory that this process has held since it started, or since `forget_peak`, in bytes."""
    return _process_memory("VmHWM")


def forget_peak() -> None:
    """Reset the system's record of the peak, if it can be reset (on Linux)."""
    # A process measures one cell after the other, and each cell must report its own peak.
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _process_memory(entry: str) -> int:
    kilobytes = _read_entry(Path("/proc/self/status"), entry)
    if kilobytes is not None:
        return kilobytes * 1024
    import resource

    # Other systems tell only the peak; macOS in bytes, the others in kilobytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _read_entry(file: Path, entry: str) -> int | None:
    """The number after `entry` in a file of the system; None if it cannot be read."""
    try:
        return next(int(line.split()[1]) for line in file.read_text("ascii").splitlines() if line.startswith(entry))
    except (OSError, StopIteration, ValueError):
        return None


def memory_left() -> int:
    """Bytes that this process can still allocate, as far as the system reports it."""
    root = Path("/")
    return max(0, min(_left_on_machine(root), _left_in_control_groups(root), addresses_left(root)))


def check_room(what: str, needed: int, less: str, left: int | None = None) -> None:
    """Refuse work that needs more memory than is left now, or than was `left` earlier; `less` says what to do instead."""
    left = memory_left() if left is None else left
    if needed > left:
        raise IsoscopeError(f"{what} would take {needed >> 30:,} GB, and {left >> 30:,} GB are free; {less}.")


def _left_on_machine(root: Path) -> int:
    kilobytes = _read_entry(root / "proc/meminfo", "MemAvailable:")
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if kilobytes is None else kilobytes << 10


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


def addresses_left(root: Path = Path("/")) -> int:
    """Bytes of address space that `ulimit -v` still allows this process to reserve, used or not."""
    with contextlib.suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most != resource.RLIM_INFINITY:
            return most - int((root / "proc/self/statm").read_text("ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return sys.maxsize


def check_disk(folder: Path, needed: int) -> None:
    """Refuse a cell that does not fit on the disk now, instead of failing hours later."""
    existing = folder.resolve()  # the run's folder may not be there yet, and then its nearest parent says which disk it will be on
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise IsoscopeError(
            f"The run will write {format_bytes(needed)} and the disk that holds {folder} has {format_bytes(free)} free; "
            "keep less with --store sums or --store rows, or fewer --layers."
        )


@contextlib.contextmanager
def hide_current_folder() -> Iterator[None]:
    """Start processes that import nothing from the current folder, nor do their children: it may hold the code of an untrusted model.

    A folder that `sys.path` names in full stays: it belongs to the script that the user runs.
    """
    # `multiprocessing` starts each process with `python -c`, which searches the current folder before the standard library. It also
    # passes on this process's `sys.path`, with the current folder in place of the empty entry. So both must be gone before the start.
    with _start_lock:
        variable, path = os.environ.get(SAFE_PATH), sys.path[:]
        os.environ[SAFE_PATH] = "1"
        sys.path[:] = [entry for entry in path if entry]
        try:
            yield
        finally:
            sys.path[:] = path
            if variable is None:
                del os.environ[SAFE_PATH]
            else:
                os.environ[SAFE_PATH] = variable
