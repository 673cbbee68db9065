"""The command line: one file a verb. Nothing heavy is imported before a verb needs it."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; a mistake of the user's is one sentence on standard error and exit code 2."""
    from isoscope.cli.app import app
    from isoscope.core.errors import IsoscopeError

    try:
        app()
    except IsoscopeError as error:
        sys.stderr.write(f"isoscope: {error}\n")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        sys.stderr.write("isoscope: interrupted; finished cells are kept, the same command goes on.\n")
        raise SystemExit(130) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(0) from None
