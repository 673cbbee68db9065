"""Scores of one sequence, block by block, and the keys that each block may see, against the same written out."""

import numpy as np
import pytest
import torch

from isoscope.core.site import Site
from isoscope.models.tapping.attention_call import AttentionCall, SequenceScores, Window

SCALE = 0.4


def make_call(t, s, *, heads=4, key_heads=2, mask=None, bias=None):
    generator = torch.Generator().manual_seed(t * 31 + s)
    query = torch.randn(2, heads, t, 5, generator=generator)
    key = torch.randn(2, key_heads, s, 5, generator=generator) + 7  # with a large part in common, as anisotropic keys have
    return AttentionCall(Site("decoder", "attention", 1), query, key, SCALE, bias, mask, None, query, key)


def written_out(call, i):
    """(h, t, s) the scores in float64."""
    key = call.key[i].double().repeat_interleave(call.query.shape[1] // call.key.shape[1], 0)
    scores = SCALE * call.query[i].double() @ key.mT
    return scores if call.bias is None else scores + call.bias[0].double()


@pytest.mark.parametrize(("t", "rows"), [(9, None), (9, [1, 4, 5]), (2, None)], ids=["all rows", "some rows", "few rows"])
@pytest.mark.parametrize("has_bias", [False, True])
def test_blocks_of_scores_and_their_offsets_are_the_scores(t, rows, has_bias):
    """With few rows the mean key stays in the keys; otherwise its part of the scores is the offset."""
    generator = torch.Generator().manual_seed(0)
    call = make_call(t, 9, bias=torch.randn(1, 4, t, 9, generator=generator) if has_bias else None)
    chosen = None if rows is None else torch.tensor(rows)
    for i in range(2):
        scores = SequenceScores.from_call(call, i, chosen, torch.float32)
        assert scores.is_centred == (t != 2)
        expected = written_out(call, i)[:, rows if rows else slice(None)]
        for j in range(4):
            at, between = slice(0, 2), slice(3, 9)
            out, offset = torch.empty(2, 6), torch.empty(2)
            scores.write_block(j, at, between, out, offset)
            assert torch.allclose((out + offset[:, None]).double(), expected[j, at, between], atol=1e-5)


def test_keys_that_no_row_sees_are_left_out_whatever_they_hold():
    mask = torch.ones(1, 1, 4, 6, dtype=torch.bool)
    mask[..., 4:] = False
    call = make_call(4, 6, mask=mask)
    call.key[:, :, 4:] = torch.nan
    scores = SequenceScores.from_call(call, 1, None, torch.float32)
    assert scores.columns.tolist() == [0, 1, 2, 3]
    assert scores.open is None
    assert scores.key.isfinite().all()


def test_a_float_mask_that_heads_share_becomes_a_bool_mask():
    additive = torch.zeros(1, 1, 3, 3).masked_fill(torch.ones(3, 3).triu(1).bool(), -1e9)
    scores = SequenceScores.from_call(make_call(3, 3, bias=additive), 0, None, torch.float32)
    assert scores.bias is None
    assert scores.heads_see_alike
    assert scores.open_keys(2, slice(1, 3)).tolist() == [[True, True, False], [True, True, True]]


WINDOW = np.array([[0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 0]], dtype=bool)


def test_a_window_has_the_columns_that_rows_see_and_where_each_row_begins():
    window = Window.from_mask(torch.from_numpy(WINDOW), 3, 5)
    assert window.between == slice(1, 4)
    assert window.edge == slice(0, 3)
    assert window.count.tolist() == [2, 2, 0]
    start, stop = window.spans
    assert (start[:2].tolist(), stop[:2].tolist()) == ([0, 1], [2, 3])
    assert stop[2] - start[2] == 0


def test_rows_with_gaps_have_no_spans():
    assert Window.from_mask(torch.tensor([[True, False, True]]), 1, 3).spans is None


@pytest.mark.parametrize("value", [0.0, -80.0, torch.inf])
def test_closed_positions_get_the_value_and_open_ones_stay(value):
    window = Window.from_mask(torch.from_numpy(WINDOW), 3, 5)
    part = torch.randn(3, 3, generator=torch.Generator().manual_seed(1))
    expected = part.masked_fill(~torch.from_numpy(WINDOW[:, 1:4]), value)
    window.fill_closed(part, value)
    assert torch.equal(part, expected)


def test_nothing_is_closed_without_a_mask_and_nothing_open_in_an_empty_one():
    whole, empty = Window.from_mask(None, 2, 3), Window.from_mask(torch.zeros(2, 3, dtype=torch.bool), 2, 3)
    assert (whole.between, whole.count, whole.edge) == (slice(0, 3), 3, None)
    assert (empty.between, empty.count) == (slice(0, 0), 0)
