"""Attention that a module writes out by hand: its scores are followed from the product to the softmax, or refused."""

import weakref

import pytest
import torch

from isoscope.core.errors import IsoscopeError
from isoscope.models.loading.family import Stack
from isoscope.models.tapping.attention_tap import AttentionTap
from isoscope.models.tapping.tap import Tap
from tests.models.written_attention import CLOSE, WRITTEN, Block, Model, copy_call, labels, scores_of, split_heads


@pytest.mark.parametrize("style", WRITTEN)
def test_hand_written_attention(style):
    """The weights that the module itself computed, and its own projections."""
    torch.manual_seed(0)
    own = []

    def attend(block, q, k):
        own.append((q.clone(), k.clone(), WRITTEN[style](block, q, k).clone()))
        return own[-1][-1]

    single = style in ("one key head", "repeated keys")
    model = Model(*(Block(attend, keys=4 if single else 12) for _ in range(2))).eval()
    x = 2 * torch.randn(2, 9, 12)
    calls, given = [], []

    def receive(call):
        calls.append(copy_call(call))
        given.append(weakref.ref(call.query))

    tap = Tap({"encoder": Stack(model)}, lambda site, state: None)
    with torch.inference_mode():
        plain = model(x)
        own.clear()
        tap.begin()
        with tap.attach(), AttentionTap(tap.running, receive):
            tapped = model(x)
    assert torch.equal(plain, tapped)
    assert [call.site.label for call in calls] == ["encoder.attention.1", "encoder.attention.2"]
    for call, (q, k, weights) in zip(calls, own, strict=True):
        torch.testing.assert_close(scores_of(call).softmax(-1), weights.double(), **CLOSE)
        times = {
            "scale within": (0.25, 2.0),
            "ellipsis": (0.5, 1),
            "bmm": (0.5, 1),
            "unbound": (0.5, 1),
            "bmm, unfolded": (1, 0.5),
            "time first": (1, 0.5),
        }
        for ours, theirs, heads, factor in zip(
            (call.plain_query, call.plain_key), (q, k), (3, 1 if single else 3), times.get(style, (1, 1)), strict=True
        ):
            torch.testing.assert_close(ours, factor * split_heads(theirs, heads), **CLOSE)
        assert ("rotary" in style) == (not torch.allclose(call.plain_query, call.query))
        assert (call.mask is not None) == (style == "in place")
        assert (call.bias is not None) == (style in ("in place", "biased", "capped"))
    assert all(reference() is None for reference in given)  # nothing of a pass is held after it


def test_scores_that_cannot_be_followed_are_refused():
    """A column that no key has: a sink that the model adds."""
    sunk = Block(lambda _, q, k: torch.cat([split_heads(q, 3) @ split_heads(k, 3).mT, torch.zeros(2, 3, 9, 1)], -1).softmax(-1)[..., :-1])
    with pytest.raises(IsoscopeError, match="The attention of layer 1 of the encoder cannot be followed: its scores are cut or joined"):
        labels(Model(sunk, sunk))
