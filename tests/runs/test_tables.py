"""What a table of a cell may hold: everything that a measurement writes, and nothing that would surprise its readers."""

import pandas as pd
import pytest

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.estimation.metric import Metric
from isoscope.metrics import metrics, profiles
from isoscope.runs.tables import arrow_table, mistake_in_table

ROW = {"model": "m", "stack": "encoder", "kind": "hidden", "layer": 3, "policy": "all", "metric": "mean_cosine", "value": 0.1, "d": 8}


def said(**changed):
    return mistake_in_table(arrow_table(make_table([ROW, ROW | changed], TABLE_COLUMNS), TABLE_COLUMNS))


@pytest.mark.parametrize("entry", [*metrics(), *profiles()], ids=lambda entry: entry.name)
def test_every_declared_metric_has_a_layer_and_no_profile_needs_one(entry):
    words = f"a row of {entry.name} has the layer None" if isinstance(entry, Metric) else ""
    assert said(metric=entry.name, layer=None) == words


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"value": float("nan")},
        {"value": float("inf"), "low": float("-inf")},
        {"metric": "bell", "layer": None, "d": None},
        {"metric": "of another version", "kind": "elsewhere", "layer": None, "d": None},
        {"kind": "input_embedding", "layer": None},
        {"kind": "isotropic", "stack": None, "layer": None},
        {"spec": None, "n": None, "step": None, "seed": None, "head": None, "modality": None, "family": None, "revision": None},
        {"spec": '{"note": "n < d", "new": [1, {"a": 2}]}'},
        {"seed": 1 << 40, "step": 1 << 40, "n": 0},
    ],
)
def test_what_measurements_write(changed):
    assert said(**changed) == ""


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"kind": None}, "a row has no kind"),
        ({"stack": None}, "a row has no stack"),
        ({"layer": -1}, "a row has the layer -1"),
        ({"layer": 1 << 20}, "a row has the layer 1048576"),
        ({"head": -5}, "a row has the head -5"),
        ({"step": 1 << 53}, "a row has the step 9007199254740992"),
        ({"n": -2}, "a row has the n -2"),
        ({"layer": None}, "a row of mean_cosine has the layer None"),
        ({"d": 0}, "a row of mean_cosine has the d 0"),
        ({"d": (1 << 31) - 1}, "a row has the d 2147483647"),
        ({"spec": "[1]"}, "the settings of a row are no object"),
        ({"spec": "{"}, "the settings of a row are no JSON: "),
        ({"spec": '{"verdict": 3}'}, "the verdict of a row is 3"),
    ],
)
def test_what_no_measurement_writes(changed, words):
    assert said(**changed).startswith(words)


def test_series():
    point = {"model": "m", "stack": "encoder", "kind": "hidden", "layer": 3, "policy": "all", "name": "spectrum", "x": 1.0, "y": 2.0}

    def checked(**changed):
        return mistake_in_table(arrow_table(pd.concat([make_table([point | changed], SERIES_COLUMNS)]), SERIES_COLUMNS))

    assert checked() == checked(y=float("nan"), layer=None) == ""
    assert checked(name=None) == "a row has no name"
    assert checked(layer=-3) == "a row has the layer -3"
