"""Cells as a test wants them: statistics as named arrays, and a cell of any key and manifest. Small ones only."""

from isoscope.runs.run import Run
from isoscope.runs.tensors import pack_statistics
from isoscope.runs.writing import write_cell


def pack(sites, *, sample=True):
    """The arrays of all sites by name."""
    return dict(pack_statistics(sites, sample=sample))


def write_made_cell(run, key, manifest, rows, series, arrays, *, replace=False):
    """Write a cell into a run, or into the folder of one, under a key that need not be the hash of its identity."""
    run = run if isinstance(run, Run) else Run(run)
    return write_cell(run.path / "cells" / key, {"key": key, **manifest}, rows, series, arrays, replace=replace)
