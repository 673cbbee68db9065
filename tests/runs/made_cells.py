"""Small cells as a measurement writes them, without a model."""

import numpy as np
import pandas as pd

from isoscope.core.site import Site
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.runs.rows import tables
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import key_of
from tests.measuring.made_runs import corpus, site

IDENTITY = {"experiment": "made", "model": "net", "shard": [0, 1]}
COLUMNS = {"model": "net", "revision": "r", "step": None, "seed": None, "modality": "text", "family": "encoder"}
KEY = key_of(IDENTITY)


def numbers(version: int, count: int = 3) -> pd.DataFrame:
    """Rows that say which version of a cell they are of, as many as the version tells."""
    where = {"stack": "encoder", "kind": "hidden", "policy": "all", "metric": "mean_norm"}
    return make_table([COLUMNS | where | {"layer": i, "value": float(version), "d": 4} for i in range(count + version)], TABLE_COLUMNS)


def write_version(run: Run, version: int, *, replace: bool = True) -> None:
    """Write one cell, whose rows, series and statistics all say which version they are of."""
    point = {name: COLUMNS[name] for name in ("model", "revision", "step", "seed", "modality", "family")}
    curve = point | {"stack": "encoder", "kind": "hidden", "layer": 0, "policy": "all", "name": "spectrum"}
    series = make_table([curve | {"x": float(i), "y": float(version), "weight": 1.0} for i in range(2 + version)], SERIES_COLUMNS)
    sites = {Site("encoder", "hidden", 0): site(np.full((2, 3, 4), float(version)), np.ones((2, 3), bool))}
    run.write_cell(IDENTITY, COLUMNS, {"version": version}, numbers(version), series, sites, keep="all", replace=replace)


def write_measured(path, model: str, seed: int) -> Run:
    """A run of one model that kept everything."""
    x, mask = corpus(np.random.default_rng(seed), 40)
    sites = {Site("encoder", "hidden", layer): site(x * (1 + layer), mask) for layer in range(2)}
    spec = {"data": "made", "fingerprint": "f", "documents": len(mask), "tokens": int(mask.sum()), "seq_len": 12, "dtype": "float64"}
    columns, identity = COLUMNS | {"model": model}, {"model": model, "fingerprint": "f", "shard": [0, 1]}
    Run(path).write_cell(identity, columns, spec, *tables(sites, columns, spec), sites, keep="all")
    return Run(path)
