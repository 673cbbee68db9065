"""isoscope list"""

from __future__ import annotations

from typing import Annotated

import typer

WHAT = ("metrics", "families", "sources", "figures")


def run(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="metrics, families, sources or figures.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """What there is: metrics, model families, sources or figures.

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

    table = Table(box=box.SIMPLE_HEAD)
    for name in rows[0]:
        table.add_column(name, overflow="fold", no_wrap=name in ("name", "family", "modality"))
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    Console(markup=False, emoji=False).print(table)


def _metrics() -> list[dict[str, str]]:
    from isoscope.metrics import metrics

    return [
        {"name": m.name, "meaning": m.summary, "range": f"{m.range[0]:g} … {m.range[1]:g}", "reads": ", ".join(m.reads)} for m in metrics()
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
            "attention": "no",
        }
        for family in families()
        for title, verified in family.covers.items()
    ]


def _sources() -> list[dict[str, str]]:
    from isoscope.sources import sources

    return [{"name": kind.name, "modality": kind.modality, "accepts": kind.accepts} for kind in sources]


def _figures() -> list[dict[str, str]]:
    from isoscope.figures import figures

    return [{"name": figure.name, "title": figure.title, "shows": figure.caption} for figure in figures]
