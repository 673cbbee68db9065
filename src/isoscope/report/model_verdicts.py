"""One sentence per model, for the first screen: is it anisotropic, is that drift, and how many dimensions are in use?"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from isoscope.core.wording import format_list, format_number, format_share
from isoscope.report.diagnosis import Sign
from isoscope.report.line import Line, least, site_of
from isoscope.report.summary import layers_above

DRIFT_LEFT = {0.1: "nearly all of it is drift", 0.5: "most of it is drift", 0.9: "a part of it is drift"}
"""The words for the share of the cosine that is left after centring, up to each limit."""


@dataclass(frozen=True)
class ModelVerdict:
    """The answer about one model: a few words, and one sentence."""

    name: str
    answer: str
    sentence: str
    is_failure: bool = False


def model_verdict(line: Line, signs: list[Sign]) -> ModelVerdict | None:
    """The verdict on one line, or None if it has no cosine; failures of its model come before everything else."""
    rows = line.rows(line.cosine)
    failures = [sign for sign in signs if sign.is_failure and sign.model == str(line.table["model"].iloc[0])]
    if failures:
        return ModelVerdict(
            line.name, "failure", f"{format_list([f'{sign.name} ({sign.evidence})' for sign in failures])}.", is_failure=True
        )
    if rows.empty:
        return None
    parts = [describe_cosine(line, rows), describe_dimensions(line)]
    return ModelVerdict(line.name, describe_extent(rows), f"{'; '.join(filter(None, parts))}.")


def describe_extent(rows: pd.DataFrame) -> str:
    """In how many layers the cosine exceeds that of one isotropic pair."""
    layers = layers_above(rows)
    above = len(next(iter(layers.above.values())))
    if len(rows) == 1:
        return "anisotropic" if above else "nearly isotropic"
    extent = "every layer" if above == len(rows) else f"{above} of {len(rows)} layers"
    return f"anisotropic in {extent}" if above else "nearly isotropic"


def describe_cosine(line: Line, rows: pd.DataFrame) -> str:
    """The greatest cosine, its isotropic level, and the share of it that is drift."""
    peak = line.peak()
    assert peak is not None
    value = float(peak["value"])
    level = "" if pd.isna(peak["null"]) else f" (isotropic: {format_number(float(peak['null']))})"
    text = f"the mean cosine {'reaches' if len(rows) > 1 else 'is'} {format_number(value)} in {site_of(peak)}{level}"
    centred = line.at("centred_cosine", peak)
    # The share of a cosine near 0 would be a ratio of two noises.
    if centred is None or not next(iter(layers_above(peak.to_frame().T.astype(rows.dtypes)).above.values())):
        return text
    left = abs(float(centred["value"])) / value
    return f"{text}, and {next((words for limit, words in DRIFT_LEFT.items() if left < limit), 'hardly any of it is drift')}"


def describe_dimensions(line: Line) -> str:
    """The fewest dimensions in use, by effective rank, as a share of d; nothing if they are not known."""
    rows = line.rows("effective_rank")
    if rows.empty:
        return ""
    row = least(rows.assign(value=rows["value"] / rows["d"].astype(float)))
    level = "" if pd.isna(row["null"]) else f" (isotropic: {format_share(float(row['null']) / float(row['d']))})"
    at_least = "at least " if len(rows) > 1 else ""
    return f"{at_least}{format_share(float(row['value']))} of {int(row['d']):,} dimensions are in use, in {site_of(row)}{level}"
