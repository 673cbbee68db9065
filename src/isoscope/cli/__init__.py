"""The command line: one file a verb. Nothing heavy is imported before a verb needs it."""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from typing import NoReturn

DEBUG = "ISOSCOPE_DEBUG"
"""The environment variable that shows tracebacks of user errors too."""
BUG = "this is a bug in isoscope, not a mistake of yours. Please report it with the traceback above, in the repository isoscope came from."
BEYOND_US = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""Errors of disks and streams, which may come without the name of a file."""


def main() -> NoReturn:
    """Run the command line.

    A mistake of the user's is one sentence on standard error and exit code 2; with ISOSCOPE_DEBUG=1 its traceback comes before it. Anything
    else is a bug of ours: its traceback, where to report it, and exit code 1.
    """
    from isoscope.core.errors import IsoscopeError
    from isoscope.core.memory import is_out_of_memory
    from isoscope.core.printable import plain

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without … or ± is no reason to fail
    if sys.stdout.isatty():
        from isoscope.cli.terminal import Guarded

        sys.stdout = Guarded(sys.stdout)
    try:
        _decodable(sys.argv[1:])
        _run()
        code, said = 0, ""
    except IsoscopeError as error:
        code, said = error.code, str(error)
        _show_traceback_if_debugging()
    except KeyboardInterrupt:
        code, said = 130, "interrupted; finished cells are kept, the same command goes on."
    except BrokenPipeError:
        code, said = 0, ""  # whoever reads has seen enough
    except Exception as error:
        if isinstance(error, OSError) and (error.filename or error.errno in BEYOND_US):
            code, said = 2, f"{error.filename or 'Cannot read or write'}: {error.strerror or error}."
            _show_traceback_if_debugging()
        elif is_out_of_memory(error):
            code, said = 2, f"There is not enough memory for this ({_first_line(error)}); give it less, or a machine with more."
            _show_traceback_if_debugging()
        else:
            # Of a page every part that failed, and not only Python's first fifteen.
            traceback.TracebackException(type(error), error, error.__traceback__, max_group_width=1000).print()
            code, said = 1, BUG
    if said:
        sys.stderr.write(f"isoscope: {plain(said).strip().replace(chr(10), ' ')}\n")
    _close()
    raise SystemExit(code)


def _run() -> None:
    """Typer ends with SystemExit, also where it has caught Ctrl-C or a closed pipe; those are told apart again here."""
    from isoscope.cli.app import app
    from isoscope.core.extras import missing_extras_as_user_errors

    verb = sys.argv[1] if len(sys.argv) > 1 else ""
    try:
        with missing_extras_as_user_errors(f"isoscope {verb}" if verb.isalpha() else "This"):
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


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _close() -> None:
    """What cannot be written any more goes nowhere, so that Python does not complain of it when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _decodable(words: list[str]) -> None:
    """A name in another encoding would be refused much later, by the first library that writes it down.

    Names of files come from strangers too (`isoscope measure *`), and one may hold what steers a terminal.
    """
    from isoscope.core.errors import IsoscopeError
    from isoscope.core.printable import plain

    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            raise IsoscopeError(f"The argument {os.fsencode(word)!r} is not UTF-8; rename the file or folder.") from error
        if plain(word) != word:
            raise IsoscopeError(f"The argument {word!r:.200} has characters that steer a terminal; rename the file or folder.")
