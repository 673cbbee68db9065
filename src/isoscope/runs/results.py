"""A finished run as tables. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from isoscope import __version__
from isoscope.core.errors import IsoscopeError, missing_extras_as_user_errors, nearest
from isoscope.core.model_groups import select_first_seed, select_one_checkpoint
from isoscope.core.progress import Progress
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, concat_tables, make_table
from isoscope.estimation.drift_test import OUTCOME, PREDICTORS, associations
from isoscope.estimation.metric import split_over_d
from isoscope.estimation.profile import Profile
from isoscope.estimation.site_clouds import Clouds
from isoscope.metrics import curves, metrics, profiles, registry
from isoscope.runs.result_views import divide_by_d, summary_html, summary_text, widen, without_settings
from isoscope.runs.rows import default_metrics, is_block, tables
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import Cell, key_of
from isoscope.runs.tables import arrow_table, join_frames
from isoscope.statistics.any_statistics import Statistics

if TYPE_CHECKING:
    from isoscope.charts.metric_plot import MetricPlot

EVERY = "every"
"""The policy that stands for all policies of a run."""
CACHE = "requested"
"""The folder within a run where tables that were computed on request are kept. It is a run of its own, which no table reads."""

Tables = tuple[pd.DataFrame, pd.DataFrame]
"""Rows and series."""


class Results:
    """A run, open for reading: `table()`, `series()`, `manifests()`. It shows its models, layers, data and metrics."""

    def __init__(self, path: str | Path) -> None:
        self.run = Run.existing(path)
        self.path = self.run.path

    def __repr__(self) -> str:
        return summary_text(str(self.path), self.run.cells())

    def _repr_html_(self) -> str:
        return summary_html(str(self.path), self.run.cells())

    def table(self, metric: str | list[str] | None = None, policy: str = "all") -> pd.DataFrame:
        """One row per number, over all tokens. A metric that is not among the rows is computed from the stored statistics.

        Args:
            metric: one metric or several; by default all of them, except those that take seconds (`on_request`).
            policy: which tokens count: `all`, `no-special`, `body` or a part that was split off; `every` gives the rows of all policies.
        """
        cells = self.run.cells()
        if metric is None:
            frame = join_frames([part for cell in cells for part in _rows_with(cell, default_metrics())], TABLE_COLUMNS)
            return _select_policy(frame, policy)
        wanted = [metric] if isinstance(metric, str) else metric
        known = [entry.name for entry in [*metrics(), *profiles()]]
        of_experiments = {str(name) for cell in cells if cell.is_experiment for name in cell.rows()["metric"].unique()}
        _check_names("metric", wanted, known, of_experiments, "see `isoscope list metrics`")
        computed = [name for name in wanted if name in known]
        frame = join_frames([part for cell in cells for part in _rows_with(cell, computed, strict=True)], TABLE_COLUMNS)
        return _select_policy(frame[frame["metric"].isin(wanted)], policy)

    def to_frame(self, metric: str | list[str] | None = None, policy: str = "all", *, wide: bool = False) -> pd.DataFrame:
        """The table without the settings of the run, as `isoscope table` writes it; `wide` gives layers as rows and metrics as columns."""
        rows = self.table(metric, policy)
        return widen(rows) if wide else without_settings(rows)

    def plot(
        self,
        metric: str,
        out: str | Path | None = None,
        *,
        policy: str = "all",
        width: str | float = "3.25in",
        height: str | float | None = None,
        title: str = "",
    ) -> MetricPlot:
        """One metric over the layers, with its interval and its null, at the size of a figure in a paper.

        Args:
            metric: its name; `effective_rank/d` divides it by the dimension.
            out: a file to write, .svg, .pdf or .png.
            policy: which tokens count.
            width: of the whole figure: inches, or a text such as "86mm".
            height: of the panel.
            title: above the panel.
        """
        with missing_extras_as_user_errors("run.plot"):
            from isoscope.charts.metric_plot import plot_metric

            name, over_d = split_over_d(metric)
            names = [name] + [f"{name}_norm_null"] * (f"{name}_norm_null" in registry)
            table, _ = select_one_checkpoint(self.table(names, policy), make_table([], SERIES_COLUMNS))
            label = registry[name].title if name in registry else name
            if over_d:
                table, label = divide_by_d(table), f"{label} / d"
            plot = plot_metric(table, name, label=label, width=width, height=height, title=title)
        if out is not None:
            plot.save(out)
        return plot

    def series(self, name: str | list[str] | None = None) -> pd.DataFrame:
        """Spectra, histograms, shares of dimensions: everything that is not one number. Series on request only if they are named."""
        cells = self.run.cells()
        if name is None:
            return join_frames([cell.arrow_series() for cell in cells], SERIES_COLUMNS)
        wanted = [name] if isinstance(name, str) else name
        known = [entry.name for entry in curves()]
        of_experiments = {str(name) for cell in cells if cell.is_experiment for name in cell.series()["name"].unique()}
        _check_names("series", wanted, known, of_experiments, f"there are {', '.join(known)}")
        parts = []
        for cell in cells:
            stored = cell.series()
            parts.append(stored[stored["name"].isin(wanted)])
            if missing := _find_missing(cell, [name for name in wanted if name in known], set(stored["name"]), strict=True):
                parts.append(compute_tables(cell, cell.statistics(), missing)[1])
        return concat_tables(parts, SERIES_COLUMNS)

    def cached_tables(self, names: list[str], progress: Progress) -> Tables:
        """Rows and series of metrics and series that take seconds, for one checkpoint per model. The run remembers what was computed."""
        cells = [cell for cell in self._main_cells() if cell.has_statistics] if names else []
        parts = [_read_or_compute(cell, names, self.run.within(CACHE), progress) for cell in cells]
        return concat_tables([rows for rows, _ in parts], TABLE_COLUMNS), concat_tables([series for _, series in parts], SERIES_COLUMNS)

    def _main_cells(self) -> list[Cell]:
        """The measured cells; of each training only the last step of its first seed, the checkpoint that figures show."""
        cells = [cell for cell in self.run.cells() if not cell.is_experiment]
        columns = [cell.manifest["columns"] for cell in cells]
        places = pd.DataFrame({name: [own.get(name) for own in columns] for name in ("model", "step", "seed")})
        places = places.astype({"model": "string", "step": "Int64", "seed": "Int64"})
        of_training = select_first_seed(places[places["step"].notna()])
        last = of_training[of_training["step"].eq(of_training.groupby("model")["step"].transform("max"))]
        return [cell for i, cell in enumerate(cells) if columns[i].get("step") is None or i in last.index]

    def associations(self, policy: str = "all") -> pd.DataFrame:
        """Whether drift and cosine rise and fall together over each model's layers: as published, by a valid test, and pooled by group."""
        return associations(self.table([OUTCOME, *PREDICTORS], policy))

    def statistics(self, model: str | None = None, step: int | None = None, seed: int | None = None) -> Statistics:
        """The stored statistics of one model by site. `model`, and `step` and `seed` of a suite, may be left out if there is only one."""
        cells = self._find_cells(model, {"step": step, "seed": seed})
        if len(cells) > 1:
            name = cells[0].manifest["columns"]["model"]
            raise IsoscopeError(f"The run holds {len(cells)} checkpoints of {name}; name the step and the seed of one.")
        if not cells[0].has_statistics:
            raise IsoscopeError("The run kept only rows; measure again with --store sums or all.")
        return cells[0].statistics()

    def _find_cells(self, model: str | None, place: dict[str, int | None]) -> list[Cell]:
        """The measured cells of a model at a step and seed, at least one."""
        measured = [(cell, cell.manifest["columns"]) for cell in self.run.cells() if not cell.is_experiment]
        names = list(dict.fromkeys(str(columns["model"]) for _, columns in measured))
        if model is None and len(names) > 1:
            raise IsoscopeError(f"The run holds several models; name one of {', '.join(names)}.")
        if model is not None and model not in names:
            raise IsoscopeError(f"The run does not hold {model!r}{nearest(model, names) or '; it holds ' + ', '.join(names) + '.'}")
        wanted = {name: value for name, value in (place | {"model": model}).items() if value is not None}
        cells = [cell for cell, columns in measured if all(columns.get(name) == value for name, value in wanted.items())]
        if not cells:
            raise IsoscopeError(f"The run does not hold {' and '.join(f'{name} {value}' for name, value in wanted.items())}.")
        return cells

    def manifests(self) -> list[dict[str, Any]]:
        """How each cell was made."""
        return [cell.manifest for cell in self.run.cells()]


def open(path: str | Path) -> Results:
    """Open a run."""
    return Results(path)


def _check_names(kind: str, wanted: list[str], known: list[str], of_experiments: set[str], hint: str) -> None:
    """Refuse the first name that no metric or series has, and no experiment in the run."""
    for name in wanted:
        if name not in known and name not in of_experiments:
            raise IsoscopeError(f"There is no {kind} called {name!r}{nearest(name, known) or f'; {hint}.'}")


def _select_policy(frame: pd.DataFrame, policy: str) -> pd.DataFrame:
    """The rows of one policy, or all of them."""
    if policy != EVERY:
        policies = sorted(frame["policy"].unique())
        if policies and policy not in policies:
            there = f"{', '.join(policies)} and {EVERY}{nearest(policy, policies) or '.'}"
            raise IsoscopeError(f"The policy {policy!r} is not in this run; it has {there}")
        frame = frame[frame["policy"] == policy]
    return frame.reset_index(drop=True)


def _rows_with(cell: Cell, names: list[str], *, strict: bool = False) -> list[pa.Table]:
    """The rows of a cell, and those of metrics of these names that are computed now."""
    rows = cell.arrow_rows()
    missing = _find_missing(cell, names, set(rows["metric"].unique().to_pylist()), strict=strict)
    more = compute_tables(cell, cell.statistics(), missing)[0] if missing else None
    # Thousands of cells become one frame much faster as Arrow tables, so only what is computed here was ever a frame.
    return [rows] if more is None or more.empty else [rows, arrow_table(more, TABLE_COLUMNS)]


def _find_missing(cell: Cell, names: list[str], stored: set[str], *, strict: bool) -> list[str]:
    """The names that a cell does not hold and that its statistics may give. If it has no statistics, `strict` makes that an error."""
    missing = [name for name in names if name not in stored]
    if not missing or cell.is_experiment:
        return []
    if cell.has_statistics:
        # A metric that was tried when the cell was written, and gave no row, gives none now.
        return [name for name in missing if name not in cell.manifest.get("tried", [])]
    if strict:
        model = cell.manifest["columns"]["model"]
        raise IsoscopeError(f"{missing[0]} was not computed for {model}, and the run kept only rows; measure again with --store all.")
    return []


def compute_tables(cell: Cell, sites: Statistics, names: list[str], step: Callable[[], None] = lambda: None) -> Tables:
    """Rows and series of these names from a cell's statistics, in one go; `step` is called after each site."""
    manifest = cell.manifest
    of_series = [name for name in names if name in {curve.name for curve in curves()}]
    wanted = of_series + computable_metrics([name for name in names if name not in of_series], sites)
    layers = manifest["identity"].get("layers", "all")
    return tables(sites if wanted else {}, manifest["columns"], manifest["spec"], names=wanted, layers=layers, progress=step)


def computable_metrics(names: list[str], sites: Statistics) -> list[str]:
    """The metrics of these names for which some site kept enough; a profile needs the site of a block."""
    clouds = Clouds(sites)
    computable: set[str] = set()
    # A metric counts as computable as soon as one site kept enough for it; sites without it get no row.
    for site in sites:
        unsure = [name for name in names if name not in computable and (is_block(site) or not isinstance(registry[name], Profile))]
        for _, cloud in clouds.of(site, "all") if unsure else ():
            computable |= {name for name in unsure if registry[name].available(cloud)}
    return [name for name in names if name in computable]


def _read_or_compute(cell: Cell, names: list[str], cache: Run, progress: Progress) -> Tables:
    """Rows and series of these names: from the cell, from the cache, or computed and written to the cache."""
    rows, series, manifest = cell.rows(), cell.series(), cell.manifest
    missing = sorted(_find_missing(cell, names, {*rows["metric"], *series["name"]}, strict=False))
    rows, series = rows[rows["metric"].isin(names)], series[series["name"].isin(names)]
    if not missing:
        return rows, series
    # The time at which the cell was made is part of the identity: a cell that was replaced has the same key and may have other numbers.
    # The version is part of it too: another isoscope may compute a metric differently.
    identity = {"requested": missing, "cell": manifest["key"], "made": manifest.get("created"), "isoscope": __version__}
    cached = cache.cell(key_of(identity))
    if cached is not None:
        more = cached.rows(), cached.series()
    else:
        model, sites = manifest["columns"]["model"], cell.statistics()
        progress.note(f"{model}: {', '.join(missing)} on request")
        with progress.bar(f"{model}: on request", len(sites), "sites") as bar:
            more = compute_tables(cell, sites, missing, bar.advance)
        try:
            cache.write_cell(identity, manifest["columns"], {}, *more)
        except IsoscopeError:  # a run that cannot be written to can still be read
            progress.note(f"Cannot write to {cache.path}: the next call computes this again.")
    return concat_tables([rows, more[0]], TABLE_COLUMNS), concat_tables([series, more[1]], SERIES_COLUMNS)
