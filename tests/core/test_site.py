"""Sites have labels that can be read back, and an order from input to output. A token policy chooses slices."""

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import (
    ATTENTION_KINDS,
    ATTENTION_ROW_KINDS,
    INNER_KINDS,
    KINDS,
    POINTS,
    QUERY_KEY_KINDS,
    Site,
    base_slice,
    policies_for,
    slice_marks,
    slices_of_policy,
    stack_order,
)

PLAIN = ["special", "first", "body"]
SPLIT = ["special", "first", "body:position-0", "body:sink+position-0", "body:position-1", "body:sink+position-1"]


@pytest.mark.parametrize(
    ("site", "label"),
    [
        (Site("encoder", "hidden", 0), "encoder.hidden.0"),
        (Site("decoder", "rotated_query", 3, 11), "decoder.rotated_query.3.11"),
        (Site("decoder", "input_embedding"), "decoder.input_embedding"),
    ],
)
def test_a_label_is_read_back(site, label):
    assert site.label == label
    assert Site.parse(label) == site


def test_sites_are_sorted_by_stack_then_depth_then_kind_and_head():
    expected = [
        "encoder.input_embedding",
        "encoder.hidden.0",
        "encoder.query.1.2",
        "encoder.query.1.10",
        "encoder.attention.1.0",
        "encoder.hidden.1",
        "encoder.hidden.2",
        "encoder.hidden.10",
        "encoder.final.11",
        "decoder.hidden.0",
        "decoder.output_embedding",
        "other.hidden.0",
    ]
    assert [site.label for site in sorted(map(Site.parse, reversed(expected)), key=lambda site: site.order)] == expected


def test_unknown_kinds_and_stacks_come_last():
    sites = [Site("encoder", "unheard", 1), Site("encoder", "hidden", 1)]
    assert sorted(sites, key=lambda site: site.order) == sites[::-1]
    assert sorted(["zebra", "decoder", "backbone", "antelope"], key=stack_order) == ["backbone", "decoder", "antelope", "zebra"]


def test_kinds_of_attention_are_queries_keys_and_rows_with_their_ablations():
    assert len(KINDS) == len(set(KINDS))
    assert set(ATTENTION_KINDS) == set(QUERY_KEY_KINDS) | set(ATTENTION_ROW_KINDS)
    assert not set(QUERY_KEY_KINDS) & set(ATTENTION_ROW_KINDS)
    assert set(ATTENTION_KINDS) | set(INNER_KINDS) <= set(KINDS)
    assert len(ATTENTION_ROW_KINDS) == 2 * (1 + 4)
    assert {"attention", "cross_attention_without_mean_query", "attention_without_3_dimensions"} <= set(ATTENTION_ROW_KINDS)


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
