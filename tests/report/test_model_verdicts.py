"""The sentence about each model on the first screen."""

from __future__ import annotations

import pytest

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.report.diagnosis import Sign
from isoscope.report.line import Line, all_lines
from isoscope.report.model_verdicts import ModelVerdict, model_verdict


def rows_of(model: str, values: dict[str, list[float]], *, d: int = 768, n: int = 1000, **more: object) -> list[dict[str, object]]:
    """One row per metric and layer."""
    return [
        {"model": model, "stack": "backbone", "kind": "hidden", "layer": layer, "policy": "all", "metric": metric, "value": value}
        | {"low": value, "high": value, "n": n, "d": d, "null": 0.0 if "cosine" in metric else 0.75 * d}
        | more
        for metric, column in values.items()
        for layer, value in enumerate(column)
    ]


def lines_of(*models: list[dict[str, object]]) -> list[Line]:
    return all_lines(make_table([row for rows in models for row in rows], TABLE_COLUMNS), make_table([], SERIES_COLUMNS))


def verdict(values: dict[str, list[float]], **more: object) -> ModelVerdict | None:
    (line,) = lines_of(rows_of("m", values, **more))
    return model_verdict(line, [])


def test_one_sentence_answers_what_most_readers_ask():
    found = verdict({"between_cosine": [0.01, 0.3, 0.6], "centred_cosine": [0.0, 0.0, 0.02], "effective_rank": [384.0, 76.8, 192.0]})
    assert found == ModelVerdict(
        "m",
        "anisotropic in 2 of 3 layers",
        "the mean cosine reaches 0.600 in layer 2 (isotropic: 0.00), and nearly all of it is drift; at least 10 % of 768 dimensions are in "
        "use, in layer 1 (isotropic: 75 %).",
    )


@pytest.mark.parametrize(
    ("left", "words"), [(0.2, "most of it is drift"), (0.4, "a part of it is drift"), (0.55, "hardly any of it is drift")]
)
def test_the_share_of_drift(left, words):
    found = verdict({"between_cosine": [0.6], "centred_cosine": [left]})
    assert found is not None
    assert (found.answer, found.sentence) == ("anisotropic", f"the mean cosine is 0.600 in layer 0 (isotropic: 0.00), and {words}.")


def test_an_isotropic_model_has_no_drift_to_speak_of():
    found = verdict({"between_cosine": [0.001, -0.002], "centred_cosine": [0.001, 0.0]})
    assert found is not None
    assert found.answer == "nearly isotropic"
    assert "drift" not in found.sentence
    assert verdict({"mean_norm": [1.0]}) is None


def test_a_failure_is_all_that_is_reported():
    (line,) = lines_of(rows_of("m", {"between_cosine": [0.6]}))
    signs = [
        Sign("m", "no bell in a decoder", "A bell is expected.", "B below 0.05", "B = 0"),
        Sign("m", "rank collapses over steps", "Bad.", "below 0.25", "layer 2: 10 at step 100", is_failure=True),
        Sign("other", "no direction is defined", "Bad.", "NaN", "layer 1", is_failure=True),
    ]
    found = model_verdict(line, signs)
    assert found == ModelVerdict("m", "failure", "rank collapses over steps (layer 2: 10 at step 100).", is_failure=True)
    assert model_verdict(line, signs[:1]) == model_verdict(line, [])
