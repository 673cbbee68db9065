"""Start processes that import nothing from the current folder: it may be the folder of a stranger's model."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

SAFE_PATH = "PYTHONSAFEPATH"
"""With this variable set, Python does not search the current folder for modules (`python -P`)."""

_lock = threading.RLock()


@contextlib.contextmanager
def hide_current_folder() -> Iterator[None]:
    """Processes that are started in this context, and their children, do not search the current folder for modules.

    A folder that `sys.path` names in full stays: it belongs to the script that the user runs.
    """
    # `multiprocessing` starts each process with `python -c`, which searches the current folder before the standard library. It also
    # passes on this process's `sys.path`, with the current folder in place of the empty entry. So both must be gone before the start.
    with _lock:
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
