"""Print figures about the code: sizes, names, comments, mirrored tests, and how many files one measurement enters.

    python tools/code_figures.py              # this checkout
    python tools/code_figures.py OTHER        # another checkout, for a comparison
    python tools/code_figures.py --trace      # also run a small measurement, and count the files and functions it enters

The names are a guide, not a target: a good one-word name is a quantity (`mean`) or a verb whose object is clear (`merge`).
"""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path

IRREGULAR = """
bound built chosen cut done drawn driven fallen felt found given gone had heard held kept known laid left lost made meant met said seen sent
set shown sought split spoken stood taken taught told thought understood won written
"""
"""Past participles that do not end in -ed."""
PATTERNS = frozenset(("__init__", "analysis", "claims", "command", "experiment", "figures", "paper", "sentences", "study"))
"""File names that may be repeated, one per study; `__init__` in every package."""
FOLDERS = frozenset(("families", "readers", "architectures", "cli"))
"""Folders whose files are named after what they are about: `families/text.py`, `readers/text.py`; and `cli/VERB.py`."""

TRACE = """
import sys, tempfile
from isoscope.cli import main

entered = set()


def profile(frame, event, argument):
    if event == "call":
        entered.add((frame.f_code.co_filename, frame.f_code.co_qualname))


def measure():
    sys.argv = ["isoscope", "measure", MODEL, "--max-items", "2", "--quiet", "--out", tempfile.mkdtemp()]
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code


measure()  # imports everything, so that only the path of a measurement is counted below
sys.setprofile(profile)
measure()
sys.setprofile(None)
ours = {(file, name) for file, name in entered if "/src/isoscope/" in file and name != "<module>"}
print(len({file for file, _ in ours}), len(ours))
"""


def functions_of(tree: ast.AST) -> list[str]:
    """The names of all functions and methods but Python's own, without leading underscores."""
    names = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [name.lstrip("_") for name in names if not (name.startswith("__") and name.endswith("__"))]


def is_participle(name: str) -> bool:
    """Whether a name is one past participle.

    >>> [is_participle(name) for name in ("judged", "found", "speed", "load_model")]
    [True, True, False, False]
    """
    return "_" not in name and (name in IRREGULAR.split() or (name.endswith("ed") and not name.endswith("eed")))


def comment_lines(text: str) -> int:
    """Lines that hold a comment, alone or after code; directives to tools do not count."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type == tokenize.COMMENT and not token.string.startswith(("# type:", "# noqa")) for token in tokens)


def repeated_names(files: list[Path]) -> list[str]:
    """File names that occur more than once and follow no pattern."""
    alone = [file.stem for file in files if file.stem not in PATTERNS and file.parent.name not in FOLDERS]
    return sorted(name for name, count in Counter(alone).items() if count > 1)


def unmirrored(root: Path, files: list[Path]) -> list[str]:
    """Modules without a test file of their name in the folder of `tests/` that mirrors theirs. Declared objects are tested by contracts."""
    source, tests = root / "src" / "isoscope", root / "tests"
    declared = {"metrics", "figures", "families", "claims", "architectures"}
    left = [file for file in files if file.stem != "__init__" and not declared & set(file.relative_to(source).parts[:-1])]
    return [
        str(path)
        for file in left
        if not (tests / (path := file.relative_to(source)).parent / f"test_{path.stem.lstrip('_').removesuffix('__')}.py").is_file()
    ]


def trace(root: Path) -> tuple[int, int]:
    """How many files and functions of isoscope one measurement of a small model enters."""
    model = next((root / "src/isoscope/training/suites").glob("*/**/config.json")).parent
    code = TRACE.replace("MODEL", repr(str(model)))
    ended = subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(root / "src")}, capture_output=True)
    if ended.returncode:
        raise SystemExit(ended.stderr.decode())
    files, functions = ended.stdout.split()[-2:]
    return int(files), int(functions)


def main() -> None:
    """Print the figures of a checkout."""
    words = [word for word in sys.argv[1:] if word != "--trace"]
    root = Path(words[0] if words else ".").resolve()
    files = sorted((root / "src" / "isoscope").rglob("*.py"))
    texts = {file: file.read_text("utf-8") for file in files}
    lines = {file: len(text.splitlines()) for file, text in texts.items()}
    names = [name for text in texts.values() for name in functions_of(ast.parse(text))]
    one_word, participles = sum("_" not in name for name in names), sum(is_participle(name) for name in names)
    comments, total, longest = sum(comment_lines(text) for text in texts.values()), sum(lines.values()), max(files, key=lines.__getitem__)
    repeated, bare = repeated_names(files), unmirrored(root, files)
    print(f"files: {len(files)}; lines: {total:,}; longest: {longest.relative_to(root)} with {lines[longest]}")
    print(f"functions: {len(names):,}; one-word names: {one_word / len(names):.0%}; participles: {participles / len(names):.1%}")
    print(f"comments: {comments} lines, {comments / total:.1%}")
    print(f"file names used twice without a pattern: {len(repeated)} ({', '.join(repeated) or 'none'})")
    print(f"modules without a test file of their name: {len(bare)}")
    cell = root / "src/isoscope/measuring/cell.py"
    if cell in lines:
        print(f"measuring/cell.py: {lines[cell]} lines")
    if "--trace" in sys.argv:
        print("a measurement enters {} files and {} functions".format(*trace(root)))


if __name__ == "__main__":
    main()
