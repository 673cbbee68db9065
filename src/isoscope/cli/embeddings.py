"""isoscope embeddings"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from isoscope.console.arguments import CONVENTIONS, AllowWide, ArrayKey, Json, Quiet, Seed
from isoscope.console.output import new_table, print_json, print_table
from isoscope.core.wording import format_interval, format_number

if TYPE_CHECKING:
    from isoscope.core.number import Number


def run(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A matrix with one row per point: .npy, .npz, .safetensors or .parquet.")],
    json: Json = False,
    allow_wide: AllowWide = False,
    key: ArrayKey = None,
    metric: Annotated[list[str] | None, typer.Option(help="Only this metric; may be repeated.")] = None,
    convention: Annotated[str | None, typer.Option(help=f"Measure as this source would: {CONVENTIONS}.")] = None,
    sample: Annotated[int, typer.Option(min=0, help="Number of sample points, for metrics that need individual points.")] = 4096,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Compute all metrics of a matrix of embeddings, which is read in blocks.

    **Examples**

    `isoscope embeddings vectors.npy`

    `isoscope embeddings vectors.npy --metric two_nn --metric gride --sample 20000`

    `isoscope embeddings vectors.npy --convention razzhigaev2024`

    `isoscope embeddings index.safetensors --key weight --metric mean_cosine --metric isoscore --json`
    """
    from isoscope.core.errors import IsoscopeError, nearest
    from isoscope.metrics import metrics
    from isoscope.runs.matrix_geometry import geometry

    if convention and metric:
        raise IsoscopeError("A --convention chooses the metrics itself; leave out --metric.")
    known = {entry.name: entry for entry in metrics("points")}
    for name in metric or []:
        if name not in known:
            raise IsoscopeError(f"There is no metric called {name!r}{nearest(name, list(known)) or '; see `isoscope list metrics`.'}")
    if convention:
        from isoscope.studies.definitions.analysis import of_matrix

        answers = of_matrix(file, [convention], key=key, sample=sample, seed=seed, allow_wide=allow_wide)
        numbers = {str(answer.as_dict()["metric"]): answer.number for answer in answers}
    else:
        numbers = geometry(file, metric=metric or None, allow_wide=allow_wide, sample=sample, seed=seed, key=key, quiet=quiet)
    if absent := [name for name in metric or [] if name not in numbers]:
        entry = known[absent[0]]
        needs_sample = not sample and {"sample", "neighbours"} & set(entry.reads)
        needed = "a sample of the points (--sample 4096)" if needs_sample else f"at least {entry.at_least} points"
        raise IsoscopeError(f"{absent[0]} needs {needed}; provide it or leave the metric out.")
    if json:
        print_json({name: number.as_dict() for name, number in numbers.items()})
    elif numbers:
        _print_numbers(file, numbers)


def _print_numbers(file: str, numbers: dict[str, Number]) -> None:
    """A table of the numbers, followed by their notes."""
    first = next(iter(numbers.values()))
    typer.echo(f"{file}: {first.n:,} points in {first.d:,} dimensions")
    table = new_table(["metric", "value", "95 % interval", "null"], words=("metric",))
    for name, x in numbers.items():
        null = " ± ".join(filter(None, [format_number(x.null, missing=""), format_number(x.null_sd, missing="")]))
        table.add_row(name, format_number(x), format_interval(x.low, x.high), null)
    print_table(table)
    for name, x in numbers.items():
        notes = [x.note] if x.note else []
        if x.n != first.n:
            notes.append(f"over {x.n:,} points")
        if notes:
            typer.echo(f"  {name}: {'; '.join(notes)}")
