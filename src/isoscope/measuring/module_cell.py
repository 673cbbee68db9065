"""The measurement of a `torch.nn.Module` over batches that the user makes: the same pass as that of a model by name, another feeder."""

from __future__ import annotations

import gc
import time
from typing import Any

from isoscope.core.progress import Progress
from isoscope.measuring.cell import Reduced, finish_cell, reduce_batches
from isoscope.measuring.module_batches import Feed, check_module
from isoscope.measuring.module_feeder import ModuleFeeder, evaluating
from isoscope.measuring.options import Options
from isoscope.measuring.single_pass import Pass
from isoscope.runs.run import Run


def measure_module(
    module: Any, batches: Any, run: Run, options: Options, progress: Progress, *, feed: Feed | None, blocks: str | None, name: str | None
) -> None:
    """Measure a module over batches. Its identity depends on the batches, so nothing is known before they have been read.

    A cell of the same weights, batches and name is replaced: the code of the module and `feed` may differ, and cannot be compared.
    """
    check_module(module, batches)
    feeder = ModuleFeeder(module, name, options, feed, blocks, batches)
    single_pass = Pass(feeder, options)
    started = time.monotonic()
    with evaluating(module):
        reduce_batches(single_pass, progress)
    statistics, weights = single_pass.finish(), feeder.weights_digest()
    spec = feeder.spec(weights) | single_pass.marks()
    reduced = Reduced(statistics, feeder.columns(weights[:12]), spec, time.monotonic() - started)
    run.prepare()
    finish_cell(run, feeder.identity(weights), reduced, options, progress, replace=True)
    del feeder, single_pass
    gc.collect()  # a module and its hooks hold each other
