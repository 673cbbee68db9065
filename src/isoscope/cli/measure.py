"""isoscope measure"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from isoscope.cli.measuring import measures


@measures()
def run(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL", help="Folders, .gguf files or hub ids (org/name@revision); `untrained:` before one: at initialisation."
        ),
    ],
    json: bool,
    shards: Annotated[
        int | None,
        typer.Option(help="Divide each source into so many, measured side by side and merged; one model with --processes N into N."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be measured and what it takes, and do nothing.")] = False,
    **options: Any,
) -> None:
    """Measure every layer of one or more models and keep it in a run.

    **Examples**

    `isoscope measure ./bert-base --out runs/bert`

    `isoscope measure gpt2 untrained:gpt2 --data 'corpus/*.txt' --max-tokens 200000 --out runs/gpt2`

    `isoscope measure whisper-tiny dinov2-small resnet-50 --data clips/ --data photographs/ --out runs/senses`

    `isoscope measure ./bert-base --taps hidden,attention --query-rows 64 --out runs/heads`

    `isoscope measure ./bert-base --data corpus/ --processes 8 --out runs/large`

    `isoscope measure model.gguf --data wiki.parquet --column body --shard 1/4 --out runs/part1`
    """
    from isoscope.engine.measure import describe_measurement, measure

    if dry_run:
        for line in describe_measurement(models, shards=shards, **options):
            typer.echo(line)
        return
    results = measure(models, shards=shards, **options)
    if json:
        from json import dumps

        typer.echo(dumps({"run": str(results.path), "cells": results.manifests()}, ensure_ascii=False))
    else:
        typer.echo(f"{results.path}")
