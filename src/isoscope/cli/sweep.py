"""isoscope sweep"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from isoscope.cli.measuring import measures


@measures(taps="hidden,attention")
def run(
    suites: Annotated[
        list[str],
        typer.Argument(
            metavar="SUITE",
            help="Folders of checkpoints; patterns with {step}, and {seed} where there are several, of paths, hub repositories or hub "
            "revisions; `embedded` or embedded:NAME for what comes with isoscope.",
        ),
    ],
    steps: Annotated[
        str | None,
        typer.Option(help="Which steps, as they stand in the names: 0,20,40-200:20 or 1-512:x2; all that are listed by default."),
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Which seeds of the training: 0-4.")] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Take what this sweep downloads out of the hub's cache once it is measured.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be measured and what it takes, and do nothing.")] = False,
    audit_only: Annotated[bool, typer.Option("--audit-only", help="Measure nothing; say what is wrong with the checkpoints.")] = False,
    json: bool = False,
    **options: Any,
) -> None:
    """Measure every checkpoint of a training, and say what is wrong with them.

    The exit code is 1 where something is wrong with a checkpoint; the others are measured all the same.

    **Examples**

    `isoscope sweep runs/my-training --data corpus.txt --out runs/along`

    `isoscope sweep 'google/multiberts-seed_{seed}-step_{step}k' --seeds 0-4 --steps 0,20,40-200:20 --delete --out runs/multiberts`

    `isoscope sweep 'EleutherAI/pythia-70m@step{step}' --steps 0,1-512:x2,1000-143000:10000 --out runs/pythia`

    `isoscope sweep embedded --out runs/embedded`
    """
    from isoscope.engine.executor import Engine
    from isoscope.engine.sweep import audit, describe_sweep, sweep_with_faults

    chosen: dict[str, Any] = {"steps": steps, "seeds": seeds, "delete": delete}
    if audit_only:
        said = audit(suites, options["out"], **chosen, **{name: options[name] for name in OF_AN_AUDIT})
        typer.echo(_json({"faults": said}) if json else "\n".join(said) or "Nothing is wrong with these checkpoints.")
        raise typer.Exit(1 if said else 0)
    asked = Engine(options.pop("engine"), options.pop("address"), options.pop("processes"))
    if dry_run:
        for line in describe_sweep(suites, **chosen, engine=asked, **options):
            typer.echo(line)
        return
    results, faults = sweep_with_faults(suites, **chosen, engine=asked, **options)
    for fault in faults:
        typer.echo(f"isoscope: note: {fault}", err=True)
    typer.echo(_json({"run": str(results.path), "faults": faults, "cells": results.manifests()}) if json else f"{results.path}")
    if faults:
        raise typer.Exit(1)


OF_AN_AUDIT = ("quiet", "trust_remote_code", "allow_partial")
"""The options of a measurement that mean something where nothing is measured."""


def _json(found: dict[str, Any]) -> str:
    from json import dumps

    return dumps(found, ensure_ascii=False)
