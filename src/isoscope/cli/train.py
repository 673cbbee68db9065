"""isoscope train"""

from __future__ import annotations

from typing import Annotated

import typer


def run(
    name: Annotated[str, typer.Argument(metavar="RECIPE", help="What to train; `isoscope list recipes` shows what there is.")],
    out: Annotated[str | None, typer.Option(help="The suite's folder: seed-0/step-100/ and so on. By default the recipe's name.")] = None,
    data: Annotated[
        str, typer.Option(help="`embedded`, files, folders or globs of text, clips or images (a folder a class), or a cleaned wiki dump.")
    ] = "embedded",
    column: Annotated[str | None, typer.Option(help="The field of a .jsonl or .parquet that holds the text.")] = None,
    seeds: Annotated[str, typer.Option(help="Trainings that differ in their first weights and batches: 0, 0-4, 0,3,5.")] = "0",
    steps: Annotated[int | None, typer.Option(help="How many steps.")] = None,
    checkpoints: Annotated[
        str | None, typer.Option(help="Steps at which a checkpoint is written (0,20,50,100); 0, 1, 2, 5, 10, … and the last by default.")
    ] = None,
    norm: Annotated[str | None, typer.Option(help="pre or post: norms before each part, or behind each sum.")] = None,
    level: Annotated[str | None, typer.Option(help="Of text: characters or subwords.")] = None,
    width: Annotated[int | None, typer.Option(help="The dimension of the states.")] = None,
    layers: Annotated[int | None, typer.Option(help="Blocks.")] = None,
    heads: Annotated[int | None, typer.Option(help="Heads of each block.")] = None,
    length: Annotated[int | None, typer.Option(help="Positions of a sequence, of text and speech.")] = None,
    batch: Annotated[int | None, typer.Option(help="Sequences a step.")] = None,
    rate: Annotated[float | None, typer.Option(help="The learning rate at its highest.")] = None,
    dtype: Annotated[str, typer.Option(help="In which checkpoints are written: float32 or bfloat16.")] = "float32",
    threads: Annotated[int | None, typer.Option(help="Threads on the CPU; weights are equal only for equal numbers of them.")] = None,
    stop: Annotated[int | None, typer.Option(help="Stop after so many steps; the same command without it goes on.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Train a small Transformer and keep checkpoints of it, to be measured with `isoscope sweep`.

    Trained again with one seed and as many threads it has the same weights, bit for bit; killed, the same command goes on.

    **Examples**

    `isoscope train causal-text --seeds 0-4 --out suites/decoder`

    `isoscope train masked-text --norm post --width 192 --heads 6 --data wiki.txt --out suites/wide`

    `isoscope train images --data cifar10/ --steps 3000 --out suites/vision`
    """
    from isoscope.engine.training import run_training

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
