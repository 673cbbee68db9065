"""isoscope isotropic-null"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isoscope.console.arguments import Json, Policy, Quiet, Seed
from isoscope.console.output import new_table, print_json, print_table, print_text, write_errors_as_user_errors
from isoscope.core.wording import format_number

if TYPE_CHECKING:
    import pandas as pd

FEWEST_DRAWS, MOST_POINTS, MOST_DIMENSIONS = 100, 10**8, 16_384
"""Limits of a simulation: fewer draws have no useful error; more points over all draws, or more dimensions, take minutes."""

VERB = "isotropic-null"


def run(
    d: Annotated[list[str] | None, typer.Option("--d", help="Dimensions, as 768 or 16,64; may be repeated. Default: 16 to 8192.")] = None,
    n: Annotated[int, typer.Option("--n", help="Number of points.")] = 4096,
    run: Annotated[str | None, typer.Option("--run", help="A run, to compare its models with the null.")] = None,
    policy: Policy = "all",
    head_d: Annotated[int, typer.Option(help="Dimensions of a head, for cos(Q̄, K̄).")] = 64,
    heads: Annotated[int, typer.Option(help="Number of heads that are tested.")] = 144,
    two_nn: Annotated[bool, typer.Option("--two-nn", help="Also simulate the null of TwoNN, which takes some seconds.")] = False,
    monte_carlo: Annotated[
        int | None, typer.Option(metavar="DRAWS", help="Check every closed form with this many draws; at least 100.")
    ] = None,
    seed: Seed = 0,
    out: Annotated[str | None, typer.Option(help="A folder for the figures cosine_density and isotropic_level.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Print the values that isotropic points would give, in closed form: the null of every number.

    **Examples**

    `isoscope isotropic-null --d 768 --n 100000`

    `isoscope isotropic-null --run runs/bert --out figures/`

    `isoscope isotropic-null --d 16,768 --two-nn --monte-carlo 1000`
    """
    from isoscope.estimation.isotropic_quantiles import head_threshold
    from isoscope.studies.isotropic_null.experiment import DIMENSIONS, closed_forms

    dimensions = _parse_dimensions(d) if d else list(DIMENSIONS)
    _check_counts(max(dimensions), n=n, head_d=head_d, heads=heads, seed=seed, two_nn=two_nn, draws=monte_carlo)
    measured = _rows_of_run(run, policy) if run is not None else None
    null: dict[str, Any] = {
        "n": n,
        "levels": [{"d": size} | closed_forms(size, n) for size in dimensions],
        "heads": {"d": head_d, "heads": heads, "threshold": head_threshold(head_d, heads)},
    }
    _simulate(null, two_nn=two_nn, draws=monte_carlo, seed=seed, quiet=quiet)
    if measured is not None:
        null["models"] = _average_models(measured)
    if out is not None:
        null["figures"] = _write_figures(dimensions, n, measured, Path(out))
    if json:
        print_json(null)
        return
    _print_levels(null)
    if monte_carlo is not None:
        _print_simulated(null)
    if measured is not None:
        _print_models(null["models"])
    for path in null.get("figures", []):
        typer.echo(path)


def _parse_dimensions(words: list[str]) -> list[int]:
    """The dimensions of the options, each once, in rising order."""
    from isoscope.core.errors import IsoscopeError

    dimensions = set()
    for word in (part.strip() for given in words for part in given.split(",")):
        if not (word.isascii() and word.isdigit() and 2 <= int(word) <= 10**6):
            raise IsoscopeError(f"--d takes dimensions from 2 to 1,000,000, as in --d 768 or --d 16,64; got {word!r}.")
        dimensions.add(int(word))
    return sorted(dimensions)


def _check_counts(d: int, *, n: int, head_d: int, heads: int, seed: int, two_nn: bool, draws: int | None) -> None:
    from isoscope.core.errors import IsoscopeError
    from isoscope.core.user_input import check_count

    for name, value, least in (("n", n, 10), ("head_d", head_d, 2), ("heads", heads, 1), ("seed", seed, 0)):
        check_count(name, value, least)
    if draws is not None and draws < FEWEST_DRAWS:
        raise IsoscopeError(f"--monte-carlo needs at least {FEWEST_DRAWS} draws to estimate its error; got {draws}.")
    if draws is not None and draws * max(n, heads * head_d) > MOST_POINTS:
        raise IsoscopeError(f"--monte-carlo {draws} at --n {n} and --heads {heads} takes minutes; ask for fewer draws or fewer points.")
    if d > MOST_DIMENSIONS and (two_nn or draws is not None):
        option = "--two-nn" if two_nn else "--monte-carlo"
        raise IsoscopeError(f"{option} simulates at most {MOST_DIMENSIONS:,} dimensions; got --d {d}. The closed forms need no simulation.")


def _rows_of_run(run: str, policy: str) -> pd.DataFrame:
    """Mean cosine and isotropy score of a run's hidden states."""
    from isoscope.core.errors import IsoscopeError
    from isoscope.runs.results import Results

    rows = Results(run).table(policy=policy)
    rows = rows[rows["kind"].eq("hidden") & rows["head"].isna() & rows["metric"].isin(["mean_cosine", "isotropy_score"])]
    rows = rows[rows["value"].notna() & rows["n"].notna() & rows["d"].ge(2).fillna(False).astype(bool)]
    if rows.empty:
        raise IsoscopeError(f"{run} has no hidden states with a cosine; measure a model first, as in `isoscope measure MODEL --out {run}`.")
    return rows


def _average_models(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """The mean of each model over its layers of one dimension, with both isotropic levels."""
    from isoscope.charts.legends import add_curves
    from isoscope.estimation.isotropic_quantiles import one_pair
    from isoscope.studies.isotropic_null.experiment import average_quantile

    models = []
    for key, own in add_curves(rows).groupby(["curve", "d"], sort=False):
        curve, d = str(key[0]), int(str(key[1]))
        cosines, scores = (own[own["metric"] == name] for name in ("mean_cosine", "isotropy_score"))
        if cosines.empty:
            continue
        n = int(cosines["n"].min())
        levels = {"pair_95": one_pair(d), "average_95": average_quantile(d, n) if n > 1 else float("nan")}
        means = {"mean_cosine": float(cosines["value"].mean()), "isotropy_score": float(scores["value"].mean())}
        models.append({"model": curve, "d": d, "n": n, "layers": len(cosines)} | means | levels)
    return models


def _simulate(null: dict[str, Any], *, two_nn: bool, draws: int | None, seed: int, quiet: bool) -> None:
    """Add the simulated levels to the closed forms."""
    from dataclasses import asdict

    from isoscope.core.progress import Progress
    from isoscope.studies.isotropic_null import experiment as lab

    levels, n, head = null["levels"], null["n"], null["heads"]
    tasks = (two_nn + (draws is not None)) * len(levels)
    if not tasks:
        return
    with Progress(quiet=quiet).bar("simulating", tasks, "levels") as bar:
        for level in levels:
            d = level["d"]
            if two_nn:
                size = max(3, min(n, lab.NEIGHBOURS))
                level["two_nn"] = asdict(lab.simulate_two_nn(d, size, seed=seed)) | {"n": size}
                bar.advance()
            if draws is not None:
                simulated = lab.simulate_forms(d, n, draws, seed)
                level["simulated"] = {
                    name: asdict(estimate) | {"agrees": estimate.agrees(level[name], lab.FORMS[name].slack(d, n))}
                    for name, estimate in simulated.items()
                }
                bar.advance()
        if draws is not None:
            exceeded, expected = lab.simulate_heads(head["d"], head["heads"], draws, seed)
            head["simulated"] = asdict(exceeded) | {"expected": expected, "agrees": exceeded.agrees(expected)}


def _write_figures(dimensions: list[int], n: int, measured: pd.DataFrame | None, folder: Path) -> list[str]:
    """Write figures 17 and 18. The rows of a run lose their layer, so that they fill no profile."""
    from isoscope.core.table import TABLE_COLUMNS, concat_tables
    from isoscope.report import write_figures
    from isoscope.studies.isotropic_null.experiment import isotropic_tables

    table, series = isotropic_tables(dimensions, n)
    if measured is not None:
        table = concat_tables([table, measured.drop(columns="layer").reindex(columns=list(TABLE_COLUMNS))], TABLE_COLUMNS)
    with write_errors_as_user_errors(folder):
        return [str(path) for path in write_figures(table, series, folder)]


def _print_levels(null: dict[str, Any]) -> None:
    levels, n, head = null["levels"], null["n"], null["heads"]
    neighbours = "two_nn" in levels[0]
    names = ["d", "one pair\n95 %", "one pair\nsd", "average\nsd", "average\n95 %", "spectrum\nedges", "top\nshare", "IsoScore", "ReLU"]
    table = new_table([*names, *(["TwoNN"] if neighbours else [])], title=f"Isotropic points, n = {n:,}")
    for level in levels:
        cosines = [format_number(level[name]) for name in ("pair_95", "pair_sd", "average_sd", "average_95")]
        edges = f"{format_number(level['lower_edge'])}–{format_number(level['upper_edge'])}"
        others = [format_number(level[name]) for name in ("top_share", "isoscore", "rectified")]
        simulated = [f"{format_number(level['two_nn']['value'])} ± {format_number(level['two_nn']['error'])}"] if neighbours else []
        table.add_row(str(level["d"]), *cosines, edges, *others, *simulated)
    print_table(table)
    first = levels[0]
    print_text(
        "One pair: the cosine of two isotropic vectors. Average: the mean cosine over all pairs of n of them, 0 but for its sd. "
        "The mean cosine of a layer is an average, so comparing it with the percentile of one pair is far too lenient: at d = "
        f"{first['d']} by a factor of {first['pair_95'] / first['average_95']:,.0f}."
    )
    print_text(
        "Edges: those of the Marchenko–Pastur law, for variance 1. Top share: the upper edge over d. ReLU: the mean cosine of independent "
        "rectified features, which tends to 1/π."
    )
    if neighbours:
        print_text(f"TwoNN: its value for {levels[0]['two_nn']['n']:,} Gaussian points in d dimensions, by simulation.")
    print_text(
        f"cos(Q̄, K̄): the chance that any of {head['heads']} heads of {head['d']} dimensions exceeds {format_number(head['threshold'])} "
        "is at most 5 % (Bonferroni)."
    )


def _print_simulated(null: dict[str, Any]) -> None:
    from isoscope.studies.isotropic_null.experiment import ERRORS, FORMS

    table = new_table(["form", "d", "closed form", "simulated", "± error", "agrees"], title="By simulation", text=("form",))

    def add_row(title: str, d: int, expected: float, simulated: dict[str, Any]) -> None:
        numbers = map(format_number, (expected, simulated["value"], simulated["error"]))
        table.add_row(title, str(d), *numbers, "yes" if simulated["agrees"] else "NO")

    for name, form in FORMS.items():
        for level in null["levels"]:
            if name in level["simulated"]:
                add_row(form.title, level["d"], level[name], level["simulated"][name])
    head = null["heads"]
    add_row(f"any of {head['heads']} heads", head["d"], head["simulated"]["expected"], head["simulated"])
    print_table(table)
    print_text(
        f"A form agrees if it lies within {ERRORS} standard errors; asymptotic forms (average 95 %, eigenvalues, IsoScore, ReLU) may also "
        "be off by their own order in n and d."
    )


def _print_models(models: list[dict[str, Any]]) -> None:
    names = ["model", "d", "layers", "mean\ncosine", "one pair\n95 %", "average\n95 %", "isotropy\nscore"]
    table = new_table(names, title="Models, averaged over their layers", text=("model",))
    for row in models:
        numbers = [format_number(row[name], missing="") for name in ("mean_cosine", "pair_95", "average_95", "isotropy_score")]
        table.add_row(row["model"], str(row["d"]), str(row["layers"]), *numbers)
    print_table(table)
    print_text("The isotropy score can be compared across dimensions: 1 is isotropic, 0 means that all directions agree.")
