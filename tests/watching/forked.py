"""The process that computes the numbers of looks as a copy of one that has its imports.

A process of its own imports for two seconds what it then needs for a few hundredths of one. What runs in the copy is the code that
`NumbersProcess` starts, with the same pipes, environment and folder. test_numbers_process.py starts real ones.
"""

import multiprocessing
import os
import subprocess
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["isoscope.watching.look_writer", "isoscope.watching.numbers_process", "scipy.stats"])


class ForkedProcess:
    """What `NumbersProcess` uses of `subprocess.Popen`."""

    def __init__(self, command: list[str], *, env: dict[str, str], process_group: int, stdin: int, stdout: int, bufsize: int) -> None:
        assert (process_group, stdin, stdout, bufsize) == (0, subprocess.PIPE, subprocess.PIPE, 0)
        their_in, our_in = CONTEXT.Pipe(duplex=False)
        our_out, their_out = CONTEXT.Pipe(duplex=False)
        error = Connection(os.dup(2))
        # A daemon is ended with this process, as one of its own ends when its pipe does.
        self._process = CONTEXT.Process(target=_run, args=(command[-1], env, os.getcwd(), their_in, their_out, error), daemon=True)
        self._process.start()
        self.stdin = open(os.dup(our_in.fileno()), "wb", buffering=0)  # noqa: SIM115
        self.stdout = open(os.dup(our_out.fileno()), "rb", buffering=0)  # noqa: SIM115
        for end in (their_in, our_in, our_out, their_out, error):
            end.close()

    def wait(self) -> int:
        self._process.join()
        return self._process.exitcode

    def __getattr__(self, name: str) -> Any:
        return getattr(self._process, name)


def _run(code: str, environment: dict[str, str], folder: str, *streams: Connection) -> None:
    os.setpgid(0, 0)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    exec(code, {"__name__": "__main__"})


FORKING = SimpleNamespace(Popen=ForkedProcess, PIPE=subprocess.PIPE)
"""In the place of `subprocess`."""
