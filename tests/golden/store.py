"""`python -m tests.golden.store [NAME ...]`: measure, and store what comes out.

With `--sentences` only the prose is stored again, and every number stays as it was. With `--out FOLDER` nothing in the repository changes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import tests.conftest  # noqa: F401  (threads and the hub, as in the tests)
from tests.golden.measurements import measurements
from tests.golden.outcome import STORED, write_outcome
from tests.golden.workshop import Workshop


def main() -> None:
    """Store the outcome of every measurement, or of those that are named."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden.store", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="measurements; all of them by default")
    parser.add_argument("--sentences", action="store_true", help="store the prose only")
    parser.add_argument("--out", type=Path, default=STORED, help="another folder")
    asked = parser.parse_args()
    if unknown := [name for name in asked.names if name not in measurements]:
        parser.error(f"There is no measurement {unknown[0]!r}; there are {', '.join(measurements)}.")
    with tempfile.TemporaryDirectory() as folder:
        workshop = Workshop(Path(folder).resolve())
        for name in asked.names or measurements:
            started = time.monotonic()
            write_outcome(name, measurements[name].carry_out(workshop), asked.out, only_sentences=asked.sentences)
            sys.stderr.write(f"{name}: {time.monotonic() - started:.1f} s\n")
    if not asked.names and not asked.sentences:
        for path in asked.out.iterdir():
            if path.name.partition(".")[0] not in measurements:
                path.unlink()


if __name__ == "__main__":
    main()
