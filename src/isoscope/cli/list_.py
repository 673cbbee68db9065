"""isoscope list"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from isoscope.console.arguments import Json
from isoscope.console.output import new_table, print_json, print_next_steps, print_table

NAMES = ("name", "family", "modality")
"""Columns that are never broken."""


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
    table = new_table(rows[0], text=[name for name in rows[0] if name not in NAMES], words=NAMES)
    for row in rows:
        table.add_row(*map(str, row.values()))
    print_table(table)
    print_next_steps(NEXT[what])


def _metrics() -> list[dict[str, str]]:
    from isoscope.estimation.metric import Metric
    from isoscope.estimation.profile import Profile
    from isoscope.metrics import metrics, profiles

    entries: list[Metric | Profile] = [*metrics(), *profiles()]
    return [
        {
            "name": entry.name,
            "meaning": entry.summary,
            "range": f"{entry.range[0]:g} … {entry.range[1]:g}",
            "reads": ", ".join(entry.reads),
            "computed": "on request" if entry.on_request else "always",
        }
        for entry in sorted(entries, key=lambda entry: entry.name)
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
        {"name": claim.name, "paper": f"{claim.paper} ({claim.number})", "says": claim.statement, "refuted by": claim.refuted_by}
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
