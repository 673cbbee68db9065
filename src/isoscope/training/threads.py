"""How many threads torch and numpy may use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from isoscope.core.user_input import MAX_THREADS, check_count


@contextlib.contextmanager
def limit_threads(count: int | None) -> Iterator[None]:
    """Limit torch and numpy to `count` threads; None keeps their defaults."""
    if count is None:
        yield
        return
    check_count("threads", count, most=MAX_THREADS)
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with threadpool_limits(count):
            yield
    finally:
        torch.set_num_threads(before)
