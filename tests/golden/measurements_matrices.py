"""Matrices, repairs, modules in float64 and chance: nothing here needs a model, and most of it is exact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import isoscope
from tests.golden import inputs, names
from tests.golden.outcome import EXACT, Outcome, golden
from tests.golden.tables import describe_cells, digest_numbers, plain_frame, plain_rows, plain_series
from tests.golden.workshop import Workshop

CONVENTIONS = ["ethayarajh2019", "godey2024", "razzhigaev2024", "rankme", "isoscope"]


def measure_all(shop: Workshop, matrix: Any) -> dict[str, Any]:
    """Every metric that a matrix has, also those that are computed on request."""
    slow = [row["name"] for row in shop.json("list", "metrics") if row["computed"] == "on request"]
    return names.measure_matrix(matrix) | names.measure_matrix(matrix, slow)


def tabulate_numbers(numbers: dict[str, Any]) -> pd.DataFrame:
    """Numbers of a matrix as a table, from Python or from JSON."""
    plain = {name: dict(number if isinstance(number, dict) else number.as_dict()) for name, number in numbers.items()}
    return plain_frame([{"metric": name} | fields for name, fields in plain.items()])


@golden("matrices", EXACT)
def matrix_isotropic(shop: Workshop) -> Outcome:
    """Every metric that a matrix has, from Python."""
    matrix = inputs.isotropic_matrix()
    found = measure_all(shop, matrix)
    single = isoscope.metrics.mean_cosine(matrix)
    return Outcome({"numbers": tabulate_numbers(found)}, {"single": single.as_dict()})


@golden("matrices", EXACT)
def matrix_drifting(shop: Workshop) -> Outcome:
    """A file of several arrays on the command line, and the same numbers under each convention."""
    path = shop.at("drifting.npz")
    np.savez(path, wanted=inputs.drifting_matrix(), other=np.zeros((3, 2)))
    numbers = shop.json("embeddings", path, key="wanted", seed=1, sample=200, quiet=True)["numbers"]
    repaired = shop.json("embeddings", path, key="wanted", repair="Centre()", sample=200)["Centre()"]
    chosen = shop.json("embeddings", path, key="wanted", metric=["mean_cosine", "gride"])
    conventions = shop.json("conventions", path, key="wanted", sample=200)
    few = shop.json("conventions", path, key="wanted", convention=CONVENTIONS[:2])
    told = {name: shop.json("embeddings", path, key="wanted", convention=name, sample=200) for name in CONVENTIONS}
    frames = {"numbers": tabulate_numbers(numbers), "chosen": tabulate_numbers(chosen), "conventions": plain_frame(conventions)}
    told_frame = plain_frame([{"convention": name, "metric": metric} | x for name, own in told.items() for metric, x in own.items()])
    frames |= {"told": told_frame, "few": plain_frame(few), "repaired": tabulate_numbers(repaired["numbers"])}
    return Outcome(frames, {"repaired": repaired["diagnosis"]["headline"]})


@golden("matrices", EXACT)
def matrix_folded(shop: Workshop) -> Outcome:
    """Few dimensions and points that lie twice, in a file of tensors."""
    from safetensors.numpy import save_file

    path = shop.at("folded.safetensors")
    save_file({"weight": inputs.folded_matrix()}, path)
    return Outcome({"numbers": tabulate_numbers(measure_all(shop, path))})


@golden("matrices", EXACT)
def matrix_wide(shop: Workshop) -> Outcome:
    """More columns than rows, from a column of a table."""
    path = shop.at("wide.parquet")
    pd.DataFrame({"vector": list(inputs.drifting_matrix()[:9])}).to_parquet(path)
    numbers = shop.json("embeddings", path, key="vector", allow_wide=True)["numbers"]
    conventions = shop.json("conventions", path, key="vector", allow_wide=True)
    return Outcome({"numbers": tabulate_numbers(numbers), "conventions": plain_frame(conventions)})


@golden("matrices", EXACT)
def repairs(shop: Workshop) -> Outcome:
    """Every repair of a matrix, saved and loaded again, and one of a layer of a run."""
    from isoscope import repair

    matrix, run = inputs.drifting_matrix(), shop.share(make_module_run)
    layer = {"layer": 2, "stack": "backbone", "policy": "all"}
    made = {
        "centre": repair.Centre().fit(matrix),
        "standardise": repair.Standardise().fit(matrix),
        "all_but_the_top": repair.AllButTheTop(2).fit(matrix),
        "whiten_pca": repair.Whiten("pca", n_components=4).fit(matrix),
        "whiten_zca": repair.Whiten("zca", ridge=0.1).fit(matrix),
        "centre_clusters": repair.CentreClusters(3, directions=1).fit(matrix),
        "of_a_run": repair.Standardise.from_run(isoscope.open(run), **layer),
    }
    rows = []
    for name, fitted in made.items():
        fitted.save(shop.at(f"{name}.safetensors"))
        after = repair.load(shop.at(f"{name}.safetensors")).transform(matrix)
        few = names.measure_matrix(after, ["mean_norm", "top_share", "participation_ratio", "mean_cosine"])
        # The signs of principal directions are arbitrary.
        rows.append({"name": name} | digest_numbers(np.abs(after).ravel()) | {metric: float(x) for metric, x in few.items()})
    return Outcome({"numbers": pd.DataFrame(rows)})


@golden("matrices")
def baseline(shop: Workshop) -> Outcome:
    """The isotropic levels in closed form and by simulation."""
    told = shop.json(
        "baseline", d=["8,16", "32"], n=500, head_d=8, heads=6, two_nn=True, monte_carlo=100, seed=1, quiet=True, out=shop.at("levels")
    )
    return Outcome(words=told | {"files": sorted(path.name for path in shop.at("levels").iterdir())})


def make_module_run(shop: Workshop) -> Path:
    """A module in float64 with everything that can be kept of it."""
    batches = inputs.tensors("sequence", 4, 6, 9, 12)
    options = shop.options(
        "measure",
        taps="hidden,attention",
        query_rows=5,
        median=True,
        sharpness=True,
        cosine_sd=True,
        sample=64,
        gram="all",
        seed=3,
        keep="all",
    )
    isoscope.measure(inputs.encoder_module(), batches, shop.at("module"), name="module", blocks="layers.*", quiet=True, **options)
    return shop.at("module")


@golden("matrices", EXACT)
def module(shop: Workshop) -> Outcome:
    """A module of torch in float64: hidden states, queries, keys and attention."""
    run = isoscope.open(shop.share(make_module_run))
    table, series = names.open_table(run, policy="every"), names.open_series(run)
    associations = plain_frame(run.associations())
    return Outcome({"rows": plain_rows(table), "series": plain_series(series), "associations": associations}, describe_cells(table))


@golden("matrices", EXACT)
def module_maps(shop: Workshop) -> Outcome:
    """A convolutional module in float64: each position of a map is a vector, and each map."""
    batches = inputs.tensors("map", 3, 5, 3, 4, 4)
    options = shop.options("measure", maps="both", sample=32)
    run = isoscope.measure(
        inputs.map_module(), batches, shop.at("maps"), name="maps", blocks="1.*", channels="first", quiet=True, **options
    )
    table = names.open_table(run, policy="every")
    return Outcome({"rows": plain_rows(table), "series": plain_series(names.open_series(run))}, describe_cells(table))
