"""The command line: one file per verb. Nothing heavy is imported before a verb needs it."""

from __future__ import annotations

import errno
import gc
import io
import os
import re
import sys
import threading
import traceback
from typing import IO, Any, NoReturn

DEBUG = "ISOSCOPE_DEBUG"
"""The environment variable that shows tracebacks of user errors too."""
BUG = "this is a bug in isoscope, not a mistake of yours. Please report it with the traceback above, in the repository isoscope came from."
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""Errors of disks and streams, which may come without the name of a file."""

COLOUR = re.compile("(\x1b\\[[0-9;]{0,40}m)")
"""The only sequences that tables and help need; the worst that a name with one can do is to be coloured."""


def start() -> NoReturn:
    """Run the command line as a process of its own, which ends here."""
    from isoscope.core.progress import FETCH_THREAD

    # torch and transformers make a million objects, none of them garbage. Searching them again and again takes a quarter of the start.
    gc.set_threshold(100_000)
    try:
        main()
    except SystemExit as end:
        if any(thread.name == FETCH_THREAD for thread in threading.enumerate()):
            # A sweep that fails leaves the thread that fetches its next checkpoint. Python ends such a thread when it next asks for the
            # interpreter; within the C++ code of a library that aborts the whole process, and its exit code is lost.
            sys.stderr.flush()
            os._exit(int(end.code or 0))
        raise


def main() -> NoReturn:
    """Run the command line.

    A user error is one sentence on standard error and exit code 2; with ISOSCOPE_DEBUG=1 its traceback comes first. Anything else is a bug
    of ours: its traceback, where to report it, and exit code 1.
    """
    from isoscope.core.errors import IsoscopeError, first_line, is_out_of_memory
    from isoscope.core.wording import plain

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that lacks … or ± is no reason to fail
    if sys.stdout.isatty():
        sys.stdout = GuardedStream(sys.stdout)
    try:
        _check_arguments(sys.argv[1:])
        _run()
        code, message = 0, ""
    except IsoscopeError as error:
        code, message = error.code, str(error)
        _show_traceback_if_debugging()
    except KeyboardInterrupt:
        code, message = 130, "interrupted. Finished cells are saved; rerun the command to resume."
    except BrokenPipeError:
        code, message = 0, ""  # the reader, such as head, has seen enough
    except Exception as error:
        if isinstance(error, OSError) and (error.filename or error.errno in DISK_ERRORS):
            code, message = 2, f"{error.filename or 'Cannot read or write'}: {error.strerror or error}."
            _show_traceback_if_debugging()
        elif is_out_of_memory(error):
            code, message = 2, f"Out of memory ({first_line(error)}); reduce the input, or use a machine with more memory."
            _show_traceback_if_debugging()
        else:
            # A page may have many failed parts; Python would show only the first fifteen of a group.
            traceback.TracebackException(type(error), error, error.__traceback__, max_group_width=1000).print()
            code, message = 1, BUG
    if message:
        sys.stderr.write(f"isoscope: {plain(message).strip().replace(chr(10), ' ')}\n")
    _close()
    raise SystemExit(code)


def _run() -> None:
    """Run the verb. Typer turns Ctrl-C and a closed pipe into SystemExit; this raises the original exceptions again."""
    from isoscope.cli.app import app
    from isoscope.core.errors import missing_extras_as_user_errors

    verb = sys.argv[1] if len(sys.argv) > 1 else ""
    try:
        with missing_extras_as_user_errors(f"isoscope {verb}" if verb.replace("-", "").isalpha() else "This"):
            app()
    except SystemExit as end:
        if end.code == 130:
            raise KeyboardInterrupt from None
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        sys.stdout.flush()
        if end.code:
            raise


def _show_traceback_if_debugging() -> None:
    if os.environ.get(DEBUG, "0") not in ("", "0"):
        traceback.print_exc()


def _close() -> None:
    """Flush standard output, and discard the rest if that fails, so that Python does not complain at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_arguments(words: list[str]) -> None:
    """Refuse arguments that are not UTF-8, which would fail much later in some library, and those with control characters.

    With `isoscope measure *` the names of files are arguments, and these may come from strangers.
    """
    from isoscope.core.errors import IsoscopeError
    from isoscope.core.wording import plain

    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            raise IsoscopeError(f"The argument {os.fsencode(word)!r} is not UTF-8; rename the file or folder.") from error
        if plain(word) != word:
            raise IsoscopeError(f"The argument {word!r:.200} has control characters; rename the file or folder.")


class GuardedStream:
    """The stream of a terminal that lets only text and colours through."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write harmless text unchanged, and anything else as its escape."""
        self._stream.write(escape_controls(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write lines one after the other."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def escape_controls(text: str) -> str:
    """A text with its colours, and with all other control sequences escaped.

    >>> escape_controls("\\x1b[1mbold\\x1b[0m \\x1b[2J")
    '\\x1b[1mbold\\x1b[0m \\\\x1b[2J'
    """
    from isoscope.core.wording import plain

    return "".join(part if i % 2 else plain(part) for i, part in enumerate(COLOUR.split(text)))
