"""isoscope embeddings"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from isoscope.console.arguments import CONVENTIONS, AllowWide, ArrayKey, Json, Quiet, Seed
from isoscope.console.output import new_table, print_json, print_next_steps, print_table, print_text
from isoscope.core.wording import format_number, plain

if TYPE_CHECKING:
    from isoscope.runs.embedding_diagnosis import Diagnosis
    from isoscope.runs.matrix_geometry import Geometry

COMPARED = ("mean_cosine", "drift_ratio", "top_share", "effective_rank", "isoscore", "two_nn")
"""The metrics that are shown before and after a repair."""
TASK = "A repair that looks better need not search better: try it on your task, too."


def run(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A matrix with one row per point: .npy, .npz, .safetensors, .parquet, .csv, .tsv or .pt.")
    ],
    key: ArrayKey = None,
    repair: Annotated[
        list[str] | None,
        typer.Option(
            help="Fit this repair to half of the rows, and show what it does to the other half: 'Centre()', 'AllButTheTop(k=2)'; may be "
            "repeated.",
            metavar="REPAIR",
        ),
    ] = None,
    metric: Annotated[list[str] | None, typer.Option(help="Only this metric; may be repeated.")] = None,
    convention: Annotated[str | None, typer.Option(help=f"Measure as this source would: {CONVENTIONS}.", metavar="SOURCE")] = None,
    allow_wide: AllowWide = False,
    sample: Annotated[int, typer.Option(min=0, help="Number of sample points, for metrics that need individual points.")] = 4096,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say whether embeddings are healthy, what is wrong with them and what to try; then every number, by question.

    The file is read in blocks, whatever its size.

    **Examples**

    `isoscope embeddings vectors.npy`

    `isoscope embeddings vectors.npy --repair 'Centre()' --repair 'AllButTheTop(k=2)'`

    `isoscope embeddings model.safetensors --key embeddings.word_embeddings.weight`

    `isoscope embeddings vectors.npy --metric two_nn --metric gride --sample 20000`

    `isoscope embeddings vectors.npy --convention razzhigaev2024`
    """
    from isoscope.core.errors import IsoscopeError, nearest, require_extra
    from isoscope.core.text_table import align_table
    from isoscope.metrics import metrics
    from isoscope.runs.embedding_diagnosis import diagnose
    from isoscope.runs.matrix_geometry import HEAD, Geometry, geometry, number_cells

    if metric and (convention or repair):
        raise IsoscopeError(f"A {'--convention' if convention else '--repair'} chooses the metrics itself; leave out --metric.")
    if convention and repair:
        raise IsoscopeError("A --repair is judged by the checks of isoscope; leave out --convention.")
    known = {entry.name: entry for entry in metrics("points")}
    for name in metric or []:
        if name not in known:
            raise IsoscopeError(f"There is no metric called {name!r}{nearest(name, list(known)) or '; see `isoscope list metrics`.'}")
    if repair:
        require_extra("repair", "isoscope embeddings --repair")
        from isoscope.repair.repair_trial import try_repairs

        results = try_repairs(file, repair, key=key, allow_wide=allow_wide, sample=sample, seed=seed)
        print_json({name: _as_json(result) for name, result in results.items()}) if json else _print_trial(file, results)
        return
    if not (convention or metric):
        diagnosis = diagnose(file, allow_wide=allow_wide, sample=sample, seed=seed, key=key, quiet=quiet)
        print_json(_as_json(diagnosis)) if json else _print_diagnosis(file, diagnosis)
        if not (json or quiet):
            _suggest(shlex.join([file, *(["--key", key] if key else []), *(["--allow-wide"] if allow_wide else [])]), diagnosis.repairs)
        return
    if convention:
        from isoscope.studies.definitions.analysis import of_matrix

        answers = of_matrix(file, [convention], key=key, sample=sample, seed=seed, allow_wide=allow_wide)
        numbers = Geometry({str(answer.as_dict()["metric"]): answer.number for answer in answers})
    else:
        numbers = geometry(file, metric=metric, allow_wide=allow_wide, sample=sample, seed=seed, key=key, quiet=quiet)
    if absent := [name for name in metric or [] if name not in numbers]:
        entry = known[absent[0]]
        needs_sample = not sample and {"sample", "neighbours"} & set(entry.reads)
        needed = "a sample of the points (--sample 4096)" if needs_sample else f"at least {entry.at_least} points"
        raise IsoscopeError(f"{absent[0]} needs {needed}; provide it or leave the metric out.")
    if json:
        print_json({name: number.as_dict() for name, number in numbers.items()})
    elif numbers:
        typer.echo(f"{plain(file)}: {numbers.describe_size()}")
        # The numbers of a convention are no metrics, and answer no question of docs/metrics.md.
        own = [[name, *number_cells(number)] for name, number in numbers.items()]
        _print_numbers(numbers, align_table(HEAD, own).splitlines() if convention else numbers.lines())


def _as_json(diagnosis: Diagnosis) -> dict[str, object]:
    from dataclasses import asdict

    verdict = {"healthy": diagnosis.healthy, "headline": diagnosis.headline, "checks": [asdict(check) for check in diagnosis.checks]}
    return {"diagnosis": verdict, "numbers": {name: number.as_dict() for name, number in diagnosis.numbers.items()}}


def _print_diagnosis(file: str, diagnosis: Diagnosis) -> None:
    """The verdict, what is wrong, the checks with their limits, and the numbers by question."""
    typer.echo(f"{plain(file)}: {diagnosis.numbers.describe_size()}\n")
    print_text(diagnosis.headline, style="bold")
    for sentence in diagnosis.sentences:
        print_text(f"- {sentence}")
    _print_checks(diagnosis)
    print_text("A fault: the whole 95 % interval lies beyond the limit. Unclear: the limit lies within it.\n")
    _print_numbers(diagnosis.numbers, diagnosis.numbers.lines())


def _suggest(matrix: str, repairs: list[str]) -> None:
    """What to do with a matrix, whose file is given with its options: try the repairs, or see it by other definitions."""
    if repairs:
        tried = " ".join(f"--repair {shlex.quote(expression)}" for expression in repairs)
        print_next_steps((f"isoscope embeddings {matrix} {tried}", "shows on held-out rows what the repair does"))
    else:
        print_next_steps((f"isoscope compare-definitions {matrix}", "the same matrix as each paper would have measured it"))


def _print_checks(diagnosis: Diagnosis) -> None:
    from isoscope.runs.embedding_diagnosis import HEAD

    table = new_table(HEAD, words=HEAD[:2])
    for row in diagnosis.rows():
        table.add_row(*row, style={"fine": "", "unclear": "yellow"}.get(row[1], "bold red"))
    print_table(table)


def _print_numbers(numbers: Geometry, lines: list[str]) -> None:
    """The lines of a table of numbers, followed by their notes."""
    for line in lines:
        typer.echo(plain(line))
    most = max(number.n for number in numbers.values())
    notes = {name: [x.note] * bool(x.note) + [f"over {x.n:,} points"] * (x.n != most) for name, x in numbers.items()}
    if any(notes.values()):
        typer.echo()
    for name, own in notes.items():
        if own:
            print_text(f"{name}: {'; '.join(own)}.")


def _print_trial(file: str, results: dict[str, Diagnosis]) -> None:
    """The checks and a few metrics, before and after each repair."""
    first = next(iter(results.values()))
    typer.echo(f"{plain(file)}: every second row, {first.numbers.describe_size()}; repairs were fitted to the other rows\n")
    for name, result in results.items():
        print_text(f"{name}: {result.headline}")
    table = new_table(["", *results], words=("",))
    for check in first.checks:
        own = [next((other for other in result.checks if other.name == check.name), None) for result in results.values()]
        table.add_row(check.name, *("" if other is None else other.measured.partition(" ")[0] + _mark(other.outcome) for other in own))
    for name in COMPARED:
        if name in first.numbers:
            table.add_row(name, *(format_number(result.numbers[name]) for result in results.values()))
    print_table(table)
    print_text(f"! a fault, ? unclear. {TASK}")


def _mark(outcome: str) -> str:
    return {"fine": "  ", "unclear": " ?"}.get(outcome, " !")
