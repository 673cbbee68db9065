"""A sweep of thousands of checkpoints whose cells are made up: all of it is real but the measuring."""

import json
import os
from concurrent.futures import Future

import numpy as np
from safetensors.numpy import save_file

from isoscope.core.progress import Progress
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.measuring.options import options_from
from isoscope.measuring.scheduler import Engine
from isoscope.measuring.sweep import Sweep
from isoscope.measuring.task import Sources
from isoscope.models.naming.suite import open_suites
from isoscope.runs import writing as store
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import manifest_of
from tests.runs.packing import write_made_cell

CONFIG = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "n_embd": 8,
    "n_layer": 1,
    "n_head": 1,
    "n_positions": 16,
    "vocab_size": 16,
}
SEEDS = 100
METRICS = ("mean_cosine", "mean_norm", "drift_norm", "top_share")
OPTIONS = {"store": "rows", "sample": 0, "layers": "1", "taps": ("hidden",)}


def checkpoints(root, count):
    """So many checkpoints, in seeds of a training, each with weights of its own."""
    shared = root / "config.json"
    root.mkdir(parents=True)
    shared.write_text(json.dumps(CONFIG))
    for i in range(count):
        folder = root / "many" / f"seed-{i % SEEDS}" / f"step-{i // SEEDS}"
        folder.mkdir(parents=True)
        os.link(shared, folder / "config.json")
        save_file({"w": np.full((2, 2), float(i), dtype=np.float32)}, folder / "model.safetensors")
    return root / "many"


class Inventor:
    """An executor that writes a cell of two layers at once, as a worker would that had measured it."""

    count = 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Nothing was started."""

    def __init__(self):
        spec = json.dumps({"data": "made", "fingerprint": "f", "documents": 8, "tokens": 64, "seq_len": 8, "dtype": "float32"})
        where = {"modality": "text", "family": "decoder", "stack": "decoder", "kind": "hidden", "policy": "all"}
        rows = [where | {"metric": name, "layer": layer, "n": 64, "d": 8, "spec": spec} for name in METRICS for layer in (0, 1)]
        series = [where | {"layer": 1, "name": "spectrum", "x": float(x), "y": 1 / x, "weight": 1.0} for x in (1, 2, 3)]
        self.rows, self.series = make_table(rows, TABLE_COLUMNS), make_table(series, SERIES_COLUMNS)

    def submit(self, task):
        columns = {"model": task.reference.name, "revision": task.reference.revision, "step": task.reference.step}
        columns |= {"seed": task.reference.seed}
        value = self.rows["layer"].astype(float) + (task.reference.step * SEEDS + task.reference.seed) % 997 / 997
        spec = {"data": "made", "fingerprint": "f", "documents": 8, "tokens": 64, "cell": task.key}
        about = columns | {"modality": "text", "family": "decoder"}
        manifest = manifest_of(task.identity, about, spec, "rows", tried=[], seconds=1.0, memory=1 << 30)
        write_made_cell(task.run, task.key, manifest, self.rows.assign(**columns, value=value), self.series.assign(**columns), None)
        future = Future()
        future.set_result([])
        return future


class Invented(Engine):
    """An engine that measures nothing."""

    def open(self, count, options, progress):
        return Inventor()


def plan_sweep(root, data, out, engine=None):
    """The sweep of `isoscope sweep`, not begun."""
    suites = open_suites([str(root)])
    sources = Sources((str(data),), None, tuple(suite.name for suite in suites))
    return Sweep(suites, Run(out), options_from(OPTIONS), sources, delete=False, progress=Progress(quiet=True), engine=engine or Invented())


def sweep(root, data, out, engine=None):
    """The sweep of all checkpoints, at its end."""
    planned = plan_sweep(root, data, out, engine)
    planned.measure()
    return planned


def without_flushing(monkeypatch):
    """Whether made-up cells survive a power cut is not asked; flushing them would take most of the time."""
    monkeypatch.setattr(store, "flush", lambda path: None)
