"""What a user gives: names, counts with limits, and selections of numbers."""

from pathlib import Path

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.core.user_input import NumberSelection, check_count, expand_home


def test_ranges_longer_than_any_list():

    for word in ("0-99999999999999999999:1", "5-18446744073709551616:2"):
        with pytest.raises(IsoscopeError, match="numbers; say how far apart"):
            NumberSelection.parse(word, "--steps")
    with pytest.raises(IsoscopeError, match="numbers; say how far apart"):
        NumberSelection.parse("0-99999999999999999999", "--steps").all_numbers()


@pytest.mark.parametrize(
    ("text", "numbers", "ranges"),
    [
        ("7", (7,), ()),
        ("5,0,5", (0, 5), ()),
        ("0-10:4", (0, 4, 8), ()),
        ("3-25:x2", (3, 6, 12, 24), ()),
        ("0-4, 8-9", (), ((0, 4), (8, 9))),
    ],
)
def test_a_selection_is_parsed(text, numbers, ranges):
    selection = NumberSelection.parse(text, "--steps")
    assert (selection.numbers, selection.ranges) == (numbers, ranges)


def test_a_range_selects_what_exists_and_nothing_else():
    selection = NumberSelection.parse("1,10-20", "--seeds")
    assert [number for number in (0, 1, 2, 9, 10, 15, 20, 21) if number in selection] == [1, 10, 15, 20]
    assert "10" not in selection
    assert selection.all_numbers() == [1, *range(10, 21)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "--steps names none"),
        ("4-0", "--steps takes ranges from low to high, as in 0-4; got '4-0'"),
        ("1-8:0", "--steps takes ranges by 1 or more"),
        ("0-8:x2", "times 2 or more from 1 on"),
        ("1-8:x1", "times 2 or more from 1 on"),
        ("a", "--steps takes numbers and ranges, .* got 'a'"),
        ("-1", "got '-1'"),
    ],
)
def test_a_selection_of_nothing_is_refused(text, sentence):
    with pytest.raises(IsoscopeError, match=sentence):
        NumberSelection.parse(text, "--steps")


def test_counts_outside_their_limits_are_refused():
    for value in (None, 2, 5):
        check_count("max_items", value, least=2, most=5)
    with pytest.raises(IsoscopeError, match="--max-items must be at least 2; got 1"):
        check_count("max_items", 1, least=2, most=5)
    with pytest.raises(IsoscopeError, match="--max-items must be at most 1,000; got 1,001"):
        check_count("max_items", 1001, most=1000)


def test_the_home_folder_is_expanded(monkeypatch):
    monkeypatch.setenv("HOME", "/somewhere")
    assert expand_home("~/a/b") == Path("/somewhere/a/b")
    assert expand_home("a/~/b") == Path("a/~/b")
