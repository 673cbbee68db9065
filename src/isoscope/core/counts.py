"""Numbers that a user gives, held against what they may be before anything is done with them."""

from __future__ import annotations

from isoscope.core.errors import IsoscopeError

MOST = 10**15
"""More than anybody has of anything that is counted here; what libraries count by has 64 bits."""
THREADS = 4096
"""More than a process can have of use; a library may take memory for each, and end the process where there is none."""
DEEPEST = 4096
"""Blocks of a network, which are made one by one."""
SAMPLE = 10**12
"""Points of a sample. Even the widest points then take fewer bytes than numpy can count, so that too many are a lack of memory."""
SEED = (1 << 63) - 1


def check_count(option: str, value: int | None, least: int = 1, most: int = MOST) -> None:
    """Refuse a number that is too small or too large; None, where nothing was said, is neither.

    >>> check_count("max_items", 0)
    Traceback (most recent call last):
    isoscope.core.errors.IsoscopeError: --max-items must be at least 1; got 0.
    """
    said = f"--{option.replace('_', '-')} must be"
    if value is not None and value < least:
        raise IsoscopeError(f"{said} at least {least}; got {value}.")
    if value is not None and value > most:
        raise IsoscopeError(f"{said} at most {most:,}; got {value:,}.")
