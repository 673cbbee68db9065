"""isoscope block"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import pandas as pd

    from isoscope.engine.progress import Progress
    from isoscope.lab.block import NetworkChoice, Trial
    from isoscope.store.run import Run

PAPER = 16
"""Sequences of the paper's own setting, and of any network that is tried alone."""
SHOWN = {
    "norm_fixed_point": "N*, mean of norms",
    "drift_fixed_point": "N*, norm of the mean",
    "least_cosine_gain": "output minus input cosine, at least",
    "query_cosine_unbiased": "cosine of queries",
    "key_cosine_unbiased": "cosine of keys",
}
BESIDE = 4
"""Sequences of each other network of a grid, unless --batch says how many."""


def run(
    init: Annotated[
        str, typer.Option(help="Initialisations: bert (words only), words-positions-types, torch (linear layers as torch makes them).")
    ] = "bert",
    norm: Annotated[str, typer.Option(help="Where the norms are: post, pre or rms (pre, RMSNorm).")] = "post",
    depth: Annotated[str, typer.Option(help="After how many blocks to measure (1,2,12).")] = "1",
    variant: Annotated[
        str,
        typer.Option(
            help="full, attention-only, mlp-only, uniform-attention, no-residual, no-norm; two joined by + (attention-only+no-residual)."
        ),
    ] = "full",
    arch: Annotated[
        str | None, typer.Option(help="Instead: an architecture of transformers, by type (gpt2) or by a folder with config.json.")
    ] = None,
    trained: Annotated[
        str | None, typer.Option(metavar="MODEL|RUN", help="Hold the fixed point against the norms of a trained model, or of a run.")
    ] = None,
    norms: Annotated[str, typer.Option(help="Norms of the bias.")] = "0,0.25,0.5,1,2,3,5,10,15,20,25,30",
    draws: Annotated[int, typer.Option(help="Draws of weights, inputs and the direction of the bias.")] = 5,
    batch: Annotated[
        int | None,
        typer.Option(help=f"Sequences a draw; {PAPER}, but where several networks are tried {BESIDE} for all but the paper's own."),
    ] = None,
    length: Annotated[int, typer.Option(help="Positions a sequence.")] = 512,
    d: Annotated[int, typer.Option("--d", help="Dimensions of the block.")] = 768,
    heads: Annotated[int, typer.Option(help="Heads of the block.")] = 12,
    inner: Annotated[int | None, typer.Option(help="Width of the MLP; four times d.")] = None,
    vocabulary: Annotated[int, typer.Option(help="Rows of the embedding table.")] = 30_522,
    sigma: Annotated[float, typer.Option(help="Standard deviation of embeddings and weights at initialisation.")] = 0.02,
    query_rows: Annotated[
        int, typer.Option(help="Rows of attention, evenly spaced, whose median and histogram are taken; all else is over every row.")
    ] = 64,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    threads: Annotated[int | None, typer.Option(help="Threads on the CPU; all of them by default.")] = None,
    out: Annotated[str, typer.Option(help="The run's folder. What it already holds is not computed again.")] = "isoscope-run",
    json: Annotated[bool, typer.Option("--json", help="End with the numbers as JSON on standard output.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """What an untrained block does to a common bias: cosine, norms, queries, keys and attention, by the norm of the bias.

    **Examples**

    `isoscope block --out runs/block`

    `isoscope block --init bert,torch --norm post,pre,rms --depth 1,2,12 --variant full,mlp-only,no-norm --out runs/block`

    `isoscope block --arch gpt2 --trained ./gpt2 --out runs/block`
    """
    from isoscope.core.block import KIND, TRAINED
    from isoscope.engine.progress import Progress
    from isoscope.engine.results import Results
    from isoscope.engine.threads import limit_threads
    from isoscope.lab.block import Trial, run_experiment, table_name
    from isoscope.lab.networks import Sizes
    from isoscope.models.model_name import resolve_model
    from isoscope.store.run import Run

    alone = Sizes(d, heads, inner, length, PAPER if batch is None else batch, vocabulary, sigma)
    trial = Trial(alone, tuple(sorted({_number(word, "--norms") for word in _words(norms)})), draws, seed, query_rows)
    things = _things(arch, _words(init), _words(norm), _words(variant), [_count(word) for word in _words(depth)])
    plans = [(thing, _sized(thing, trial, few=batch is None and len(things) > 1)) for thing in things]
    if trained is not None and not _is_run(trained):
        resolve_model(trained)  # a misspelt name costs nothing
    progress, folder = Progress(quiet=quiet), Run(out)
    folder.prepare()
    steps = sum(plan.draws * len(plan.norms) for _, plan in plans)
    progress.note(f"{len(plans)} networks, {len(trial.norms)} norms of the bias, {draws} draws: {steps:,} measurements.")
    with limit_threads(threads):
        with progress.bar("block", steps, "measurements") as bar:
            for thing, plan in plans:
                if not run_experiment(folder, thing, plan, bar.advance):
                    progress.note(f"{thing.name}: already measured.")
                    bar.advance(plan.draws * len(plan.norms))
        if trained is not None:
            _hold_against(trained, folder, progress)
    results = Results(out)
    table = results.table()
    asked = table["model"].isin([table_name(thing, trial) for thing in things]) | table["metric"].eq(TRAINED)
    own = table[table["kind"].eq(KIND) & asked]
    if json:
        _print_json(str(results.path), own)
        return
    _show(own)
    typer.echo(f"{results.path}")


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(filter(None, (word.strip() for word in text.split(","))))) or [""]


def _number(word: str, option: str) -> float:
    from isoscope.core.errors import IsoscopeError

    try:
        return float(word)
    except ValueError as error:
        raise IsoscopeError(f"{option} takes numbers separated by commas, as in 0,1,5,30; got {word!r}.") from error


def _count(word: str) -> int:
    from isoscope.core.errors import IsoscopeError

    if not word.removeprefix("-").isdecimal():
        raise IsoscopeError(f"--depth takes whole numbers separated by commas, as in 1,2,12; got {word!r}.")
    return int(word)


def _things(arch: str | None, inits: list[str], norms: list[str], variants: list[str], depths: list[int]) -> list[NetworkChoice]:
    """What is to be tried: one architecture, or plain blocks."""
    from isoscope.core.errors import IsoscopeError
    from isoscope.lab.block import plan_networks

    if arch is None:
        return list(plan_networks(inits, norms, variants, depths))
    if (inits, norms, variants) != (["bert"], ["post"], ["full"]):
        raise IsoscopeError(
            "--init, --norm and --variant belong to the plain block; an architecture brings its own: leave them or --arch out."
        )
    from isoscope.lab.architectures import Architecture

    return [Architecture(arch, tuple(sorted(set(depths))))]


def _sized(thing: NetworkChoice, trial: Trial, *, few: bool) -> Trial:
    """The trial with fewer sequences where time is short and the network is not the paper's."""
    from isoscope.lab.block import Network

    paper = isinstance(thing, Network) and (thing.init, thing.norm, thing.variant, thing.depths) == ("bert", "post", "full", (1,))
    return replace(trial, sizes=replace(trial.sizes, batch=BESIDE)) if few and not paper else trial


def _is_run(path: str) -> bool:
    from pathlib import Path

    return (Path(path) / "cells").is_dir()


def _hold_against(trained: str, folder: Run, progress: Progress) -> None:
    """Keep the norms of a trained model beside the block: from a run, or by measuring the model on the embedded text."""
    from isoscope.engine.measure import measure
    from isoscope.engine.results import Results
    from isoscope.lab.block import write_trained_norms

    if _is_run(trained):
        table = Results(trained).table()
    else:
        progress.note(f"{trained}: its norms are measured on the embedded text.")
        table = measure(
            trained, "embedded", folder.within("trained").path, quiet=progress.quiet, max_tokens=20_000, sample=0, keep="rows"
        ).table()
    write_trained_norms(folder, table, trained)


def _print_json(path: str, rows: pd.DataFrame) -> None:
    from json import dumps, loads

    columns = ["model", "layer", "metric", "value", "low", "high", "n", "d"]
    plain = rows[columns].astype(object)
    found: list[dict[Any, Any]] = plain.where(plain.notna(), None).to_dict("records")
    for row, spec in zip(found, rows["spec"], strict=True):
        row["note"] = loads(spec).get("note", "")
    typer.echo(dumps({"run": path, "numbers": found}, ensure_ascii=False))


def _show(rows: pd.DataFrame) -> None:
    """A line a network and depth, what is to be said of its fixed point below it, and the trained models last."""
    from json import loads

    from isoscope.core.block import TRAINED

    blocks = rows[rows["metric"].ne(TRAINED)]
    for (model, layer), own in blocks.groupby(["model", "layer"], sort=False):
        found = own.drop_duplicates("metric", keep="last").set_index("metric")
        typer.echo(model if layer == 1 else f"{model}, after block {layer}")
        for metric, title in SHOWN.items():
            if metric in found.index:
                row = found.loc[[metric]].iloc[0]
                value = "none" if row["value"] != row["value"] else f"{row['value']:.5g}{_reach(row)}"
                typer.echo("; ".join(filter(None, [f"  {title}: {value}", loads(row["spec"]).get("note")])))
    for model, own in rows[rows["metric"].eq(TRAINED)].groupby("model", sort=False):
        norms = own["value"]
        typer.echo(f"{model!s}, trained: mean norms of its layers {norms.min():.4g} to {norms.max():.4g}, median {norms.median():.4g}")


def _reach(row: pd.Series) -> str:
    return "" if row["low"] != row["low"] else f" [{row['low']:.4g}, {row['high']:.4g}]"
