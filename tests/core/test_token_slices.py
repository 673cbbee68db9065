"""A token policy chooses slices; every part of body counts as body."""

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.core.token_slices import POINTS, base_slice, policies_for, slice_marks, slices_of_policy

PLAIN = ["special", "first", "body"]
SPLIT = ["special", "first", "body:position-0", "body:sink+position-0", "body:position-1", "body:sink+position-1"]


@pytest.mark.parametrize(
    ("policy", "slices", "chosen"),
    [
        ("all", PLAIN, PLAIN),
        ("no-special", PLAIN, ["first", "body"]),
        ("body", PLAIN, ["body"]),
        ("all", SPLIT, SPLIT),
        ("body", SPLIT, SPLIT[2:]),
        ("body-no-sink", SPLIT, ["body:position-0", "body:position-1"]),
        ("sink", SPLIT, ["body:sink+position-0", "body:sink+position-1"]),
        ("position-1", SPLIT, ["body:position-1", "body:sink+position-1"]),
        ("all", [POINTS], [POINTS]),
        ("body", ["special"], []),
    ],
)
def test_slices_of_a_policy(policy, slices, chosen):
    assert slices_of_policy(policy, slices) == chosen


def test_policies_follow_from_the_marks():
    assert policies_for(PLAIN) == ["all", "no-special", "body"]
    assert policies_for(SPLIT) == ["all", "no-special", "body", "body-no-sink", "position-0", "position-1", "sink"]
    assert policies_for(["first", "body:frequency-2"]) == ["all", "no-special", "body", "frequency-2"]
    assert policies_for([POINTS]) == ["all"]


def test_an_unknown_policy_is_refused_with_the_known_ones():
    with pytest.raises(IsoscopeError, match=r"'snk' is not one of all, no-special, body, .*, sink, did you mean sink\?"):
        slices_of_policy("snk", SPLIT)
    with pytest.raises(IsoscopeError, match=r"'body-no-sink' is not one of all, no-special, body"):
        slices_of_policy("body-no-sink", PLAIN)


def test_parts_of_a_name():
    assert [base_slice(name) for name in ("first", "body", "body:sink+frequency-1")] == ["first", "body", "body"]
    assert [slice_marks(name) for name in ("body", "body:sink", "body:sink+frequency-1")] == [[], ["sink"], ["sink", "frequency-1"]]
