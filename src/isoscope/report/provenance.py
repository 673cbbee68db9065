"""How each number was made: what a run's specifications say, and what each metric means."""

from __future__ import annotations

import importlib
import inspect
import json
from dataclasses import dataclass
from typing import Any

import pandas as pd

from isoscope.core.bounded import parsed_object
from isoscope.core.errors import IsoscopeError
from isoscope.core.study import studies
from isoscope.report.line import Line

IDENTITY = ["model", "revision", "step", "seed", "modality", "family", "stack"]


@dataclass(frozen=True)
class Meaning:
    """A metric in words."""

    name: str
    summary: str
    details: str


def specification(line: Line) -> dict[str, str]:
    """What moved this line's numbers, key by key; a key with several values lists them all."""
    found: dict[str, list[str]] = {}
    for column in IDENTITY:
        for value in line.table[column].dropna().unique():
            found.setdefault(column, []).append(str(value))
    for text in line.table["spec"].dropna().unique():
        for key, value in parsed(str(text)).items():
            word = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            # A sampler's seed is not the model's: both may be in one list of settings.
            name = f"{key} (of the sample)" if key in ("seed",) else key
            if word not in found.setdefault(name, []):
                found[name].append(word)
    return {key: ", ".join(values) for key, values in found.items() if values}


def parsed(text: str) -> dict[str, Any]:
    """A specification's keys; text that is not JSON is shown as it stands."""
    return parsed_object(text) or {"spec": text}


def meanings(table: pd.DataFrame, series: pd.DataFrame) -> list[Meaning]:
    """What every metric and series of the tables means, in the words of the file that declares it."""
    names = sorted({str(name) for column in (table["metric"], series["name"]) for name in column.dropna().unique()})
    return [meaning(name) for name in names]


def meaning(name: str) -> Meaning:
    """One metric in words; a table may hold a metric that this installation does not have, and is then still readable."""
    for study in studies:
        if words := study.meaning(name):
            return Meaning(name, words, "")
    try:
        entry = importlib.import_module("isoscope.metrics").registry[name]
    except IsoscopeError:
        return Meaning(name, "Not defined in this installation.", "")
    text = inspect.cleandoc(str(entry.__doc__ or "")).partition(">>>")[0].strip()
    first, _, rest = text.partition("\n\n")
    summary = str(getattr(entry, "summary", "") or first)
    return Meaning(name, " ".join(summary.split()), rest.replace("``", "").strip())
