"""What a measurement gives, how measurements are declared, and how their outcomes are stored."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from tests.golden import names, renames
from tests.golden.comparing import compare_tables, compare_words, flatten, is_sentence
from tests.golden.names import DROPPED, SENTENCES
from tests.golden.workshop import Workshop

STORED = Path(__file__).parent / "stored"
FLOAT32, EXACT = 1e-5, 1e-10
"""Relative tolerances: float32 forward passes differ between processors; what is measured in float64 does not."""


@dataclass
class Outcome:
    """Tables by name, and everything else as JSON."""

    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    words: Any = field(default_factory=dict)
    touched: list[str] = field(default_factory=list)
    """Verbs, and options as `verb --option`."""


@dataclass(frozen=True)
class Measurement:
    """A name, what to measure, and how far the numbers may differ from the stored ones."""

    name: str
    function: Callable[[Workshop], Outcome]
    group: str
    tolerance: float

    def carry_out(self, workshop: Workshop) -> Outcome:
        """Measure in a workshop; runs that other measurements made there are used again."""
        workshop.touched, workshop.notes = set(), []
        outcome = self.function(workshop)
        words = flatten(drop_fields(outcome.words)) | {f"sentences.{i}": note for i, note in enumerate(workshop.notes)}
        words = {where: value.replace(f"{workshop.folder}/", "") if isinstance(value, str) else value for where, value in words.items()}
        return Outcome(outcome.tables, words, sorted(workshop.touched))


measurements: dict[str, Measurement] = {}


def golden(group: str, tolerance: float = FLOAT32) -> Callable[[Callable[[Workshop], Outcome]], Callable[[Workshop], Outcome]]:
    """Declare the function below as a measurement of its own name; measurements of a group share runs, and are tested in one file."""

    def declare(function: Callable[[Workshop], Outcome]) -> Callable[[Workshop], Outcome]:
        measurements[function.__name__] = Measurement(function.__name__, function, group, tolerance)
        return function

    return declare


def drop_fields(words: Any) -> Any:
    """JSON without fields that hold paths, dates, versions or hashes."""
    if isinstance(words, list):
        return [drop_fields(part) for part in words]
    return {name: drop_fields(part) for name, part in words.items() if name not in DROPPED} if isinstance(words, dict) else words


def write_outcome(name: str, outcome: Outcome, folder: Path = STORED, *, only_sentences: bool = False) -> None:
    """Store an outcome; with `only_sentences` the numbers stay as they were stored."""
    folder.mkdir(parents=True, exist_ok=True)
    if only_sentences:
        before = read_outcome(name, folder)
        words = {where: value for where, value in before.words.items() if not is_sentence(where)}
        words |= {where: value for where, value in outcome.words.items() if is_sentence(where)}
        tables = {table: replace_prose(frame, outcome.tables[table]) for table, frame in before.tables.items()}
        outcome = Outcome(tables, words, outcome.touched)
    for path in folder.glob(f"{name}.*"):
        path.unlink()
    for table, frame in outcome.tables.items():
        frame.to_parquet(folder / f"{name}.{table}.parquet", compression="zstd", compression_level=19, index=False)
    told = {"touched": outcome.touched, "words": outcome.words}
    (folder / f"{name}.json").write_text(json.dumps(told, indent=0, ensure_ascii=False) + "\n", "utf-8")


def replace_prose(stored: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """A stored table with the prose of a new one, whose rows must be the same."""
    return stored.assign(**{column: new[column].array for column in stored if column in SENTENCES and column in new})


def read_outcome(name: str, folder: Path = STORED) -> Outcome:
    """A stored outcome."""
    told = json.loads((folder / f"{name}.json").read_text("utf-8"))
    tables = {path.name.split(".")[1]: pd.read_parquet(path) for path in sorted(folder.glob(f"{name}.*.parquet"))}
    return Outcome(tables, told["words"], told["touched"])


@functools.cache
def list_new_metrics() -> frozenset[str]:
    """Metrics and series that no stored table has: they were declared since, and there is nothing to compare them with.

    Their tests are those of tests/metrics; the next time that outcomes are stored, they are stored too.
    """
    tables = (table for path in STORED.glob("*.parquet") for table in [pd.read_parquet(path)])
    columns = [(column, table[column]) for table in tables for column in ("metric", "name") if column in table]
    known = {str(renames.rename_value(column, word)) for column, words in columns for word in words.dropna().unique()}
    return frozenset(names.list_metrics()) - known


def compare_outcomes(name: str, stored: Outcome, new: Outcome, tolerance: float) -> list[str]:
    """Every difference between two outcomes, as sentences that name the measurement; metrics that are new are not compared."""
    found = [f"{name}: table {table!r} is gone" for table in stored.tables if table not in new.tables]
    found += [f"{name}: table {table!r} is new" for table in new.tables if table not in stored.tables]
    for table in stored.tables.keys() & new.tables.keys():
        found += compare_tables(f"{name}.{table}", stored.tables[table], new.tables[table], tolerance, list_new_metrics())
    return found + compare_words(name, stored.words, new.words, tolerance, list_new_metrics())


def compare_folders(before: Path, after: Path, tolerance: float) -> list[str]:
    """Every difference between the outcomes that are stored in two folders."""
    old, new = ({path.stem for path in folder.glob("*.json")} for folder in (before, after))
    found = [f"{name}: the measurement is {'gone' if name in old else 'new'}" for name in sorted(old ^ new)]
    for name in sorted(old & new):
        found += compare_outcomes(name, read_outcome(name, before), read_outcome(name, after), tolerance)
    return found
