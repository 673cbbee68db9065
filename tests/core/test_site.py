"""Sites have labels that can be read back, and an order from input to output."""

import pytest

from isoscope.core.site import ATTENTION_KINDS, ATTENTION_ROW_KINDS, INNER_KINDS, KINDS, QUERY_KEY_KINDS, Site, stack_order


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
