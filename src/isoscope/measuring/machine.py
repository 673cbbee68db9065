"""What this machine offers, and what a process takes of it."""

from __future__ import annotations

import os
from pathlib import Path

BASE_MEMORY = 1 << 30
"""Bytes of a process without a model: libraries, and the statistics of a small one."""


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def oom_kills() -> int:
    """How many processes the system has killed for lack of memory since it started; 0 if it does not count them."""
    try:
        lines = Path("/proc/vmstat").read_text("ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
    except (OSError, StopIteration, ValueError):
        return 0
