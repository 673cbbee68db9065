"""isoscope baseline"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

WIDTH = 100
FEWEST, MOST, WIDEST = 100, 10**8, 16_384
"""Draws of a simulation: fewer have no error worth the name. Points over all draws, and dimensions of one: more take minutes."""


def run(
    d: Annotated[list[str] | None, typer.Option("--d", help="Dimensions, as 768 or 16,64; may be repeated. 16 … 8192 by default.")] = None,
    n: Annotated[int, typer.Option("--n", help="Points.")] = 4096,
    run: Annotated[str | None, typer.Option("--run", help="A run, whose models' own levels are drawn in.")] = None,
    policy: Annotated[str, typer.Option(help="The run's tokens: all, no-special, body, or a part that was split off.")] = "all",
    head_d: Annotated[int, typer.Option(help="Dimensions of a head, for cos(Q̄, K̄).")] = 64,
    heads: Annotated[int, typer.Option(help="Heads that are looked at.")] = 144,
    two_nn: Annotated[bool, typer.Option("--two-nn", help="TwoNN's level too, by simulation: some seconds.")] = False,
    monte_carlo: Annotated[
        int | None, typer.Option(metavar="DRAWS", help="Check every closed form by so many draws; at least 100.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of what is drawn.")] = 0,
    out: Annotated[str | None, typer.Option(help="A folder for both figures, cosine_density and isotropic_level.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Every number as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """What isotropic points would give: the levels that every number is held against, in closed form.

    **Examples**

    `isoscope baseline --d 768 --n 100000`

    `isoscope baseline --run runs/bert --out figures/`

    `isoscope baseline --d 16,768 --two-nn --monte-carlo 1000`
    """
    from isoscope.lab.null import DIMENSIONS, closed_forms
    from isoscope.statistics.chance import head_threshold

    dimensions = _dimensions(d) if d else list(DIMENSIONS)
    _check(n=n, head_d=head_d, heads=heads, seed=seed, draws=monte_carlo)
    _check_width(max(dimensions), two_nn=two_nn, draws=monte_carlo)
    measured = _measured(run, policy) if run is not None else None
    found: dict[str, Any] = {
        "n": n,
        "levels": [{"d": size} | closed_forms(size, n) for size in dimensions],
        "heads": {"d": head_d, "heads": heads, "threshold": head_threshold(head_d, heads)},
    }
    _draw(found, two_nn=two_nn, draws=monte_carlo, seed=seed, quiet=quiet)
    if measured is not None:
        found["models"] = _models(measured)
    if out is not None:
        found["figures"] = _figures(dimensions, n, measured, Path(out))
    if json:
        from isoscope.core.bounded import strict_json

        typer.echo(strict_json(_plain(found)))
        return
    _print(found)


def _dimensions(words: list[str]) -> list[int]:
    """Dimensions as they are typed, each once, in rising order."""
    from isoscope.core.errors import IsoscopeError

    found = set()
    for word in (part.strip() for given in words for part in given.split(",")):
        if not (word.isascii() and word.isdigit() and 2 <= int(word) <= 10**6):
            raise IsoscopeError(f"--d takes dimensions from 2 to 1,000,000, as in --d 768 or --d 16,64; got {word!r}.")
        found.add(int(word))
    return sorted(found)


def _check(*, n: int, head_d: int, heads: int, seed: int, draws: int | None) -> None:
    from isoscope.core.errors import IsoscopeError
    from isoscope.core.option_limits import check_count

    for name, value, least in (("n", n, 10), ("head_d", head_d, 2), ("heads", heads, 1), ("seed", seed, 0)):
        check_count(name, value, least)
    if draws is not None and draws < FEWEST:
        raise IsoscopeError(f"--monte-carlo needs at least {FEWEST} draws to know its error; got {draws}.")
    if draws is not None and draws * max(n, heads * head_d) > MOST:
        raise IsoscopeError(
            f"--monte-carlo {draws} at --n {n} and --heads {heads} would draw for minutes; ask for fewer draws or fewer points."
        )


def _check_width(d: int, *, two_nn: bool, draws: int | None) -> None:
    from isoscope.core.errors import IsoscopeError

    if d > WIDEST and (two_nn or draws is not None):
        asked = "--two-nn" if two_nn else "--monte-carlo"
        raise IsoscopeError(f"{asked} draws points of at most {WIDEST:,} dimensions; got --d {d}, whose closed forms need no drawing.")


def _measured(run: str, policy: str) -> pd.DataFrame:
    """Mean cosine and isotropy score of a run's hidden states."""
    from isoscope.core.errors import IsoscopeError
    from isoscope.engine.results import Results

    rows = Results(run).table(policy=policy)
    rows = rows[rows["kind"].eq("hidden") & rows["head"].isna() & rows["metric"].isin(["mean_cosine", "isotropy_score"])]
    rows = rows[rows["value"].notna() & rows["n"].notna() & rows["d"].ge(2).fillna(False).astype(bool)]
    if rows.empty:
        raise IsoscopeError(f"{run} has no hidden states with a cosine; measure a model first, as in `isoscope measure MODEL --out {run}`.")
    return rows


def _models(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Each model's average over its layers of one dimension, beside both levels of isotropy."""
    from isoscope.drawing.legends import add_curves
    from isoscope.lab.null import average_quantile
    from isoscope.statistics.chance import one_pair

    found = []
    for key, own in add_curves(rows).groupby(["curve", "d"], sort=False):
        curve, d = str(key[0]), int(str(key[1]))
        cosines, scores = (own[own["metric"] == name] for name in ("mean_cosine", "isotropy_score"))
        if cosines.empty:
            continue
        n = int(cosines["n"].min())
        levels = {"pair_95": one_pair(d), "average_95": average_quantile(d, n) if n > 1 else float("nan")}
        means = {"mean_cosine": float(cosines["value"].mean()), "isotropy_score": float(scores["value"].mean())}
        found.append({"model": curve, "d": d, "n": n, "layers": len(cosines)} | means | levels)
    return found


def _draw(found: dict[str, Any], *, two_nn: bool, draws: int | None, seed: int, quiet: bool) -> None:
    """Put beside the closed forms what simulation gives, as far as it was asked for."""
    from isoscope.engine.progress import Progress
    from isoscope.lab import null

    levels, n, head = found["levels"], found["n"], found["heads"]
    tasks = (two_nn + (draws is not None)) * len(levels)
    if not tasks:
        return
    with Progress(quiet=quiet).bar("drawing", tasks, "levels") as bar:
        for level in levels:
            d = level["d"]
            if two_nn:
                size = max(3, min(n, null.NEIGHBOURS))
                level["two_nn"] = _estimate(null.simulate_two_nn(d, size, seed=seed)) | {"n": size}
                bar.advance()
            if draws is not None:
                drawn = null.simulate_forms(d, n, draws, seed)
                level["simulated"] = {
                    name: _estimate(estimate) | {"agrees": estimate.agrees(level[name], null.FORMS[name].slack(d, n))}
                    for name, estimate in drawn.items()
                }
                bar.advance()
        if draws is not None:
            over, expected = null.simulate_heads(head["d"], head["heads"], draws, seed)
            head["simulated"] = _estimate(over) | {"expected": expected, "agrees": over.agrees(expected)}


def _estimate(estimate: Any) -> dict[str, Any]:
    return {"value": estimate.value, "error": estimate.error}


def _figures(dimensions: list[int], n: int, measured: pd.DataFrame | None, folder: Path) -> list[str]:
    """Figures 17 and 18; without their depth a run's rows fill no profile."""
    from isoscope.core.errors import IsoscopeError
    from isoscope.core.table import TABLE_COLUMNS, concat_tables
    from isoscope.lab.null import isotropic_tables
    from isoscope.report import write_figures

    table, series = isotropic_tables(dimensions, n)
    if measured is not None:
        table = concat_tables([table, measured.drop(columns="layer").reindex(columns=list(TABLE_COLUMNS))], TABLE_COLUMNS)
    try:
        return [str(path) for path in write_figures(table, series, folder)]
    except OSError as error:
        raise IsoscopeError(f"Cannot write {error.filename or folder}: {error.strerror or error}.") from error


def _plain(value: Any) -> Any:
    """The same for JSON, which has no NaN."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and value != value else value


def _print(found: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console(markup=False, emoji=False, highlight=False)
    console.width = max(WIDTH, console.width) if console.is_terminal else WIDTH
    _print_levels(console, found)
    if any("simulated" in level for level in found["levels"]):
        _print_simulated(console, found)
    if "models" in found:
        _print_models(console, found["models"])
    for path in found.get("figures", []):
        console.print(path, soft_wrap=True)


def _table(title: str, *columns: str, left: int = 0) -> Any:
    """A table whose columns are numbers but for the first `left`."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", padding=(0, 1, 0, 0), pad_edge=False)
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i < left else "right", no_wrap=i >= left, overflow="fold")
    return table


def _print_levels(console: Console, found: dict[str, Any]) -> None:
    levels, n, head = found["levels"], found["n"], found["heads"]
    neighbours = "two_nn" in levels[0]
    names = ["d", "one pair\n95 %", "one pair\nsd", "average\nsd", "average\n95 %", "spectrum\nedges", "top\nshare", "IsoScore", "ReLU"]
    table = _table(f"Isotropic points, n = {n:,}", *names, *(["TwoNN"] if neighbours else []))
    for level in levels:
        cosines = [f"{level['pair_95']:.4f}", f"{level['pair_sd']:.4f}", f"{level['average_sd']:.2e}", f"{level['average_95']:.2e}"]
        spectrum = [f"{level['lower_edge']:.2f}–{level['upper_edge']:.2f}", f"{level['top_share']:.3g}", f"{level['isoscore']:.4f}"]
        near = [f"{level['two_nn']['value']:.1f} ± {level['two_nn']['error']:.1f}"] if neighbours else []
        table.add_row(str(level["d"]), *cosines, *spectrum, f"{level['rectified']:.3f}", *near)
    console.print(table)
    first = levels[0]
    console.print(
        "One pair: the cosine of two isotropic vectors. Average: the mean cosine over all pairs of n of them, 0 but for its sd. A layer's "
        "mean cosine is an average: to hold it against the percentile of one pair is far too lenient, at d = "
        f"{first['d']} by a factor of {first['pair_95'] / first['average_95']:,.0f}."
    )
    console.print(
        "Edges: those of the Marchenko–Pastur law, variance 1; top share: the upper one over d. ReLU: the mean cosine of independent "
        "rectified features, 1/π but for 3/(4d) of it."
    )
    if neighbours:
        console.print(f"TwoNN: its answer for {levels[0]['two_nn']['n']:,} Gaussian points of d dimensions, by simulation.")
    console.print(
        f"cos(Q̄, K̄): of {head['heads']} heads of {head['d']} dimensions any exceeds {head['threshold']:.3f} "
        "with 5 % chance at most (Bonferroni)."
    )


def _print_simulated(console: Console, found: dict[str, Any]) -> None:
    from isoscope.lab.null import ERRORS, FORMS

    table = _table("By simulation", "form", "d", "closed form", "drawn", "± error", "agrees", left=1)
    for name, form in FORMS.items():
        for level in found["levels"]:
            drawn = level["simulated"].get(name)
            if drawn is not None:
                numbers = [f"{level[name]:.5g}", f"{drawn['value']:.5g}", f"{drawn['error']:.2g}"]
                table.add_row(form.title, str(level["d"]), *numbers, "yes" if drawn["agrees"] else "NO")
    head, drawn = found["heads"], found["heads"]["simulated"]
    numbers = [f"{drawn['expected']:.5g}", f"{drawn['value']:.5g}", f"{drawn['error']:.2g}"]
    table.add_row(f"any of {head['heads']} heads", str(head["d"]), *numbers, "yes" if drawn["agrees"] else "NO")
    console.print(table)
    console.print(
        f"A form agrees within {ERRORS} standard errors, and within its own order where it is one of large n and d (average 95 %, "
        "eigenvalues, IsoScore, ReLU)."
    )


def _print_models(console: Console, models: list[dict[str, Any]]) -> None:
    names = ["model", "d", "layers", "mean\ncosine", "one pair\n95 %", "average\n95 %", "isotropy\nscore"]
    table = _table("Models, averaged over their layers", *names, left=1)
    for row in models:
        levels = [
            f"{row['pair_95']:.4f}",
            f"{row['average_95']:.2e}",
            "" if row["isotropy_score"] != row["isotropy_score"] else f"{row['isotropy_score']:.4f}",
        ]
        table.add_row(row["model"], str(row["d"]), str(row["layers"]), f"{row['mean_cosine']:.4f}", *levels)
    console.print(table)
    console.print("The isotropy score compares across dimensions: 1 is isotropic, 0 is where all directions agree.")
