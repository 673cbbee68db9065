"""Scores of an attention, taken again on its device, against a product in float64 with each key repeated."""

import numpy as np
import pytest
import torch

from isoscope.core.site import Site
from isoscope.models.tapping.attention_call import AttentionCall
from isoscope.models.tapping.device_scores import Operands, heads_first

B, H, T, E, SCALE = 3, 4, 5, 6, 0.3


def make_call(key_heads, s, bias=None, scores=None, dtype=torch.float64):
    rng = np.random.default_rng(s)
    query, key = (torch.from_numpy(rng.standard_normal(shape)).to(dtype) for shape in ((B, H, T, E), (B, key_heads, s, E)))
    return AttentionCall(Site("decoder", "attention", 1), query, key, SCALE, bias, None, scores, query, key)


def expect_scores(call):
    """(h, b, t, s) in float64."""
    query, key = call.query.double().numpy(), call.key.double().numpy()
    key = key[:, [head // (H // key.shape[1]) for head in range(H)]]
    added = 0.0 if call.bias is None else call.bias.double().numpy()
    return (SCALE * query @ key.swapaxes(2, 3) + added).swapaxes(0, 1)


@pytest.mark.parametrize("key_heads", [4, 2, 1])
@pytest.mark.parametrize("s", [T, 8])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_heads_that_share_keys(key_heads, s, dtype):
    """With as many keys as queries both are one copy; with more they are not."""
    call = make_call(key_heads, s, dtype=dtype)
    got = Operands.of(call).products(slice(None), slice(None))
    assert got.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    np.testing.assert_allclose(got, expect_scores(call), rtol=0, atol=1e-12 if dtype == torch.float64 else 2e-6)


@pytest.mark.parametrize("shape", [(T, 8), (B, 1, 1, 8), (H, T, 8), (B, H, T, 8), (B, H, 1, 1)])
def test_a_bias_is_cut_as_the_scores_are(shape):
    call = make_call(2, 8, bias=torch.from_numpy(np.random.default_rng(1).standard_normal(shape)))
    operands, expected = Operands.of(call), expect_scores(call)
    np.testing.assert_allclose(operands.products(slice(1, 3), slice(2, 4)), expected[:, 1:3, 2:4], atol=1e-12)
    np.testing.assert_allclose(operands.products(slice(0, 2), torch.tensor([4, 0, 3])), expected[:, :2, [4, 0, 3]], atol=1e-12)
    assert np.broadcast_shapes(heads_first(call.bias).shape, expected.shape) == expected.shape


def test_scores_that_a_model_writes_out_are_copied():
    """Products may be written to; the model's own scores must not change."""
    scores = torch.from_numpy(np.random.default_rng(2).standard_normal((B, H, T, 8)))
    call = make_call(4, 8, scores=scores.clone())
    got = Operands.of(call).products(slice(1, 2), torch.tensor([3, 1]))
    np.testing.assert_array_equal(got, scores.transpose(0, 1)[:, 1:2, [3, 1]])
    got.zero_()
    assert torch.equal(call.scores, scores)
