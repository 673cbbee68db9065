"""Write docs/metrics.md from the registry of metrics and docs/cli.md from the command line's own help.

python tools/make_docs.py            writes both
python tools/make_docs.py --check    writes nothing, and says which of them is out of date
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs"
WIDTH = 100
PARTS = {
    "directions": "Σu, the sum of directions",
    "sums": "Σx, Σu² and norms",
    "second": "second moments",
    "cosine": "second moments of directions (`--cosine-sd`)",
    "groups": "groups of items, for its interval",
    "sample": "the sample",
    "neighbours": "nearest neighbours within the sample",
    "attention": "sums over rows of attention (`--taps attention`)",
    "medians": "medians of rows (`--median`)",
    "scores": "a histogram of scores",
    "queries_keys": "queries and keys",
}
CITATION = re.compile(r"\((?:18|19|20)\d\d\)")


def sections(doc: str) -> dict[str, str]:
    """A metric's docstring as its definition, its range and null, and its reference; the doctest is left out."""
    paragraphs = [" ".join(part.split()) for part in doc.partition(">>>")[0].split("\n\n")[1:]]
    found: dict[str, list[str]] = {"definition": [], "range": [], "reference": []}
    for paragraph in filter(None, paragraphs):
        before, mark, after = (part.replace("``", "`") for part in paragraph.partition("Range "))
        kind = "reference" if not mark and CITATION.search(before) and "`" not in before else "definition"
        if before:
            found[kind].append(before.strip())
        if mark:
            found["range"].append(mark + after)
    return {kind: " ".join(parts) for kind, parts in found.items()}


def metric_entry(entry: Any) -> Iterator[str]:
    """One metric or series in Markdown."""
    parts = sections(entry.__doc__ or "")
    yield f"## {entry.name}"
    yield f"*{entry.title}.* {entry.summary}"
    lines = [f"- **Definition.** {parts['definition']}"] if parts["definition"] else []
    lines += [f"- **Range and null.** {parts['range']}"] if parts["range"] else []
    lines += [f"- **Reads.** {'; '.join(PARTS[part] for part in entry.reads)}."]
    lines += [f"- **Reference.** {parts['reference']}"] if parts["reference"] else []
    yield "\n".join(lines)


def metrics_page() -> str:
    """docs/metrics.md."""
    from isoscope.metrics import curves, metrics, profiles

    own = [entry for kind in (metrics(), profiles(), curves()) for entry in kind if entry.__module__.startswith("isoscope.metrics.")]
    numbers, series = ([entry for entry in own if hasattr(entry, "range") is wanted] for wanted in (True, False))
    index = ["| metric | what it means |", "|---|---|", *(f"| [{entry.name}](#{entry.name}) | {entry.summary} |" for entry in numbers)]
    page = [
        "<!-- Written by tools/make_docs.py from the docstrings in src/isoscope/metrics; change those. -->",
        "# Metrics",
        "λ are the eigenvalues of the centred covariance and σ = √λ; u = x/‖x‖ is a point's direction. Means of pairs are over all ordered "
        "pairs i ≠ j.\nHow intervals and nulls are made: [intervals-and-nulls.md](intervals-and-nulls.md).",
        "\n".join(index),
        *(part for entry in numbers for part in metric_entry(entry)),
        "# Series",
        "What is not one number goes into the second table, `series`, with the columns `name x y weight`.",
        *(part for entry in series for part in metric_entry(entry)),
    ]
    return "\n\n".join(page) + "\n"


def plain(text: str) -> str:
    """Help without the marks of Markdown, no line with spaces at its end."""
    text = text.replace("**", "").replace("`", "")
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def help_of(command: Any, name: str, parent: Any = None) -> str:
    """What `--help` says, without colours and boxes, at a width that no terminal decides."""
    command.rich_markup_mode = None
    context = command.make_context(name, [], parent=parent, resilient_parsing=True, terminal_width=WIDTH, max_content_width=WIDTH)
    return plain(command.get_help(context))


def cli_page() -> str:
    """docs/cli.md."""
    os.environ["TERM"] = "dumb"
    from typer.main import get_command

    from isoscope.cli.app import app

    whole = get_command(app)
    context = whole.make_context("isoscope", [], resilient_parsing=True)
    parts = [
        "<!-- Written by tools/make_docs.py from the help of the commands; change src/isoscope/cli. -->",
        "# The command line",
        "A mistake of the user's is one sentence on the standard error stream and exit code 2. Progress goes to the standard error stream "
        "too, so\nthat what a command prints can be piped; every command takes `--json`. An interrupted `isoscope measure` goes on where "
        "it was.",
        f"```text\n{help_of(whole, 'isoscope')}\n```",
    ]
    for name, command in whole.commands.items():
        parts += [f"## isoscope {name}", f"```text\n{help_of(command, name, context)}\n```"]
    return "\n\n".join(parts) + "\n"


def pages() -> dict[Path, str]:
    """Every page that is made, and its text."""
    return {DOCS / "metrics.md": metrics_page(), DOCS / "cli.md": cli_page()}


def main() -> int:
    """Write the pages, or compare them with what is there."""
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text("utf-8") != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.relative_to(DOCS.parent)} is out of date; run python tools/make_docs.py")
        return bool(stale)
    for path, text in pages().items():
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
