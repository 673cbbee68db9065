"""Results as plain tables and plain JSON, without paths, dates, versions, hashes and keys of cells."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd

from tests.golden.names import DROPPED, IDENTITY, SPECIFICATION
from tests.golden.renames import rename_column, rename_value

PER_MODEL = ("modality", "family")
"""Columns that say the same in every row of a model."""


def pick(frame: pd.DataFrame, **wanted: Any) -> pd.DataFrame:
    """The rows whose columns hold one of these values; a list is any of them. Names are those of the measurements."""
    chosen = pd.Series(True, frame.index)
    for column, values in wanted.items():
        names = [rename_value(column, value) for value in (values if isinstance(values, list) else [values])]
        chosen &= frame[rename_column(column)].isin(names)
    return frame[chosen]


def plain_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a run; what the specification says about a row in words becomes two columns."""
    specs = read_specifications(table)
    words = {name: pd.array([spec.get(name, "") for spec in specs], "string") for name in ("note", "verdict")}
    # The command line prints these words as columns of their own, in place of the specification.
    rows = table.assign(**{name: table[name].astype("string").fillna("") if name in table else own for name, own in words.items()})
    return plain_frame(rows)


def plain_frame(records: Any) -> pd.DataFrame:
    """Rows or records of JSON output as a table without hashes, paths and repetitions."""
    dropped = [rename_column(name) for name in (*DROPPED, *PER_MODEL, "interval_about")]
    return drop_empty(pd.DataFrame(records).drop(columns=dropped, errors="ignore"))


def read_specifications(table: pd.DataFrame) -> list[dict[str, Any]]:
    """What is recorded with each row about how it was measured."""
    column = rename_column("spec")
    return [json.loads(text) if isinstance(text, str) else {} for text in table[column]] if column in table else [{}] * len(table)


def drop_empty(frame: pd.DataFrame) -> pd.DataFrame:
    """Without columns that say nothing in any row."""
    empty = [name for name in frame if frame[name].isna().all() or (frame[name].astype("string").fillna("") == "").all()]
    return frame.drop(columns=empty).reset_index(drop=True)


def describe_cells(table: pd.DataFrame) -> dict[str, Any]:
    """Once per model: what it is and how it was measured; once per metric: what its intervals are about."""
    cells, interval = {}, rename_column("interval_about")
    for model, own in table.groupby(rename_column("model"), sort=True):
        spec = read_specifications(own.iloc[:1])[0]
        told = {name: spec[name] for name in SPECIFICATION if name in spec}
        cells[str(model)] = told | {name: str(own[name].iloc[0]) for name in map(rename_column, PER_MODEL)}
    about = table.dropna(subset=interval).groupby(rename_column("metric"))[interval].unique()
    return {"cells": cells, interval: {str(metric): sorted(map(str, found)) for metric, found in about.items()}}


def plain_series(series: pd.DataFrame) -> pd.DataFrame:
    """Every point of every curve."""
    return plain_frame(series)


def digest_series(series: pd.DataFrame) -> pd.DataFrame:
    """One row per curve: how many points it has, and sums that a changed, missing or moved point would change."""
    columns = [name for name in map(rename_column, IDENTITY) if name in series and name != "x"]
    rows = []
    for key, own in series.groupby(columns, sort=False, dropna=False):
        sums = {f"{name}_{part}": value for name in ("x", "y", "weight") for part, value in digest_numbers(own[name]).items()}
        rows.append(dict(zip(columns, key, strict=True)) | {"points": len(own)} | sums)
    types = {name: series[name].dtype for name in columns}
    return drop_empty(pd.DataFrame(rows).astype(types)) if rows else pd.DataFrame()


def digest_numbers(values: Any) -> dict[str, float]:
    """Sum, sum weighted by position, and sum of sizes, to which the tolerance of the other two is relative."""
    numbers = np.asarray(values, dtype=np.float64)
    present = np.where(np.isfinite(numbers), numbers, 0.0)
    place = np.arange(1, len(present) + 1) / max(len(present), 1)
    return {"total": float(present.sum()), "along": float(present @ place), "size": float(np.abs(present).sum())}


def digest_chart(chart: Any) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The data of a chart, one row per column of each of its tables, and the marks that it is drawn with."""
    spec = chart.to_dict()
    frames = {name: pd.DataFrame(data) for name, data in spec.get("datasets", {}).items()}
    # Altair holds equal tables once, and rounding decides whether two are equal: they are counted where they are used.
    used = [found["name"] for found in find_values(spec, "data") if "name" in found]
    digests = {
        name: [{"column": column, "points": len(data)} | digest_column(data[column]) for column in data] for name, data in frames.items()
    }
    rows = [{"table": i} | row for i, name in enumerate(used) for row in digests[name]]
    marks = [mark["type"] if isinstance(mark, dict) else mark for mark in find_values(spec, "mark")]
    return pd.DataFrame(rows), {"marks": sorted(set(marks)), "tables": len(used)}


def digest_column(values: pd.Series) -> dict[str, Any]:
    """Sums of a column of numbers; the different words of a column of words, unless they are many."""
    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
        return digest_numbers(values) | {"missing": int(values.isna().sum())}
    words = sorted(values.dropna().map(str).unique())
    return {"missing": int(values.isna().sum()), "different": len(words), "words": "" if len(words) > 12 else " | ".join(words)}


def draw_figures(figures: dict[str, Any], table: pd.DataFrame, series: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The data and the marks of every figure that these tables fill."""
    frames, told, series = [], {}, drop_rounding(series)
    for name, figure in figures.items():
        if (chart := figure.draw(table, series)) is not None:
            frame, told[name] = digest_chart(chart)
            frames.append(frame.assign(figure=name))
    return pd.concat(frames, ignore_index=True), told


def drop_rounding(series: pd.DataFrame) -> pd.DataFrame:
    """Without eigenvalues of directions that a layer norm empties: they are rounding errors, and only positive ones are drawn."""
    own = series[rename_column("name")] == rename_value("name", "spectrum")
    return series[~(own & (series["y"] < 1e-10 * series["y"].max()))]


def plain_claims(rows: list[dict[str, Any]]) -> dict[str, pd.DataFrame]:
    """Verdicts, one row per claim, and what they were found on, one row per model."""
    verdicts = pd.DataFrame([{name: value for name, value in row.items() if name != "findings"} for row in rows])
    findings = pd.DataFrame([{"claim": row["name"]} | finding for row in rows for finding in row["findings"]])
    return {"verdicts": verdicts.astype("string"), "findings": findings.astype("string")}


def average_heads(table: pd.DataFrame) -> pd.DataFrame:
    """One row per layer: the means over its heads, so that many models stay small."""
    keys = [rename_column(name) for name in ("model", "step", "seed", "stack", "kind", "layer", "metric")]
    numbers = table[["value", "low", "high", "null", "n"]].astype("Float64").astype(float)
    averaged = numbers.groupby([table[key] for key in keys], sort=False, dropna=False).mean()
    return drop_empty(averaged.reset_index())


def find_values(spec: Any, field: str) -> list[Any]:
    """All values of a field of a chart specification, wherever it is, in order."""
    if isinstance(spec, list):
        return [found for part in spec for found in find_values(part, field)]
    if not isinstance(spec, dict):
        return []
    own = [spec[field]] if spec.get(field) else []
    return own + [found for name, part in spec.items() if name not in ("datasets", field) for found in find_values(part, field)]


class Headings(HTMLParser):
    """Reads the headings of a page and the names of its sections."""

    def __init__(self) -> None:
        super().__init__()
        self.sections: list[str] = []
        self.headings: list[str] = []
        self._level = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._level = tag if tag in ("h1", "h2", "h3") else self._level
        if tag == "section" and (name := dict(attrs).get("id")):
            self.sections.append(name)

    def handle_endtag(self, tag: str) -> None:
        self._level = "" if tag == self._level else self._level

    def handle_data(self, data: str) -> None:
        if self._level and data.strip():
            self.headings.append(f"{self._level} {data.strip()}")


def list_sections(page: str) -> dict[str, list[str]]:
    """The sections of a page and its headings, in order."""
    parser = Headings()
    parser.feed(page)
    return {"sections": parser.sections, "title": parser.headings}
