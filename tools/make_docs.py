"""Write the pages that the code itself can write: metrics from their docstrings, the command line from its help, claims, the gallery.

python tools/make_docs.py            writes docs/metrics.md, docs/metrics/*.md, docs/cli.md, docs/gallery.md and the table in docs/claims.md
python tools/make_docs.py --check    writes nothing, reports which of them is out of date and which picture is missing

A metric whose page is not in the repository yet is no mistake: the check leaves it out, and the next run without --check writes its page.

Pictures are not drawn here: `tools/draw_metrics.py` draws those of metrics, `tools/make_gallery.py` those of the gallery.
"""

from __future__ import annotations

import os
import re
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import make_gallery as gallery

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
    "medians": "medians of rows (`--attention-median`)",
    "scores": "a histogram of scores",
    "queries_keys": "queries and keys",
}
INTERVALS = {
    "population": "About the value of the whole population of documents.",
    "this n": "About the value at this n: the metric depends on the number of points, so compare it only at equal n.",
}
ON_A_MODEL = "on the layers of all-MiniLM-L6-v2 and of the same network untrained, 24 documents"
PICTURES = {
    "points": f"The picture is computed: on 300 Gaussian points in 24 dimensions, and, if the number is always computed, {ON_A_MODEL}.",
    "attention": "The picture is computed: on causal attention of 20 sequences of 12 Gaussian queries and keys, and, as a mean over heads, "
    f"{ON_A_MODEL}.",
    "stack": "The picture is computed: on stacks of twelve clouds of 300 Gaussian points, one direction of which is stretched.",
    "series": "The picture is computed: on clouds that `isoscope.testing` makes.",
}
CITATION = re.compile(r"\((?:18|19|20)\d\d\)")


def sections(doc: str) -> dict[str, str]:
    """A metric's docstring as its definition, its range and null, and its reference; the doctest is left out."""
    paragraphs = [" ".join(part.split()) for part in doc.partition(">>>")[0].split("\n\n")[1:]]
    sentences: dict[str, list[str]] = {"definition": [], "range": [], "reference": []}
    for paragraph in filter(None, paragraphs):
        before, mark, after = (part.replace("``", "`") for part in paragraph.partition("Range "))
        kind = "reference" if not mark and CITATION.search(before) and "`" not in before else "definition"
        if before:
            sentences[kind].append(before.strip())
        if mark:
            sentences["range"].append(mark + after)
    return {kind: " ".join(parts) for kind, parts in sentences.items()}


def metric_page(entry: Any) -> str:
    """docs/metrics/NAME.md of a metric, a profile or a series."""
    parts = sections(entry.__doc__ or "")
    lines = [f"- **Definition.** {parts['definition']}"] if parts["definition"] else []
    lines += [f"- **Range and null.** {parts['range']}"] if parts["range"] else []
    if about := getattr(entry, "interval_about", None):
        lines += [f"- **Interval.** {INTERVALS[about]}"]
    lines += [f"- **Reads.** {'; '.join(PARTS[part] for part in entry.reads)}."]
    lines += ["- **Computed** only if it is named: it takes seconds per layer."] if entry.on_request else []
    lines += [f"- **Reference.** {parts['reference']}"] if parts["reference"] else []
    drawn = (DOCS / "metrics" / f"{entry.name}.svg").exists()
    file = f"{entry.__module__.replace('.', '/')}.py"
    page = [
        f"<!-- Written by tools/make_docs.py from the docstring in src/{file}; change that. -->",
        f"# {entry.name}",
        f"*{entry.title}.* {entry.summary}",
        *([f"![How {entry.name} behaves]({entry.name}.svg)"] if drawn else []),
        "\n".join(lines),
        f"```sh\n{chr(10).join(commands(entry))}\n```",
        f"```python\n{chr(10).join(python_of(entry))}\n```",
        f"{PICTURES[kind_of(entry)] + ' ' if drawn else ''}[All metrics](../metrics.md) · [intervals and nulls](../intervals-and-nulls.md)",
    ]
    return "\n\n".join(page) + "\n"


def kind_of(entry: Any) -> str:
    """`points`, `attention`, `stack` or `series`."""
    return str(entry.subject) if hasattr(entry, "range") else "series"


def commands(entry: Any) -> list[str]:
    """How the shell gets it."""
    kind = kind_of(entry)
    if kind == "series":
        taps = " --taps hidden,attention" if entry.subject == "attention" else ""
        return [f"isoscope measure MODEL{taps} --out RUN", f"isoscope table RUN --series --metric {entry.name}"]
    taps = " --taps hidden,attention" if kind == "attention" else ""
    options = {"cosine": " --cosine-sd", "medians": " --attention-median"}
    more = "".join(option for part, option in options.items() if part in entry.reads)
    lines = [f"isoscope measure MODEL{taps}{more} --out RUN", f"isoscope table RUN --metric {entry.name}"]
    return lines + ([f"isoscope embeddings FILE --metric {entry.name}"] if kind == "points" else [])


def python_of(entry: Any) -> list[str]:
    """How Python gets it."""
    kind = kind_of(entry)
    if kind == "series":
        return [f'isoscope.open("runs/mine").series("{entry.name}")']
    matrix = [f"isoscope.metrics.{entry.name}(X)  # X: (n, d), one row per point"] if kind == "points" else []
    return [*matrix, f'isoscope.open("runs/mine").table("{entry.name}")']


def entries(*, documented: bool = False) -> list[Any]:
    """Every metric, profile and series, or only those that have a page already.

    They are in the order of the index: by question, those that are always computed first, then by file and line.
    """
    from isoscope.estimation.metric import Question
    from isoscope.metrics import registry

    questions = list(Question)
    chosen = [entry for entry in registry if not documented or (DOCS / "metrics" / f"{entry.name}.md").exists()]
    return sorted(chosen, key=lambda entry: (questions.index(entry.question), entry.on_request, entry.position))


def metrics_page(known: list[Any]) -> str:
    """docs/metrics.md: the index by question."""
    page = [
        "<!-- Written by tools/make_docs.py from the docstrings in src/isoscope/metrics; change those. -->",
        "# Metrics",
        "λ are the eigenvalues of the centred covariance and σ = √λ; u = x/‖x‖ is a point's direction. Means of pairs are over all ordered "
        "pairs i ≠ j.\nEach has a page with its formula, its range, its null and a picture. How intervals and nulls are made: "
        "[intervals-and-nulls.md](intervals-and-nulls.md).\nWhich number is whose: [conventions.md](conventions.md); what moves them "
        "besides the weights: [what-moves-these-numbers.md](what-moves-these-numbers.md).",
    ]
    for question, asked in groupby(known, key=lambda entry: entry.question):
        rows = [f"| [{entry.name}](metrics/{entry.name}.md) | {entry.summary} |" for entry in asked]
        page += [f"## {question}", "\n".join(["| metric | what it means |", "|---|---|", *rows])]
    page += ["A series is a curve; it is in the second table, with the columns `name x y weight` (`isoscope table RUN --series`)."]
    return "\n\n".join(page) + "\n"


def claims_table() -> str:
    """Every claim, as `isoscope list claims` has it."""
    from isoscope.claims import claims

    own = [claim for claim in claims() if is_own(claim)]
    rows = [f"| {claim.paper} {claim.number} | `{claim.name}` | {claim.statement} | {claim.refuted_by} |" for claim in own]
    return "\n".join(["| paper | claim | it says | refuted by |", "|---|---|---|---|", *rows])


def is_own(claim: Any) -> bool:
    """Whether a claim comes with isoscope."""
    return bool(claim.decide.__module__.startswith("isoscope.studies."))


def conventions_table() -> str:
    """Every convention: its tokens, its last layer, its numbers, what it leaves open and what was chosen."""
    from isoscope.studies.definitions.conventions import CONVENTIONS

    rows = ["| | tokens | last layer | numbers | left open; chosen |", "|---|---|---|---|---|"]
    for convention in CONVENTIONS.values():
        numbers = "; ".join(f"{reading.question}: {reading.how}" for reading in convention.readings)
        norm = f"{'after' if convention.final else 'before'} the final norm"
        columns = f"`{convention.name}` | `{convention.policy}` | {norm} | {numbers}"
        rows.append(f"| {columns} | {convention.leaves_open}; {convention.chosen} |")
    return "\n".join(rows)


def with_table(page: str, table: str) -> str:
    """A page of docs/ whose table alone is made, between the marks `<!-- PAGE: … -->` and `<!-- end -->`."""
    text = (DOCS / f"{page}.md").read_text("utf-8")
    begin, end = f"<!-- {page}: written by tools/make_docs.py -->\n", "\n<!-- end -->"
    before, _, rest = text.partition(begin)
    return before + begin + table + end + ("\n" + rest).partition(end)[2]


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
        "A mistake of the user's is one sentence on the standard error stream and exit code 2; `ISOSCOPE_DEBUG=1` shows its traceback "
        "too. A bug of\nisoscope's is a traceback, a line that says where to report it, and exit code 1. Progress goes to the standard "
        "error stream too, so that what a\ncommand prints can be piped; every command takes `--json`. An interrupted `isoscope measure` "
        "resumes where it was.",
        f"```text\n{help_of(whole, 'isoscope')}\n```",
    ]
    for name, command in whole.commands.items():
        parts += [f"## isoscope {name}", f"```text\n{help_of(command, name, context)}\n```"]
    return "\n\n".join(parts) + "\n"


def pages(*, documented: bool = False) -> dict[Path, str]:
    """Every page that is made, and its text; or without the metrics that have no page yet."""
    known = entries(documented=documented)
    made = {DOCS / "metrics.md": metrics_page(known), DOCS / "cli.md": cli_page(), DOCS / "claims.md": with_table("claims", claims_table())}
    made |= {DOCS / "conventions.md": with_table("conventions", conventions_table())}
    made |= {DOCS / "metrics" / f"{entry.name}.md": metric_page(entry) for entry in known}
    return made | {gallery.PAGE: gallery.page()}


def misplaced(made: dict[Path, str]) -> list[Path]:
    """Pictures that a page shows and that are missing, and pages of metrics that no longer exist."""
    shown = [path.parent / target for path, text in made.items() for target in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)]
    return [path for path in shown if not path.exists()] + sorted(set((DOCS / "metrics").glob("*.md")) - set(made))


def main() -> int:
    """Write the pages, or compare them with those in docs/."""
    check = "--check" in sys.argv[1:]
    made = pages(documented=check)
    if not check:
        (DOCS / "metrics").mkdir(exist_ok=True)
        for path, text in made.items():
            path.write_text(text, "utf-8")
        return 0
    stale = [path for path, text in made.items() if not path.exists() or path.read_text("utf-8") != text]
    for path in stale:
        print(f"{path.relative_to(DOCS.parent)} is out of date; run python tools/make_docs.py")
    wrong = misplaced(made)
    for path in wrong:
        print(f"{path.relative_to(DOCS.parent)} {'belongs to no metric' if path.exists() else 'is missing; run make gallery'}")
    return bool(stale or wrong)


if __name__ == "__main__":
    raise SystemExit(main())
