"""isoscope measure"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from isoscope.cli.measure_options import add_measure_options
from isoscope.console.output import print_run


@add_measure_options()
def run(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL", help="Folders, .gguf files or hub ids (org/name@revision). The prefix `untrained:` means random weights."
        ),
    ],
    json: bool,
    split_into: Annotated[
        int | None,
        typer.Option(
            help="Split each source into this many shards, measured in parallel and merged. Default: N for one model with --processes N."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be measured and what it would cost, and stop.")] = False,
    **options: Any,
) -> None:
    """Measure every layer of one or more models and store the results in a run.

    **Examples**

    `isoscope measure ./bert-base --out runs/bert`

    `isoscope measure gpt2 untrained:gpt2 --data 'corpus/*.txt' --max-tokens 200000 --out runs/gpt2`

    `isoscope measure whisper-tiny dinov2-small resnet-50 --data clips/ --data photographs/ --out runs/senses`

    `isoscope measure ./bert-base --taps hidden,attention --query-rows 64 --out runs/heads`

    `isoscope measure ./bert-base --data corpus/ --processes 8 --out runs/large`

    `isoscope measure model.gguf --data wiki.parquet --column body --shard 1/4 --out runs/part1`
    """
    from isoscope.measuring.measure import describe_measurement, measure

    if dry_run:
        for line in describe_measurement(models, split_into=split_into, **options):
            typer.echo(line)
        return
    print_run(measure(models, split_into=split_into, **options), as_json=json)
