"""Waiting for other processes without depending on how busy the machine is.

A limit here only ends a test that hangs. It is many times what any step needs, so a slow or crowded machine never reaches it.
"""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

HANG_LIMIT = float(os.environ.get("ISOSCOPE_TEST_HANG_LIMIT", 1200))
"""Seconds after which a process counts as hung."""
WORK_LIMIT = 60.0
"""CPU seconds within which hostile input must be refused. CPU time hardly depends on what else runs."""


def run_process(words: Sequence[str | bytes | os.PathLike[str]], **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run a command to its end and return what it printed, as text unless asked otherwise."""
    if "stdout" not in options and "stderr" not in options:
        options.setdefault("capture_output", True)
    return subprocess.run(words, **{"text": True, "check": False, "timeout": HANG_LIMIT} | options)


def wait_until(happened: Callable[[], Any], what: str, pause: float = 0.01) -> None:
    """Return once `happened()` is true; fail with `what` if that never comes."""
    began = time.monotonic()
    while not happened():
        assert time.monotonic() - began < HANG_LIMIT, f"waited {HANG_LIMIT:.0f} s for {what}"
        time.sleep(pause)
