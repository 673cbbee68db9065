"""The process of a command ends with its own exit code, whatever its threads are doing."""

import sys

from tests.patience import run_process

BUSY_FETCH = """
import sys, threading
import torch
from isoscope.cli import start
from isoscope.measuring.scheduler import _start_fetch

began = threading.Event()


class Job:
    def prepare_fetch(self):
        pass

    def fetch(self):
        matrix = torch.ones(300, 300)
        began.set()
        while True:
            torch.mm(matrix, matrix)  # nearly all of the time within C++


_start_fetch(Job())
began.wait()
sys.argv = ["isoscope", "table", "no-such-run"]
start()
"""


def test_a_fetch_that_is_still_running_does_not_abort_the_process():
    """Ending a thread within C++ code aborts the process with SIGABRT, and the user error would be lost."""
    ended = run_process([sys.executable, "-c", BUSY_FETCH])
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.startswith("isoscope: There is no run at no-such-run")
    assert "terminate" not in ended.stderr
