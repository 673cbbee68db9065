"""isoscope list"""

from __future__ import annotations

from typing import Annotated

import typer

WHAT = ("metrics", "families", "sources", "figures", "claims", "recipes")
WIDTH = 110
"""Of a table where there is no terminal; in a narrower terminal the column `family` is left out."""


def run(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="metrics, families, sources, figures, claims or recipes.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """What there is: metrics, model families, sources, figures, the papers' claims, or recipes for training.

    **Example**

    `isoscope list metrics`
    """
    from isoscope.core.errors import IsoscopeError, nearest

    if what not in WHAT:
        raise IsoscopeError(f"`isoscope list` takes one of {', '.join(WHAT)}; got {what!r}{nearest(what, list(WHAT)) or '.'}")
    rows = globals()[f"_{what}"]()
    if json:
        from json import dumps

        typer.echo(dumps(rows, indent=1, ensure_ascii=False))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, emoji=False)
    console.width = console.width if console.is_terminal else max(WIDTH, console.width)
    names = [name for name in rows[0] if name != "family" or console.width >= WIDTH]
    table = Table(box=box.SIMPLE_HEAD)
    for name in names:
        words = [word for row in rows for word in [*str(row[name]).split(), *name.split()]]
        table.add_column(name, no_wrap=name in ("name", "family", "modality"), min_width=min(20, max(map(len, words))))
    for row in rows:
        table.add_row(*(str(row[name]) for name in names))
    console.print(table)


def _metrics() -> list[dict[str, str]]:
    from isoscope.metrics import metrics, profiles
    from isoscope.statistics.metric import Metric
    from isoscope.statistics.profile import Profile

    entries: list[Metric | Profile] = [*metrics(), *profiles()]
    return [
        {
            "name": m.name,
            "meaning": m.summary,
            "range": f"{m.range[0]:g} … {m.range[1]:g}",
            "reads": ", ".join(m.reads),
            "computed": "on request" if m.on_request else "always",
        }
        for m in sorted(entries, key=lambda entry: entry.name)
    ]


def _families() -> list[dict[str, str]]:
    from isoscope.models.family import families

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
    from isoscope.papers import claims

    return [
        {"name": one.name, "paper": f"{one.paper} ({one.number})", "says": one.statement, "refuted by": one.refuted_by} for one in claims()
    ]


def _recipes() -> list[dict[str, str]]:
    from isoscope.training.recipe import RECIPES

    return [{"name": name, "trains": one.about, "steps": f"{one.steps:,} of {one.batch} sequences"} for name, one in RECIPES.items()]
