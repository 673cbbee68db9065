"""The tables of several runs, read together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def read_runs(runs: Sequence[str], on_request: Sequence[str] = ()) -> tuple[pd.DataFrame, pd.DataFrame, list[dict[str, Any]]]:
    """The table, the series and the manifests of runs, with these metrics and series computed on request."""
    from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, concat_tables
    from isoscope.metrics import curves
    from isoscope.runs.results import Results

    opened = [Results(run) for run in runs]
    known_series = {entry.name for entry in curves()}
    metrics = [name for name in on_request if name not in known_series]
    lines = [name for name in on_request if name in known_series]
    rows = [results.table(policy="every") for results in opened] + [results.table(metrics, "every") for results in opened if metrics]
    points = [results.series() for results in opened] + [results.series(lines) for results in opened if lines]
    # A number that the run holds and that was also computed on request is there twice.
    table = concat_tables(rows, TABLE_COLUMNS).drop_duplicates(ignore_index=True)
    series = concat_tables(points, SERIES_COLUMNS).drop_duplicates(ignore_index=True)
    return table, series, [manifest for results in opened for manifest in results.manifests()]
