"""isoscope sweep"""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import typer

from isoscope.cli.measure import add_measure_options
from isoscope.console.output import print_json, print_note, suggest_reading

FOR_AUDIT = ("quiet", "trust_remote_code", "allow_partial")
"""The options of a measurement that matter if nothing is measured."""


@add_measure_options(taps="hidden,attention")
def run(
    suites: Annotated[
        list[str],
        typer.Argument(
            metavar="SUITE",
            help="Folders of checkpoints; paths, hub repositories or hub revisions with {step}, and {seed} if there are several; "
            "`embedded` or embedded:NAME for the suites that ship with isoscope.",
        ),
    ],
    steps: Annotated[
        str | None,
        typer.Option(help="The steps, as they occur in the names: 0,20,40-200:20 or 1-512:x2. Default: all that are listed."),
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="The seeds of the training: 0-4.")] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete each checkpoint that this sweep downloads from the hub's cache once it is measured.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be measured and what it would cost, and stop.")] = False,
    audit_only: Annotated[
        bool, typer.Option("--audit-only", help="Measure nothing, and report what is wrong with the checkpoints.")
    ] = False,
    json: bool = False,
    **options: Any,
) -> None:
    """Measure every checkpoint of a training, and report what is wrong with any of them.

    The exit code is 1 if something is wrong with a checkpoint; the others are measured nevertheless.

    **Examples**

    `isoscope sweep runs/my-training --data corpus.txt --out runs/along`

    `isoscope sweep 'google/multiberts-seed_{seed}-step_{step}k' --seeds 0-4 --steps 0,20,40-200:20 --delete --out runs/multiberts`

    `isoscope sweep 'EleutherAI/pythia-70m@step{step}' --steps 0,1-512:x2,1000-143000:10000 --out runs/pythia`

    `isoscope sweep embedded --out runs/embedded`
    """
    from isoscope.measuring.scheduler import Engine
    from isoscope.measuring.sweep import audit, plan_sweep
    from isoscope.runs.results import Results

    chosen: dict[str, Any] = {"steps": steps, "seeds": seeds, "delete": delete}
    if audit_only:
        faults = audit(suites, options["out"], **chosen, **{name: options[name] for name in FOR_AUDIT})
        print_json({"faults": faults}) if json else typer.echo("\n".join(faults) or "Nothing is wrong with these checkpoints.")
        raise typer.Exit(1 if faults else 0)
    engine = Engine(options.pop("executor"), options.pop("address"), options.pop("processes"))
    planned = plan_sweep(suites, **chosen, engine=engine, **options)
    if dry_run:
        for line in planned.describe():
            typer.echo(line)
        return
    faults = planned.complete()
    for fault in faults:
        print_note(fault)
    results = Results(planned.run.path)
    if json:
        print_json({"run": str(results.path), "faults": faults, "cells": results.manifests()}, indent=None)
    else:
        typer.echo(f"{results.path}")
        if not options["quiet"]:
            suggest_reading(str(results.path), (f"isoscope dynamics {shlex.quote(str(results.path))}", "what the steps say together"))
    if faults:
        raise typer.Exit(1)
