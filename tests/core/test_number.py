"""A number is a float that keeps its interval and its null through pickles, units and JSON."""

import json
import math
import pickle

import pytest

from isoscope.core.number import POPULATION, THIS_N, Number, same_n


def full(value=0.3):
    return Number(value, low=0.2, high=0.4, n=100, d=16, null=0.01, null_sd=0.004, note="sampled", interval_about=THIS_N)


def test_arithmetic_gives_plain_floats():
    assert full() + 1 == 1.3
    assert type(full() * 2) is float
    assert sorted([full(0.5), full(0.1)]) == [0.1, 0.5]


def test_a_pickle_keeps_every_part():
    again = pickle.loads(pickle.dumps(full()))
    assert type(again) is Number
    assert {name: getattr(again, name) for name in Number.__slots__} == {name: getattr(full(), name) for name in Number.__slots__}


def test_scaling_changes_value_interval_and_null_but_not_counts():
    scaled = full().scaled_by(10)
    assert (float(scaled), scaled.low, scaled.high, scaled.null, scaled.null_sd) == pytest.approx((3, 2, 4, 0.1, 0.04))
    assert (scaled.n, scaled.d, scaled.note) == (100, 16, "sampled")


@pytest.mark.parametrize(
    ("value", "low", "null", "above"),
    [
        (0.3, 0.2, 0.1, True),
        (0.3, 0.05, 0.1, False),  # the interval reaches below the null
        (0.3, math.nan, 0.1, True),  # without an interval the value decides
        (0.05, math.nan, 0.1, False),
        (0.3, 0.2, math.nan, False),  # without a null nothing is above it
    ],
)
def test_above_null_asks_the_lower_end_of_the_interval(value, low, null, above):
    assert Number(value, low=low, n=2, d=2, null=null).above_null is above


def test_json_has_null_for_undefined_values_and_a_note_only_if_there_is_one():
    row = json.loads(json.dumps(Number(math.nan, n=3, d=2, high=math.inf).as_dict(), allow_nan=False))
    assert row == {"value": None, "low": None, "high": None, "interval_about": None, "n": 3, "d": 2, "null": None, "null_sd": None}
    assert full().as_dict()["note"] == "sampled"
    number = full()
    number.interval_about = POPULATION
    assert number.as_dict()["interval_about"] == "population"


def test_sample_sizes_within_one_percent_are_the_same():
    assert same_n(1000, 1010)
    assert same_n(1010, 1000)
    assert not same_n(1000, 1011)


def test_a_number_shows_its_interval_and_its_null_and_prints_as_a_float():
    number = full(0.3)
    assert repr(number) == "0.300 [0.200, 0.400], isotropic 0.010"
    assert repr([number]) == f"[{number!r}]"
    assert number._repr_html_() == "0.300 [0.200, 0.400], isotropic 0.010"
    assert (str(number), f"{number}", f"{number:.2f}", f"{number:+.1e}", "%.1f" % number) == ("0.3", "0.3", "0.30", "+3.0e-01", "0.3")  # noqa: UP031
    assert repr(Number(0.822, n=9, d=9, low=0.82, high=0.823, null=0.0)) == "0.822 [0.820, 0.823], isotropic 0.000"
    assert repr(Number(math.inf, n=9, d=9)) == "inf"
    assert Number(math.nan, n=9, d=9, note="a < b")._repr_html_() == "not defined (a &lt; b)"


def test_files_and_frames_take_a_number_for_a_float():
    import csv
    import io

    import numpy as np
    import pandas as pd

    number = full(1 / 3)
    row = io.StringIO()
    csv.writer(row).writerow([number])
    assert float(row.getvalue()) == 1 / 3
    assert json.dumps([number]) == json.dumps([1 / 3])
    assert np.array([number]).dtype == np.float64
    assert np.mean([number, number]) == 1 / 3
    frame = pd.DataFrame({"x": [number, 1.0]})
    assert frame["x"].dtype == np.float64
    assert frame["x"].sum() == 4 / 3
    assert hash(number) == hash(1 / 3)
    assert {1 / 3: "a"}[number] == "a"
