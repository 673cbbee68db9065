"""The command line in a terminal of eighty columns: what a person sees, without the colours."""

import os
import pty
import re
import subprocess
import sys

from tests.patience import HANG_LIMIT

COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def in_terminal(*words: object, columns: int = 80) -> list[str]:
    """The lines that a command writes into a terminal of this width; it must succeed."""
    master, slave = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    command = [sys.executable, "-m", "isoscope", *map(str, words)]
    with subprocess.Popen(command, stdout=slave, stderr=slave, stdin=subprocess.DEVNULL, env=environment) as process:
        os.close(slave)
        written = bytearray()
        while True:
            try:
                part = os.read(master, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            written += part
        os.close(master)
        assert process.wait(HANG_LIMIT) == 0, written.decode()
    return [line.rstrip() for line in COLOURS.sub("", written.decode()).replace("\r", "").splitlines()]
