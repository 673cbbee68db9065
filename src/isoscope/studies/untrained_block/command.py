"""isoscope untrained-block"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isoscope.console.arguments import Quiet, RunOut, Seed, Threads
from isoscope.console.output import print_json, to_records
from isoscope.core.wording import format_estimate, format_number

if TYPE_CHECKING:
    import pandas as pd

    from isoscope.core.progress import Progress
    from isoscope.runs.run import Run
    from isoscope.studies.untrained_block.architectures import Architecture
    from isoscope.studies.untrained_block.experiment import Network, Trial

PAPER = 16
"""Sequences in the paper's setting, and for any network that is measured alone."""
TITLES = {
    "norm_fixed_point": "N*, mean of norms",
    "drift_fixed_point": "N*, norm of the mean",
    "least_cosine_gain": "output minus input cosine, at least",
    "query_cosine_unbiased": "cosine of queries",
    "key_cosine_unbiased": "cosine of keys",
}
IN_GRID = 4
"""Sequences for every other network of a grid, unless --batch gives their number."""

VERB = "untrained-block"


def run(
    init: Annotated[
        str,
        typer.Option(help="Initialisations: bert (words only), words-positions-types, torch (linear layers as torch initialises them)."),
    ] = "bert",
    norm: Annotated[str, typer.Option(help="Position of the norms: post, pre or rms (pre, RMSNorm).")] = "post",
    depth: Annotated[str, typer.Option(help="Numbers of blocks after which to measure (1,2,12).")] = "1",
    variant: Annotated[
        str,
        typer.Option(
            help="full, attention-only, mlp-only, uniform-attention, no-residual, no-norm; two joined by + (attention-only+no-residual)."
        ),
    ] = "full",
    arch: Annotated[
        str | None, typer.Option(help="Use an architecture of transformers instead, by type (gpt2) or by a folder with config.json.")
    ] = None,
    trained: Annotated[
        str | None, typer.Option(metavar="MODEL|RUN", help="Compare the fixed point with the norms of a trained model, or of a run.")
    ] = None,
    norms: Annotated[str, typer.Option(help="Norms of the bias.")] = "0,0.25,0.5,1,2,3,5,10,15,20,25,30",
    draws: Annotated[int, typer.Option(help="Draws of weights, inputs and the direction of the bias.")] = 5,
    batch: Annotated[
        int | None,
        typer.Option(help=f"Sequences per draw. Default: {PAPER}; in a grid of networks {IN_GRID} for all but the paper's own."),
    ] = None,
    length: Annotated[int, typer.Option(help="Positions per sequence.")] = 512,
    d: Annotated[int, typer.Option("--d", help="Dimensions of the block.")] = 768,
    heads: Annotated[int, typer.Option(help="Heads of the block.")] = 12,
    inner: Annotated[int | None, typer.Option(help="Width of the MLP. Default: four times d.")] = None,
    vocabulary: Annotated[int, typer.Option(help="Rows of the embedding table.")] = 30_522,
    sigma: Annotated[float, typer.Option(help="Standard deviation of embeddings and weights at initialisation.")] = 0.02,
    query_rows: Annotated[
        int, typer.Option(help="Evenly spaced rows of attention for the median and the histogram; everything else uses every row.")
    ] = 64,
    seed: Seed = 0,
    threads: Threads = None,
    out: RunOut = "isoscope-run",
    json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON when done.")] = False,
    quiet: Quiet = False,
) -> None:
    """Measure how an untrained block treats a common bias: cosine, norms, queries, keys and attention, by the norm of the bias.

    **Examples**

    `isoscope untrained-block --out runs/block`

    `isoscope untrained-block --init bert,torch --norm post,pre,rms --depth 1,2,12 --variant full,mlp-only,no-norm --out runs/block`

    `isoscope untrained-block --arch gpt2 --trained ./gpt2 --out runs/block`
    """
    from json import loads

    from isoscope.core.progress import Progress
    from isoscope.core.user_input import NumberSelection
    from isoscope.models.naming.model_name import resolve_model
    from isoscope.runs.results import Results
    from isoscope.runs.run import Run
    from isoscope.runs.verify import is_run
    from isoscope.studies.untrained_block.curves import KIND, TRAINED
    from isoscope.studies.untrained_block.experiment import Trial, run_experiment, table_name
    from isoscope.studies.untrained_block.networks import Sizes
    from isoscope.training.threads import limit_threads

    alone = Sizes(d, heads, inner, length, PAPER if batch is None else batch, vocabulary, sigma)
    trial = Trial(alone, tuple(sorted({_parse_norm(word) for word in _split_words(norms)})), draws, seed, query_rows)
    depths = NumberSelection.parse(depth, "--depth").all_numbers()
    networks = _plan_networks(arch, _split_words(init), _split_words(norm), _split_words(variant), depths)
    plans = [(network, _fit_batch(network, trial, in_grid=batch is None and len(networks) > 1)) for network in networks]
    if trained is not None and not is_run(Path(trained)):
        resolve_model(trained)  # refuses a misspelt name before anything is measured
    progress, folder = Progress(quiet=quiet), Run(out)
    folder.prepare()
    steps = sum(own_trial.draws * len(own_trial.norms) for _, own_trial in plans)
    progress.note(f"{len(plans)} networks, {len(trial.norms)} norms of the bias, {draws} draws: {steps:,} measurements.")
    with limit_threads(threads):
        with progress.bar("block", steps, "measurements") as bar:
            for network, own_trial in plans:
                if not run_experiment(folder, network, own_trial, bar.advance):
                    progress.note(f"{network.name}: already measured.")
                    bar.advance(own_trial.draws * len(own_trial.norms))
        if trained is not None:
            _add_trained_norms(trained, folder, progress)
    results = Results(out)
    table = results.table()
    measured = table["model"].isin([table_name(network, trial) for network in networks]) | table["metric"].eq(TRAINED)
    own = table[table["kind"].eq(KIND) & measured]
    if json:
        notes = [{"note": loads(spec).get("note", "")} for spec in own["spec"]]
        records = to_records(own[["model", "layer", "metric", "value", "low", "high", "n", "d"]])
        print_json({"run": str(results.path), "numbers": [record | note for record, note in zip(records, notes, strict=True)]})
        return
    _print_rows(own)
    typer.echo(f"{results.path}")


def _split_words(text: str) -> list[str]:
    """The words between commas, each once."""
    return list(dict.fromkeys(filter(None, (word.strip() for word in text.split(","))))) or [""]


def _parse_norm(word: str) -> float:
    from isoscope.core.errors import IsoscopeError

    try:
        return float(word)
    except ValueError as error:
        raise IsoscopeError(f"--norms takes numbers separated by commas, as in 0,1,5,30; got {word!r}.") from error


def _plan_networks(
    arch: str | None, inits: list[str], norms: list[str], variants: list[str], depths: list[int]
) -> Sequence[Network | Architecture]:
    """The networks to measure: one architecture, or plain blocks."""
    from isoscope.core.errors import IsoscopeError
    from isoscope.studies.untrained_block.experiment import plan_networks

    if arch is None:
        return plan_networks(inits, norms, variants, depths)
    if (inits, norms, variants) != (["bert"], ["post"], ["full"]):
        raise IsoscopeError(
            "--init, --norm and --variant are options of the plain block, and an architecture has its own; leave out either them or --arch."
        )
    from isoscope.studies.untrained_block.architectures import Architecture

    return [Architecture(arch, tuple(depths))]


def _fit_batch(network: Network | Architecture, trial: Trial, *, in_grid: bool) -> Trial:
    """The trial, with fewer sequences in a grid unless the network is the paper's: a grid takes long."""
    from isoscope.studies.untrained_block.experiment import Network

    paper = isinstance(network, Network) and (network.init, network.norm, network.variant, network.depths) == ("bert", "post", "full", (1,))
    return replace(trial, sizes=replace(trial.sizes, batch=IN_GRID)) if in_grid and not paper else trial


def _add_trained_norms(trained: str, folder: Run, progress: Progress) -> None:
    """Add the norms of a trained model to the run: from another run, or by measuring the model on the embedded text."""
    from isoscope.measuring.measure import measure
    from isoscope.runs.results import Results
    from isoscope.runs.verify import is_run
    from isoscope.studies.untrained_block.experiment import write_trained_norms

    if is_run(Path(trained)):
        results = Results(trained)
    else:
        progress.note(f"{trained}: measuring its norms on the embedded text.")
        own_folder = folder.within("trained").path
        results = measure(trained, "embedded", own_folder, quiet=progress.quiet, max_tokens=20_000, sample=0, store="rows")
    write_trained_norms(folder, results.table(), trained)


def _print_rows(rows: pd.DataFrame) -> None:
    """The numbers of each network and depth with their notes, and the trained models last."""
    from json import loads

    from isoscope.studies.untrained_block.curves import TRAINED

    blocks = rows[rows["metric"].ne(TRAINED)]
    for (model, layer), own in blocks.groupby(["model", "layer"], sort=False):
        typer.echo(model if layer == 1 else f"{model}, after block {layer}")
        by_metric = own.drop_duplicates("metric", keep="last").set_index("metric")
        for metric, title in TITLES.items():
            if metric in by_metric.index:
                row = by_metric.loc[[metric]].iloc[0]
                value = format_estimate(row["value"], row["low"], row["high"]) or "none"
                typer.echo("; ".join(filter(None, [f"  {title}: {value}", loads(row["spec"]).get("note")])))
    for model, own in rows[rows["metric"].eq(TRAINED)].groupby("model", sort=False):
        lowest, median, highest = map(format_number, (own["value"].min(), own["value"].median(), own["value"].max()))
        typer.echo(f"{model!s}, trained: mean norms of its layers {lowest} to {highest}, median {median}")
