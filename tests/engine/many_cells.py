"""A sweep of thousands of checkpoints whose cells are made up: all of it is real but the measuring."""

import json
import os
from concurrent.futures import Future

import numpy as np
from safetensors.numpy import save_file

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, tidy
from isoscope.engine.course import Course
from isoscope.engine.executor import Engine
from isoscope.engine.measure import Given, cell_identity
from isoscope.engine.options import options_from
from isoscope.engine.progress import Progress
from isoscope.models.suite import open_suites
from isoscope.store import cell as store
from isoscope.store.cell import manifest_of
from isoscope.store.run import Run

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
OPTIONS = {"keep": "rows", "sample": 0, "layers": "1", "taps": ("hidden",)}


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

    def submit(self, task):
        columns = {"model": task.reference.name, "revision": task.reference.revision, "step": task.reference.step}
        columns |= {"seed": task.reference.seed, "modality": "text", "family": "decoder"}
        spec = {"data": "made", "fingerprint": "f", "documents": 8, "tokens": 64, "seq_len": 8, "dtype": "float32", "counted": "tokens"}
        spec |= {"cell": task.key}
        value = (hash((task.reference.step, task.reference.seed)) % 1000) / 1000
        where = columns | {"stack": "decoder", "kind": "hidden", "policy": "all", "n": 64, "d": 8, "spec": json.dumps(spec)}
        rows = [where | {"metric": name, "layer": layer, "value": value + layer} for name in METRICS for layer in (0, 1)]
        series = [{**where, "layer": 1, "name": "spectrum", "x": float(x), "y": value / x, "weight": 1.0} for x in (1, 2, 3)]
        series = [{name: one[name] for name in SERIES_COLUMNS if name in one} for one in series]
        source = Given(list(task.data), task.column, list(task.models)).for_model(task.reference, task.options)
        identity = cell_identity(task.reference, source, task.options)
        manifest = manifest_of(identity, columns, spec, "rows", tried=[], seconds=1.0, memory=1 << 30)
        Run(task.run).write(task.key, manifest, tidy(rows, TABLE_COLUMNS), tidy(series, SERIES_COLUMNS), None)
        future = Future()
        future.set_result([])
        return future


class Invented(Engine):
    """Who measures: nobody."""

    def open(self, *_):
        return Inventor()


def sweep(root, data, out, engine=None):
    """The course of `isoscope sweep` through all checkpoints; how many it measured or found measured."""
    suites = open_suites([str(root)])
    given = Given([str(data)], None, [suite.name for suite in suites])
    course = Course(Run(out), options_from(OPTIONS), given, delete=False, progress=Progress(quiet=True), engine=engine or Invented())
    course.go(suites)
    return course, suites


def without_flushing(monkeypatch):
    """Whether made-up cells survive a power cut is not asked; flushing them would take most of the time."""
    monkeypatch.setattr(store, "flush", lambda path: None)
