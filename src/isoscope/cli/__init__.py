"""The command line: one file a verb. Nothing heavy is imported before a verb needs it."""

from __future__ import annotations

import io
import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line; a mistake of the user's is one sentence on standard error and exit code 2."""
    from isoscope.core.bounded import plain
    from isoscope.core.errors import IsoscopeError
    from isoscope.core.memory import is_out_of_memory

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
    except KeyboardInterrupt:
        code, said = 130, "interrupted; finished cells are kept, the same command goes on."
    except BrokenPipeError:
        code, said = 0, ""  # whoever reads has seen enough
    except OSError as error:
        code, said = 2, f"{error.filename or 'Cannot read or write'}: {error.strerror or error}."
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        code, said = 2, f"There is not enough memory for this ({_first_line(error)}); give it less, or a machine with more."
    if said:
        sys.stderr.write(f"isoscope: {plain(said).strip().replace(chr(10), ' ')}\n")
    _close()
    raise SystemExit(code)


def _run() -> None:
    """Typer ends with SystemExit, also where it has caught Ctrl-C or a closed pipe; those are told apart again here."""
    from isoscope.cli.app import app

    try:
        app()
    except SystemExit as end:
        if end.code == 130:
            raise KeyboardInterrupt from None
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        sys.stdout.flush()
        if end.code:
            raise


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
    from isoscope.core.bounded import plain
    from isoscope.core.errors import IsoscopeError

    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            raise IsoscopeError(f"The argument {os.fsencode(word)!r} is not UTF-8; rename the file or folder.") from error
        if plain(word) != word:
            raise IsoscopeError(f"The argument {word!r:.200} has characters that steer a terminal; rename the file or folder.")
