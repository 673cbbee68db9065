"""How each number was made: the settings of the run, and the meaning of each metric."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from typing import Any

import pandas as pd

from isoscope.core.errors import IsoscopeError
from isoscope.core.study import studies
from isoscope.metrics import registry
from isoscope.report.line import Line
from isoscope.trust.safe_io import parse_object

IDENTITY = ["model", "revision", "step", "seed", "modality", "family", "stack"]


@dataclass(frozen=True)
class Meaning:
    """A metric in words."""

    name: str
    summary: str
    details: str


def specification(line: Line) -> dict[str, str]:
    """The settings that affect this line's numbers; a setting with several values lists them all."""
    settings: dict[str, list[str]] = {}
    for column in IDENTITY:
        for value in line.table[column].dropna().unique():
            settings.setdefault(column, []).append(str(value))
    for text in line.table["spec"].dropna().unique():
        for key, value in parse_settings(str(text)).items():
            word = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            # The seed of the sample is not the seed of the model, and both may be in one list of settings.
            name = "seed (of the sample)" if key == "seed" else key
            if word not in settings.setdefault(name, []):
                settings[name].append(word)
    return {key: ", ".join(values) for key, values in settings.items() if values}


def parse_settings(text: str) -> dict[str, Any]:
    """The settings of a row; text that is not JSON is returned unchanged under `spec`."""
    return parse_object(text) or {"spec": text}


def meanings(table: pd.DataFrame, series: pd.DataFrame) -> list[Meaning]:
    """The meaning of every metric and series of the tables, from its docstring."""
    names = sorted({str(name) for column in (table["metric"], series["name"]) for name in column.dropna().unique()})
    return [meaning_of(name) for name in names]


def meaning_of(name: str) -> Meaning:
    """The meaning of a metric. A table may hold metrics of plug-ins that are not installed here."""
    for study in studies:
        if words := study.meaning(name):
            return Meaning(name, words, "")
    try:
        entry = registry[name]
    except IsoscopeError:
        return Meaning(name, "Not installed here.", "")
    # The docstring up to its doctest: the first paragraph is the summary, the rest the definition.
    text = inspect.cleandoc(str(entry.__doc__ or "")).partition(">>>")[0].strip()
    first, _, rest = text.partition("\n\n")
    summary = str(getattr(entry, "summary", "") or first)
    return Meaning(name, " ".join(summary.split()), rest.replace("``", "").strip())
