"""Processes that import nothing from the current folder, which may be the folder of a stranger's model."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

SAFE_PATH = "PYTHONSAFEPATH"
"""With this variable Python does not put the current folder in front of what it imports from (`python -P`)."""

_lock = threading.RLock()


@contextlib.contextmanager
def hide_current_folder() -> Iterator[None]:
    """Start processes here, and neither they nor their own children look for modules in the current folder.

    `multiprocessing` starts each process with `python -c`, which searches the current folder before the standard library, and then
    passes on this process's `sys.path`, with the current folder in place of the empty entry. So both must be gone before the start.
    A folder that `sys.path` names in full stays: it belongs to the script that the user runs.
    """
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
