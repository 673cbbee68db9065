"""Limits of the numbers that a user gives as options, checked before any work is done."""

from __future__ import annotations

from isoscope.core.errors import IsoscopeError

MAX_COUNT = 10**15
"""More than anybody has of anything counted here. Libraries count in 64 bits and fail in their own words beyond that."""
MAX_THREADS = 4096
"""More threads than are of use. A library may allocate memory per thread, and end the process if there is none."""
MAX_BLOCKS = 4096
"""Blocks of a network, which are built one by one."""
MAX_SAMPLE = 10**12
"""Points of a sample. Even the widest points then take fewer bytes than numpy can count, so that too many raise a MemoryError."""
MAX_SEED = (1 << 63) - 1


def check_count(option: str, value: int | None, least: int = 1, most: int = MAX_COUNT) -> None:
    """Refuse a number that is too small or too large; None, the default of an option, passes.

    >>> check_count("max_items", 0)
    Traceback (most recent call last):
    isoscope.core.errors.IsoscopeError: --max-items must be at least 1; got 0.
    """
    flag = f"--{option.replace('_', '-')}"
    if value is not None and value < least:
        raise IsoscopeError(f"{flag} must be at least {least}; got {value}.")
    if value is not None and value > most:
        raise IsoscopeError(f"{flag} must be at most {most:,}; got {value:,}.")
