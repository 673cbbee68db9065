"""Where the measurements meet isoscope: what they import from it and from the other tests, and what they know about its tables.

A restructuring that moves something edits this file; one that only renames columns, words or options edits `renames.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import pandas as pd

import isoscope
from tests.golden import renames

DROPPED = (
    *("revision", "spec", "cell", "path", "run", "written", "page", "created", "key", "weights", "source", "isoscope", "merged"),
    *("identity", "files", "tried", "seal", "seconds", "memory", "format"),
)
"""Columns and fields that hold hashes, paths, dates, versions or costs."""

SENTENCES = (
    "said",
    "note",
    "sentences",
    "methods",
    "statement",
    "refuted_by",
    "reason",
    "shows",
    "title",
    "meaning",
    "says",
    "trains",
    "command",
    "planned",
)
"""Columns and fields that hold prose: `python -m tests.golden.store --sentences` stores them again and leaves the numbers."""

IDENTITY = (
    *("model", "step", "seed", "stack", "kind", "layer", "head", "policy", "metric", "name", "x"),
    *("group", "predictor", "model_a", "model_b", "table", "dataset", "column", "figure", "convention", "claim", "on"),
)
"""Columns that say which row it is; the others are compared."""

SPECIFICATION = (
    "architecture",
    "counted",
    "documents",
    "tokens",
    "dtype",
    "seq_len",
    "sample",
    "shard",
    "slices",
    "special_tokens",
    "unit",
)
"""What the specification of a row says about how it was measured, without paths, versions and hashes."""


def open_table(run: Any, metric: list[str] | None = None, policy: str = "all") -> pd.DataFrame:
    """The rows of a run, which is an open one or the path of one."""
    results = run if hasattr(run, "table") else isoscope.open(run)
    wanted = None if metric is None else [renames.rename_metric(name) for name in metric]
    return results.table(wanted, policy=str(renames.rename_value("policy", policy)))


def measure_matrix(matrix: Any, metric: list[str] | None = None) -> dict[str, Any]:
    """Metrics of a matrix or of a file that holds one."""
    return isoscope.geometry(matrix, metric=None if metric is None else [renames.rename_metric(name) for name in metric])


def open_series(run: Any, series: list[str] | None = None) -> pd.DataFrame:
    """The curves of a run, which is an open one or the path of one."""
    results = run if hasattr(run, "series") else isoscope.open(run)
    return results.series(None if series is None else [renames.rename_metric(name) for name in series])


def import_main() -> Any:
    """The function behind the command `isoscope`."""
    from isoscope.cli import main

    return main


def list_figures() -> dict[str, Any]:
    """Every figure by its name; `draw(table, series)` gives a chart or None."""
    from isoscope.figures import figures

    return {figure.name: figure for figure in figures}


def pick_figures(wanted: list[str]) -> dict[str, Any]:
    """These figures by their names."""
    return {name: list_figures()[name] for name in (str(renames.rename_value("figure", name)) for name in wanted)}


def list_metrics() -> list[str]:
    """Every metric, profile and series by its name."""
    from isoscope.metrics import registry

    return registry.names()


def list_series() -> list[str]:
    """Every series by its name."""
    from isoscope.metrics import curves

    return [curve.name for curve in curves()]


def list_kinds() -> tuple[str, ...]:
    """Every kind of place in a model that is measured."""
    from isoscope.core.site import KINDS

    return KINDS


@functools.cache
def list_commands() -> dict[str, list[str]]:
    """Every verb with the long names of its options."""
    import typer

    from isoscope.cli.app import app

    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return {
        verb: sorted(max(option.opts, key=len) for option in command.params if option.opts[0].startswith("-"))
        for verb, command in commands.items()
    }


def build_model(title: str, folder: Path, **config: Any) -> None:
    """Save a small model of the architecture that `isoscope list families` calls `title`, with its tokenizer."""
    from tests.models.zoo import ZOO, build

    small = next(small for small in ZOO if small.title == title)
    build(dataclasses.replace(small, config=small.config | config), folder)


def list_architectures() -> list[tuple[str, str]]:
    """Title and family of every architecture that a small model can be made of."""
    from tests.models.zoo import ZOO

    return [(small.title, small.family) for small in ZOO]
