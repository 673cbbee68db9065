"""Steps of compiled code, and of BLAS, in several threads: neither holds Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache


def run_in_threads(steps: Sequence[Callable[[], object]]) -> None:
    """Run all steps at once, the first of them here, and return when all are done; the first mistake is raised.

    >>> seen = []
    >>> run_in_threads([lambda: seen.append(1), lambda: seen.append(2)])
    >>> sorted(seen)
    [1, 2]
    """
    others = [_pool(os.getpid()).submit(step) for step in steps[1:]]
    try:
        for step in steps[:1]:
            step()
    finally:
        errors = [other.exception() for other in others]  # waits: no step may run on after an error
    for error in errors:
        if error is not None:
            raise error


@lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    """The threads of this process: a fork of it has none of them."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="isoscope-step")
