"""Each sentence of the summary, against tables whose answer is known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.core.wording import format_number, format_sites
from isoscope.report.line import Line, all_lines, site_of
from isoscope.report.summary import (
    against_untrained,
    anisotropic_layers,
    carriers,
    dimensions_in_use,
    dominant_direction,
    drift,
    layers_above,
    peak_above_chance,
    summarise,
    token_effect,
)
from tests.figures.made_table import SIX, THIRTY, made_table


def line_of(values: dict[str, list[float]], *, policy: str = "all", half: float = 0.01, d: int = 768, **more: object) -> Line:
    """A model with the given values layer by layer."""
    rows = [
        {"model": "m", "stack": "backbone", "kind": "hidden", "layer": layer, "policy": policy, "metric": metric, "value": value}
        | {"low": value - half, "high": value + half, "n": 1000, "d": d, "null": 0.0, "null_sd": 1e-5}
        | more
        for metric, column in values.items()
        for layer, value in enumerate(column)
    ]
    (line,) = all_lines(make_table(rows, TABLE_COLUMNS), make_table([], SERIES_COLUMNS))
    return line


@pytest.fixture(scope="module")
def made() -> dict[str, Line]:
    return {line.name: line for line in all_lines(*made_table())}


def test_thresholds_that_agree():
    assert anisotropic_layers(line_of({"between_cosine": [0.5, 0.6]})).startswith("Every layer is anisotropic whichever")
    assert anisotropic_layers(line_of({"between_cosine": [0.01, 0.02]})).startswith("No layer is anisotropic")
    assert anisotropic_layers(line_of({"between_cosine": [0.0, 0.5, 0.6]})).startswith("Layers 1–2 are anisotropic whichever")


def test_thresholds_that_disagree_are_all_named():
    text = anisotropic_layers(line_of({"between_cosine": [0.08, 0.15, 0.3]}))
    assert "depends on the threshold" in text
    assert "0.0594 (95th percentile of one isotropic pair) in layers 0–2; 0.1 in layers 1–2; 0.2 in layer 2." in text


def test_it_is_the_lower_bound_that_counts():
    wide = line_of({"between_cosine": [0.25]}, half=0.1)
    assert layers_above(wide.rows("between_cosine")).above[0.2] == ()
    narrow = line_of({"between_cosine": [0.25]})
    assert layers_above(narrow.rows("between_cosine")).above[0.2] == ("0",)


def test_without_intervals_the_value_counts_and_no_lower_bound_is_claimed():
    line = line_of({"mean_cosine": [0.3]}, half=float("nan"))
    assert line.cosine == "mean_cosine"
    assert "lower bound" not in anisotropic_layers(line)


def test_both_nulls_are_named_and_no_sigma():
    text = peak_above_chance(line_of({"between_cosine": [0.1, 0.594]}))
    assert "peaks at 0.594 (95 % interval 0.584 to 0.604) in layer 1" in text
    assert "would be 0.00 ± 2.00e-05 (the null of the average)" in text
    assert "in 768 dimensions stays below 0.0594 " in text
    assert "the peak is 10.0 times as high" in text
    assert "sigma" not in text
    assert "σ" not in text


def test_a_peak_below_the_null_of_one_pair_is_reported():
    assert "the peak is not higher" in peak_above_chance(line_of({"between_cosine": [0.01]}))


@pytest.mark.parametrize(("left", "words"), [(0.01, "hardly any"), (0.2, "a part"), (0.5, "most")])
def test_what_centring_leaves(left, words):
    text = drift(line_of({"between_cosine": [0.6], "drift_ratio": [0.55], "centred_cosine": [left]}))
    assert "holds 55 % of the mean squared norm" in text
    assert f"centring leaves {words} of the cosine ({format_number(left)})" in text


def test_carriers_are_named(made):
    assert "dimension 8 alone carries 45 % of the mean cosine, and dimensions 8, 21 and 34 together carry 79 %" in carriers(made[SIX])
    assert (
        carriers(line_of({"between_cosine": [0.5], "top_dimension_share": [0.4]}))
        == "In layer 0 one dimension alone carries 40 % of the mean cosine."
    )


def test_dimensions_in_use_are_the_extremes():
    text = dimensions_in_use(line_of({"effective_rank": [76.8, 384.0, 200.0]}))
    assert "runs from 76.8 in layer 0 (10 % of d) to 384 in layer 1 (50 %)" in text


@pytest.mark.parametrize(("norms", "words"), [(0.85, "are enough for it"), (0.5, "a good part of it"), (0.1, "do not account for it")])
def test_heavy_norms_alone(norms, words):
    text = dominant_direction(line_of({"top_share": [0.2, 0.9], "top_share_norm_null": [0.1, norms]}))
    assert "at most 90 % of the centred variance (in layer 1)" in text
    assert text.endswith(f"{words}.")


def test_tokens_name_the_layer_of_greatest_change():
    every, body = (line_of({"between_cosine": values}, policy=p).table for p, values in (("all", [0.5, 0.9]), ("body", [0.45, 0.3])))
    line = Line("m", pd.concat([every, body], ignore_index=True), make_table([], SERIES_COLUMNS))
    assert "changes most in layer 1: 0.900 (all), 0.300 (body)" in token_effect(line)
    assert token_effect(line_of({"between_cosine": [0.5]})) is None


def test_untrained_twin_is_found_by_its_name(made):
    text = against_untrained(made[SIX], list(made.values()))
    assert "in layer 6: 0.900 trained, 0.0925 untrained" in text
    assert "clearly above it in 6 and clearly below it in 1 of 8 sites" in text
    assert against_untrained(made[THIRTY], list(made.values())) is None


def test_summary_of_nothing_is_empty():
    line = line_of({"between_cosine": [np.nan]})
    assert summarise(line, [line]) == {}


def test_a_matrix_has_a_summary_too():
    line = line_of({"mean_cosine": [0.4]}, kind="points", layer=None)
    assert site_of(line.peak()) == "the points"
    assert "peaks at 0.400" in summarise(line, [])["Chance"]


def test_layers_are_said_in_runs():
    assert format_sites(["0", "1", "2", "4", "6", "7", "final norm"]) == "layers 0–2, 4 and 6–7, and the state after the final norm"
