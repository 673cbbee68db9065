"""isoscope train"""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from isoscope.console.arguments import Quiet, TextColumn
from isoscope.console.help_panels import WHAT
from isoscope.console.output import print_next_steps


def run(
    name: Annotated[str, typer.Argument(metavar="RECIPE", help="What to train; `isoscope list recipes` lists all recipes.")],
    out: Annotated[
        str | None, typer.Option(help="The folder of the suite, with seed-0/step-100/ and so on. Default: the name of the recipe.")
    ] = None,
    data: Annotated[
        str,
        typer.Option(help="`embedded`, files, folders or globs of text, clips or images (one folder per class), or a cleaned wiki dump."),
    ] = "embedded",
    column: TextColumn = None,
    seeds: Annotated[str, typer.Option(help="Seeds of trainings, which differ in initial weights and batches: 0, 0-4, 0,3,5.")] = "0",
    steps: Annotated[int | None, typer.Option(help="Number of steps.")] = None,
    checkpoints: Annotated[
        str | None, typer.Option(help="Steps at which to write a checkpoint (0,20,50,100). Default: 0, 1, 2, 5, 10, … and the last.")
    ] = None,
    norm: Annotated[str | None, typer.Option(help="pre or post: norms before each sublayer, or after each sum.")] = None,
    level: Annotated[str | None, typer.Option(help="For text: characters or subwords.")] = None,
    width: Annotated[int | None, typer.Option(help="The dimension of the states.", rich_help_panel=WHAT)] = None,
    layers: Annotated[int | None, typer.Option(help="Number of blocks.")] = None,
    heads: Annotated[int | None, typer.Option(help="Heads per block.")] = None,
    length: Annotated[int | None, typer.Option(help="Positions per sequence, for text and speech.")] = None,
    batch: Annotated[int | None, typer.Option(help="Sequences per step.")] = None,
    rate: Annotated[float | None, typer.Option(help="The peak learning rate.")] = None,
    dtype: Annotated[str, typer.Option(help="Format of the checkpoints: float32 or bfloat16.")] = "float32",
    threads: Annotated[int | None, typer.Option(help="CPU threads. Weights are reproducible only with the same number of threads.")] = None,
    stop: Annotated[int | None, typer.Option(help="Stop after this many steps. Rerun without --stop to continue.")] = None,
    quiet: Quiet = False,
) -> None:
    """Train a small Transformer and write checkpoints, to be measured with `isoscope sweep`.

    The same seed and number of threads give the same weights, bit for bit. After an interruption, run the same command again to continue.

    **Examples**

    `isoscope train causal-text --seeds 0-4 --out suites/decoder`

    `isoscope train masked-text --norm post --width 192 --heads 6 --data wiki.txt --out suites/wide`

    `isoscope train images --data cifar10/ --steps 3000 --out suites/vision`
    """
    from isoscope.training.run_training import run_training

    suite = run_training(
        name,
        out or name,
        data,
        column=column,
        seeds=seeds,
        checkpoints=checkpoints,
        dtype=dtype,
        threads=threads,
        stop=stop,
        quiet=quiet,
        norm=norm,
        level=level,
        width=width,
        layers=layers,
        heads=heads,
        length=length,
        batch=batch,
        rate=rate,
        steps=steps,
    )
    typer.echo(str(suite))
    if not quiet:
        print_next_steps((f"isoscope sweep {shlex.quote(str(suite))} --out runs/{name}", "measures every checkpoint"))
