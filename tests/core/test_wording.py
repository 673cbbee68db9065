"""Numbers keep their size and sign however they are printed, and what is missing has one word."""

import math

import numpy as np
import pandas as pd
import pytest

from isoscope.core import wording


@pytest.mark.parametrize("size", [10.0**k * digit for k in range(-12, 13) for digit in (1.0, 1.2345, 9.994, 9.996)])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_printed_number_is_the_number_to_three_digits(size, sign):
    text = wording.format_number(sign * size)
    assert float(text.replace(",", "")) == pytest.approx(sign * size, rel=0.005)
    assert not text.endswith(".")


def test_a_number_that_rounds_up_gets_no_fourth_digit():
    assert [wording.format_number(x) for x in (0.9996, 9.996, 99.96, 999.6)] == ["1.00", "10.0", "100", "1,000"]


def test_numbers_of_numpy_are_printed_like_those_of_python():
    assert wording.format_number(np.float32(0.25)) == wording.format_number(0.25) == "0.250"


@pytest.mark.parametrize("x", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_never_printed_as_a_number(x):
    assert wording.format_number(x) == wording.format_share(x) == "not defined"
    assert wording.format_estimate(x, 0.0, 1.0) == wording.format_interval(0.0, x) == wording.format_interval(x, 0.0) == ""
    assert wording.format_p_value(x) == "p is not defined"


def test_close_ends_of_an_interval_are_told_apart():
    assert wording.format_interval(0.36014, 0.36042) == "0.3601 to 0.3604"
    assert wording.format_estimate(12345.6, 12345.2, 12345.9) == "12,346 [12,345, 12,346]"
    assert wording.format_interval(0.5, 0.5) == "0.500 to 0.500"
    assert wording.format_interval(-0.25, 0.25, sign=True) == "-0.250 to +0.250"


def test_units_change_where_they_become_readable():
    assert [wording.format_duration(x) for x in (0.001, 99.4, 100, 5999, 6000)] == ["1 s", "99 s", "2 min", "100 min", "1.7 h"]
    assert [wording.format_bytes(x) for x in (0, 999, 1000, 10**6, 10**9, 10**12)] == ["0 B", "999 B", "1 KB", "1 MB", "1.0 GB", "1.0 TB"]


@pytest.mark.parametrize("missing", [None, math.nan, pd.NA])
def test_a_site_without_a_layer_has_the_name_of_its_kind(missing):
    assert wording.format_site("output_embedding", missing) == "the output embedding"
    assert wording.format_site("hidden", missing) == "the hidden"


def test_sites_that_are_no_layers_come_after_the_layers():
    assert wording.format_sites(["final norm", "0", "1", "3"]) == "layers 0–1 and 3, and the state after the final norm"
    assert wording.format_sites(["input embedding"]) == "the input embedding"


def test_lists_of_no_one_and_two_words():
    assert [wording.format_list(words) for words in ([], ["a"], ["a", "b"])] == ["", "a", "a and b"]
    assert wording.format_list(["a", "b", "c"], most=3) == "a, b and c"
