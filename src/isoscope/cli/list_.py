"""isoscope list"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from isoscope.console.arguments import Json
from isoscope.console.output import new_table, print_json, print_next_steps, print_table, print_text

NAMES = ("name", "modality", "range", "computed")
"""Columns that are never broken."""
SHOWN = {
    "metrics": ("question", ("name", "meaning", "range", "computed")),
    "families": ("modality", ("name", "loads from", "verified on", "attention")),
}
"""In a terminal: the column by which rows are grouped, and the columns of a table; --json has all of them."""
PROSE = {
    "claims": ("{name}, {paper}", "{says} Refuted by: {refuted by}."),
    "figures": ("{name}", "{title}. {shows}"),
}
"""In a terminal: the heading of each row, and its text."""


def run(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="metrics, families, sources, figures, claims or recipes.")],
    json: Json = False,
) -> None:
    """List everything available: metrics, model families, sources, figures, the papers' claims, or recipes for training.

    **Example**

    `isoscope list metrics`
    """
    from isoscope.core.errors import IsoscopeError, nearest

    if what not in LISTS:
        raise IsoscopeError(f"`isoscope list` takes one of {', '.join(LISTS)}; got {what!r}{nearest(what, list(LISTS)) or '.'}")
    rows = LISTS[what]()
    if json:
        print_json(rows)
        return
    if what in PROSE:
        _print_prose(rows, *PROSE[what])
    else:
        _print_groups(rows, *SHOWN.get(what, ("", tuple(rows[0]))))
    print_next_steps(NEXT[what])


def _print_groups(rows: list[dict[str, str]], group: str, columns: tuple[str, ...]) -> None:
    """A table of these columns for each value of the column `group`, or one table if there is no group."""
    width = max(len(row["name"]) for row in rows)
    for title in dict.fromkeys(row.get(group, "") for row in rows):
        table = new_table(columns, title=title, text=[name for name in columns if name not in NAMES], words=NAMES)
        for row in (row for row in rows if row.get(group, "") == title):
            # Names of one width, so that the columns of all tables stand below each other.
            shown = row | {"name": row["name"].ljust(width), "computed": row.get("computed", "").replace("always", "")}
            table.add_row(*(shown[name] for name in columns))
        print_table(table)


def _print_prose(rows: list[dict[str, str]], heading: str, text: str) -> None:
    """Each row as a heading with a paragraph below it: names and sentences are too long to stand side by side."""
    for row in rows:
        print_text(heading.format_map(row), style="italic")
        print_text(f"{text.format_map(row)}\n")


def _metrics() -> list[dict[str, str]]:
    from isoscope.estimation.metric import Metric
    from isoscope.estimation.profile import Profile
    from isoscope.metrics import metrics, profiles
    from isoscope.runs.result_views import order_metrics

    declared: list[Metric | Profile] = [*metrics(), *profiles()]
    entries = {entry.name: entry for entry in declared}
    return [
        {
            "name": entry.name,
            "question": str(entry.question),
            "meaning": entry.summary,
            "range": f"{entry.range[0]:g} … {entry.range[1]:g}",
            "reads": ", ".join(entry.reads),
            "computed": "on request" if entry.on_request else "always",
        }
        for entry in map(entries.__getitem__, order_metrics(entries))
    ]


def _families() -> list[dict[str, str]]:
    from isoscope.models.loading.family import families

    return [
        {
            "name": title,
            "family": family.name,
            "modality": family.modality,
            "loads from": ", ".join(family.loads),
            "verified on": verified,
            "attention": "none" if title in family.without_attention else "verified",
        }
        for family in families
        for title, verified in family.covers.items()
    ]


def _sources() -> list[dict[str, str]]:
    from isoscope.sources import sources

    return [{"name": kind.name, "modality": kind.modality, "accepts": kind.accepts} for kind in sources]


def _figures() -> list[dict[str, str]]:
    from isoscope.figures import figures

    return [{"name": figure.name, "title": figure.title, "shows": figure.caption} for figure in figures]


def _claims() -> list[dict[str, str]]:
    from isoscope.claims import claims

    return [
        {
            "name": claim.name,
            "paper": f"{claim.paper} ({claim.number})",
            "says": claim.statement,
            "refuted by": claim.refuted_by,
        }
        for claim in claims()
    ]


def _recipes() -> list[dict[str, str]]:
    from isoscope.training.recipe import RECIPES

    return [
        {"name": name, "trains": recipe.about, "steps": f"{recipe.steps:,} of {recipe.batch} sequences"} for name, recipe in RECIPES.items()
    ]


NEXT = {
    "metrics": ("isoscope table RUN --metric NAME", "one metric of a run"),
    "families": ("isoscope measure MODEL --out RUN", "measures a model of any of these"),
    "sources": ("isoscope measure MODEL --data SOURCE --out RUN", "measures it on your own data"),
    "figures": ("isoscope report RUN --only NAME --figures figures/", "one figure as SVG, PDF and PNG"),
    "claims": ("isoscope claims RUN", "tests them on a run"),
    "recipes": ("isoscope train NAME", "trains one, and writes its checkpoints"),
}
LISTS: dict[str, Callable[[], list[dict[str, str]]]] = {
    "metrics": _metrics,
    "families": _families,
    "sources": _sources,
    "figures": _figures,
    "claims": _claims,
    "recipes": _recipes,
}
