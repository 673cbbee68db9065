"""Names that have changed since the measurements and their stored values were written: old name → new name.

The measurements call isoscope by the new names and choose rows by them, and the stored values are renamed before they are compared. A pure
rename is then one line here: no measurement is edited and no value stored again.
"""

from __future__ import annotations

import re

COLUMNS: dict[str, str] = {}
"""Columns of tables, and fields of JSON output: `{"family": "architecture"}`."""

VALUES: dict[str, dict[str, str]] = {}
"""Words by the old name of their column: `{"policy": {"no-special": "without-special"}, "metric": {"bell": "profile_bell"}}`."""

METRIC_OPTIONS = ("metric", "also", "name")
"""Columns and options that hold the names of metrics and series."""

COMMANDS: dict[str, str] = {
    "block": "untrained-block",
    "conventions": "compare-definitions",
    "baseline": "isotropic-null",
    "drift": "drift-test",
    "claims --also": "claims --metric",
    "report --also": "report --metric",
    "reproduce --engine": "reproduce --executor",
    "measure --shards": "measure --split-into",
} | {
    f"{verb} --{old}": f"{verb} --{new}"
    for verb in ("measure", "sweep")
    for old, new in {
        "engine": "executor",
        "gram": "second-moments",
        "keep": "store",
        "maps": "image-maps",
        "median": "attention-median",
        "rotated": "after-rotary",
        "sharpness": "ablate-queries",
        "split": "split-body",
    }.items()
}
"""Verbs and options, without `isoscope`: `{"drift": "association", "measure --rotated": "measure --after-rotary"}`."""


def rename_column(name: str) -> str:
    """The name that a column or field has today; a field may also be called after a metric, a model or a claim."""
    return COLUMNS.get(name) or next((words[name] for words in VALUES.values() if name in words), name)


def rename_value(column: str, value: object) -> object:
    """What a column, given by its old name, holds today; of `mean_norm@godey2024` or `mean_norm/d` each part is renamed."""
    words = VALUES.get("metric" if column in METRIC_OPTIONS else column, {})
    return "".join(words.get(part, part) for part in re.split("([@/])", value)) if isinstance(value, str) and words else value


def rename_word(word: str) -> str:
    """A word of which the column is not known."""
    return next((str(renamed) for column in VALUES if (renamed := rename_value(column, word)) != word), word)


def rename_metric(name: str) -> str:
    """A metric or series as it is called today."""
    return str(rename_value("metric", rename_value("name", name)))


def rename_command(command: str) -> str:
    """A verb (`drift`) or an option of a verb (`measure --rotated`) as it is called today."""
    verb, space, option = command.partition(" ")
    return COMMANDS.get(command) or f"{COMMANDS.get(verb, verb)}{space}{option}"


def rename_flag(verb: str, option: str) -> str:
    """An option of Python (`cosine_sd`) as today's command line takes it (`--cosine-sd`)."""
    return rename_command(f"{verb} --{option.replace('_', '-')}").partition(" ")[2]


def rename_option(verb: str, option: str) -> str:
    """An option as Python takes it today."""
    return rename_flag(verb, option).removeprefix("--").replace("-", "_")
