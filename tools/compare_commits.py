"""Measure two commits on this machine and say where they differ by more than 1e-9.

python tools/compare_commits.py main HEAD                        all measurements of tests/golden, some minutes
python tools/compare_commits.py main HEAD --only matrix_folded   some of them; may be repeated

Each commit is checked out into a temporary worktree and measured by its own tests/golden with its own src. Names that changed in between
are looked up in the tests/golden/renames.py of the second commit. The exit code is 1 where something differs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOLERANCE = 1e-9
"""On one machine two commits run the same forward passes, bit for bit; what differs is the order in which sums are taken."""
COMPARE = """
import sys
from pathlib import Path
from tests.golden.outcome import compare_folders
print("\\n".join(compare_folders(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))))
"""


def main() -> None:
    """Measure both commits and print every difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", metavar="A", help="a commit")
    parser.add_argument("after", metavar="B", help="another")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this measurement; may be repeated")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help="relative, 1e-9 by default")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, worktree(asked.before) as before, worktree(asked.after) as after:
        folders = [Path(place) / "before", Path(place) / "after"]
        for tree, folder in zip((before, after), folders, strict=True):
            run(tree, "-m", "tests.golden.store", "--out", str(folder), *asked.only)
        found = run(after, "-c", COMPARE, *map(str, folders), str(asked.tolerance), capture=True).strip()
    print(found or f"No difference beyond {asked.tolerance:g} between {asked.before} and {asked.after}.")
    raise SystemExit(1 if found else 0)


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """A commit in a folder of its own, for a while."""
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place) / "tree"
        subprocess.run(["git", "worktree", "add", "--detach", "--quiet", str(tree), commit], cwd=ROOT, check=True)
        try:
            if not (tree / "tests" / "golden" / "store.py").exists():
                raise SystemExit(f"{commit} has no tests/golden; it can be compared with nothing.")
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)


def run(tree: Path, *words: str, capture: bool = False) -> str:
    """Run this Python in a worktree, with the isoscope of that worktree instead of the installed one."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tree / "src"), str(tree)])}
    out = subprocess.PIPE if capture else None
    return subprocess.run([sys.executable, *words], cwd=tree, env=environment, check=True, text=True, stdout=out).stdout or ""


if __name__ == "__main__":
    main()
