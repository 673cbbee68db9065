"""Plain blocks: equal to the blocks of transformers and torch, and initialised as named."""

import math

import pytest
import torch

from isoscope.studies.untrained_block.networks import Block
from tests.studies.untrained_block.small_networks import SMALL, copy_weights, draw_network

pytestmark = pytest.mark.usefixtures("one_thread")


def shaken(module: torch.nn.Module) -> torch.nn.Module:
    """Every parameter far from its initial value, norms and biases too, so that a part left out is seen."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3 + (parameter.ndim == 1) * 0.5)
    return module.eval()


def test_post_ln_is_transformers_bert_layer():
    from transformers import BertConfig
    from transformers.models.bert.modeling_bert import BertLayer

    config = BertConfig(hidden_size=32, num_attention_heads=4, intermediate_size=128)
    config._attn_implementation = "eager"
    theirs = shaken(BertLayer(config))
    mine = Block(32, 4, 128)
    inner = theirs.attention.self
    parts = {"query": inner.query, "key": inner.key, "value": inner.value, "out": theirs.attention.output.dense}
    parts |= {"around_attention": theirs.attention.output.LayerNorm, "up": theirs.intermediate.dense, "down": theirs.output.dense}
    copy_weights(mine, parts | {"around_mlp": theirs.output.LayerNorm})
    x = torch.randn(2, 7, 32)
    with torch.inference_mode():
        torch.testing.assert_close(mine(x), theirs(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("first", [True, False])
def test_pre_and_post_ln_are_torch_encoder_layers(first):
    theirs = shaken(torch.nn.TransformerEncoderLayer(32, 4, 128, activation="gelu", batch_first=True, norm_first=first))
    mine = Block(32, 4, 128, norm="pre" if first else "post", eps=1e-5)
    copy_weights(mine, {"out": theirs.self_attn.out_proj, "up": theirs.linear1, "down": theirs.linear2})
    copy_weights(mine, {"around_attention": theirs.norm1, "around_mlp": theirs.norm2})
    with torch.no_grad():
        for i, name in enumerate(("query", "key", "value")):
            part = mine.get_submodule(name)
            part.weight.copy_(theirs.self_attn.in_proj_weight[32 * i : 32 * (i + 1)])
            part.bias.copy_(theirs.self_attn.in_proj_bias[32 * i : 32 * (i + 1)])
    x = torch.randn(2, 7, 32)
    torch.testing.assert_close(mine(x), theirs(x), atol=1e-5, rtol=1e-5)


def test_variants_leave_out_the_named_parts():
    x = torch.randn(2, 7, 32)

    def made(*words: str, norm: str = "post") -> Block:
        return shaken(Block(32, 4, 128, norm=norm, variant=frozenset(words)))

    mlp = made("no-residual", "no-norm", "mlp-only")
    torch.testing.assert_close(mlp(x), mlp.down(torch.nn.functional.gelu(mlp.up(x))))
    uniform = made("uniform-attention", "attention-only", "no-residual", "no-norm")
    torch.testing.assert_close(uniform(x), uniform.out(uniform.value(x).mean(1, keepdim=True)).expand_as(x))
    alone = made("attention-only", "no-norm")
    torch.testing.assert_close(alone(x) - x, made("attention-only", "no-norm", "no-residual")(x), atol=1e-5, rtol=1e-4)
    assert not torch.allclose(made()(x), made(norm="pre")(x))
    assert not torch.allclose(made(norm="rms")(x), made(norm="pre")(x))


def test_initialisations_draw_weights_as_named():
    bert, torchs = draw_network(SMALL), draw_network(SMALL, init="torch")
    weight, bias = bert.blocks[0].up.weight, bert.blocks[0].up.bias
    assert weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert bias.abs().max().item() == 0
    assert float(bert.points.std()) == pytest.approx(0.02, rel=0.05)
    assert 0 < torchs.blocks[0].up.bias.abs().max().item() <= 32**-0.5
    assert torchs.blocks[0].up.weight.std().item() == pytest.approx((3 * 32) ** -0.5, rel=0.05)
    torch.testing.assert_close(bert.points, torchs.points)
    sums = draw_network(SMALL, init="words-positions-types").points
    torch.testing.assert_close(sums.norm(dim=-1), torch.full((3, 24), math.sqrt(32)), rtol=1e-5, atol=1e-5)
