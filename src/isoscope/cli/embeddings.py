"""isoscope embeddings"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from isoscope.core.number import Number


def run(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A matrix, one row a point: .npy, .npz, .safetensors or .parquet.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    allow_wide: Annotated[bool, typer.Option("--allow-wide", help="Take a matrix with more columns than rows.")] = False,
    key: Annotated[str | None, typer.Option(help="Which array of a file that holds several, or which column.")] = None,
    metric: Annotated[list[str] | None, typer.Option(help="Only this metric; may be repeated.")] = None,
    convention: Annotated[
        str | None,
        typer.Option(help="As a source would have measured it: ethayarajh2019, godey2024, razzhigaev2024, rankme or isoscope."),
    ] = None,
    sample: Annotated[int, typer.Option(min=0, help="Points held for the metrics that need a second look.")] = 4096,
    seed: Annotated[int, typer.Option(help="Seed of that sample.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """All metrics of a matrix of embeddings, read in blocks.

    **Examples**

    `isoscope embeddings vectors.npy`

    `isoscope embeddings vectors.npy --metric two_nn --metric gride --sample 20000`

    `isoscope embeddings vectors.npy --convention razzhigaev2024`

    `isoscope embeddings index.safetensors --key weight --metric mean_cosine --metric isoscore --json`
    """
    from isoscope.core.errors import IsoscopeError, nearest
    from isoscope.engine.geometry import geometry
    from isoscope.metrics import metrics

    if convention and metric:
        raise IsoscopeError("A --convention says itself which metrics; leave out --metric.")
    known = {entry.name: entry for entry in metrics("points")}
    for name in metric or []:
        if name not in known:
            raise IsoscopeError(f"There is no metric called {name!r}{nearest(name, list(known)) or '; see `isoscope list metrics`.'}")
    if convention:
        from isoscope.engine.conventions import of_matrix

        told = of_matrix(file, [convention], key=key, sample=sample, seed=seed, allow_wide=allow_wide)
        found = {str(answer.as_dict()["metric"]): answer.number for answer in told}
    else:
        found = geometry(file, metric=metric or None, allow_wide=allow_wide, sample=sample, seed=seed, key=key, quiet=quiet)
    if absent := [name for name in metric or [] if name not in found]:
        few = f"at least {known[absent[0]].at_least} points"
        needed = "a sample of the points (--sample 4096)" if not sample and {"sample", "neighbours"} & set(known[absent[0]].reads) else few
        raise IsoscopeError(f"{absent[0]} needs {needed}; leave it out or give it that.")
    if json:
        from isoscope.core.bounded import strict_json

        typer.echo(strict_json({name: number.as_dict() for name, number in found.items()}, indent=1))
        return
    first = next(iter(found.values()), None)
    if first is None:
        return
    typer.echo(f"{file}: {first.n:,} points in {first.d:,} dimensions")
    _show(found, first.n)


def _show(found: dict[str, Number], n: int) -> None:
    """The numbers as a table whose cells are never broken, and what is to be said of some of them below it."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in ("metric", "value", "95 % interval", "null"):
        table.add_column(heading, justify="left" if heading == "metric" else "right", no_wrap=True)
    for name, x in found.items():
        interval = f"{x.low:.4g} … {x.high:.4g}" if x.low == x.low else ""
        null = "" if x.null != x.null else f"{x.null:.3g}" + (f" ± {x.null_sd:.2g}" if x.null_sd == x.null_sd else "")
        table.add_row(name, f"{float(x):.5g}", interval, null)
    Console(markup=False, emoji=False, width=Console(width=1000).measure(table).maximum).print(table)
    for name, x in found.items():
        notes = [x.note] if x.note else []
        if x.n != n:
            notes.append(f"over {x.n:,} points")
        if notes:
            typer.echo(f"  {name}: {'; '.join(notes)}")
