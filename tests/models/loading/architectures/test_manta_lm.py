"""MANTa-LM: frontiers and blocks, computed in another way."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from transformers import (
    LongformerModel,
    T5Config,
    T5Model,
)

from isoscope.core.errors import IsoscopeError
from isoscope.models.loading.architectures.manta_lm import MantaConfig, MantaModel
from tests.models.published_architectures import (
    LITTLE_MANTA,
    inputs,
    little,
)


@pytest.mark.parametrize("gone", ["decoder_embeddings.weight", "decoder.embed_tokens.weight"])
def test_mantas_decoder_table_may_stand_under_either_name(gone, tmp_path):
    model = little("manta")
    model.save_pretrained(tmp_path)
    state = {name: tensor for name, tensor in model.state_dict().items() if name != gone}
    (tmp_path / "model.safetensors").unlink()
    torch.save(state, tmp_path / "pytorch_model.bin")
    found, report = MantaModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert torch.equal(found.decoder.embed_tokens.weight, model.decoder_embeddings.weight)
    assert found.decoder.embed_tokens is found.decoder_embeddings


def blocks_by_hand(model, frontiers, vectors):
    """The pooled blocks of one row, one number at a time, as the published code has it for a row alone."""
    n, d = vectors.shape
    mean, variance, means, spreads = 0.0, 0.0, [], []
    for s in range(n):
        p = frontiers[s] if s else 0.0
        mean, variance = mean + p, variance + p * (1 - p)
        means.append(mean)
        spreads.append(math.sqrt(variance + 5e-6))
    blocks = min(n, int(max(m + 3 * s for m, s in zip(means, spreads, strict=True))) + 1)
    share = np.zeros((blocks, n))
    for s in range(n):
        heights = np.array([math.exp(-((means[s] - j) ** 2) / (2 * spreads[s])) for j in range(blocks)])
        share[:, s] = heights / heights.sum()
    kernel = model.encoder.pooler.conv_layers[0].weight[0, 0].detach().double().numpy()  # (3, d)
    pooled = np.zeros((blocks, d))
    for j, channel in product(range(blocks), range(d)):
        pooled[j, channel] = max(
            sum(kernel[k, channel] * vectors[s + k - 1, channel] * share[j, s + k - 1] for k in range(3) if 0 <= s + k - 1 < n)
            for s in range(n)
        )
    out = model.encoder.pooler.out_projection
    return pooled[: model.config.max_length_encoder_decoder] @ out.weight.detach().double().numpy().T + out.bias.detach().double().numpy()


def manta_with_frontiers(rate):
    """A small model whose frontiers are about as likely as asked for."""
    model = little("manta")
    with torch.no_grad():
        model.encoder.frontier_predictor.output_projection.bias.fill_(math.log(rate / (1 - rate)))
    return model


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.95])
def test_blocks_are_pooled_as_published(rate):
    model, ids = manta_with_frontiers(rate), inputs("manta")["input_ids"][:1]
    with torch.inference_mode():
        blocks, there, frontiers = model.encoder.segment(ids)
        vectors = model.encoder.byte_embeddings(ids)[0].double().numpy()
    expected = blocks_by_hand(model, frontiers[0].double().numpy(), vectors)
    assert there.shape == (1, len(expected))
    assert there.all()
    np.testing.assert_allclose(blocks[0].numpy(), expected, rtol=1e-4, atol=1e-5)
    assert (len(expected) == 30) == (rate == 0.95)  # then it is cut at max_length_encoder_decoder


def test_frontiers_are_those_of_longformer_left_to_fill_up_by_itself():
    model, ids = little("manta"), inputs("manta")["input_ids"]
    predictor = model.encoder.frontier_predictor
    assert isinstance(predictor.local_transformer, LongformerModel)
    with torch.inference_mode():
        x = model.encoder.byte_embeddings(ids)
        states = predictor.local_transformer(inputs_embeds=x).last_hidden_state
        expected = torch.sigmoid(predictor.output_projection(states))[..., 0]
        torch.testing.assert_close(predictor(x, torch.ones_like(ids)), expected)
        ids[:, 30] = 5
        near = (predictor(model.encoder.byte_embeddings(ids), torch.ones_like(ids)) - expected).abs().amax(dim=0) > 1e-7
    assert near.nonzero().flatten().tolist() == list(range(26, 35))  # two layers that see two bytes to each side


def test_behind_its_blocks_manta_is_t5():
    model, fed = little("manta"), inputs("manta")
    sizes = {key: LITTLE_MANTA[key] for key in ("d_ff", "d_kv", "d_model", "num_heads", "num_layers", "num_decoder_layers")}
    t5 = T5Model(T5Config(**sizes, vocab_size=384, feed_forward_proj="gated-gelu")).eval()
    named = {
        name.replace("encoder.t5_encoder.", "encoder.").replace("decoder_embeddings.", "shared."): t
        for name, t in model.state_dict().items()
    }
    assert set(t5.load_state_dict(named, strict=False).missing_keys) <= {"encoder.embed_tokens.weight"}
    with torch.inference_mode():
        blocks, _, _ = model.encoder.segment(fed["input_ids"][:1])
        theirs = t5(
            inputs_embeds=blocks, decoder_inputs_embeds=model.decoder_embeddings(fed["decoder_input_ids"][:1]), output_hidden_states=True
        )
        ours = model(fed["input_ids"][:1], decoder_input_ids=fed["decoder_input_ids"][:1], output_hidden_states=True)
        scores = model.lm_head(theirs.last_hidden_state)
    torch.testing.assert_close(ours.logits, scores)
    for stack in ("encoder_hidden_states", "decoder_hidden_states"):
        for a, b in zip(ours[stack], theirs[stack], strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("rate", [0.1, 0.9])
def test_padding_and_neighbours_change_nothing_in_manta(rate):
    model, fed = manta_with_frontiers(rate), inputs("manta")
    ids, mask = fed["input_ids"], torch.ones_like(fed["input_ids"])
    ids[0, 18:], mask[0, 18:] = 0, 0
    with torch.inference_mode():
        together = model(ids, attention_mask=mask, decoder_input_ids=fed["decoder_input_ids"])
        block_mask = model.encoder.segment(ids, mask)[1]
        for row, length in ((0, 18), (1, 43)):
            alone = model(ids[row : row + 1, :length], decoder_input_ids=fed["decoder_input_ids"][row : row + 1])
            blocks = alone.encoder_last_hidden_state.shape[1]
            assert block_mask[row].tolist() == [1] * blocks + [0] * (block_mask.shape[1] - blocks)
            torch.testing.assert_close(
                together.encoder_last_hidden_state[row, :blocks], alone.encoder_last_hidden_state[0], rtol=1e-4, atol=1e-4
            )
            torch.testing.assert_close(together.logits[row], alone.logits[0], rtol=1e-4, atol=1e-4)
    assert block_mask[0].sum() < block_mask[1].sum()


def test_manta_refuses_inputs_and_choices_it_cannot_take():
    model = little("manta")
    with pytest.raises(IsoscopeError, match="at most 60 bytes; got 61"):
        model.encoder.segment(torch.full((1, 61), 5))
    with pytest.raises(IsoscopeError, match="padded on the right"):
        model.encoder.segment(torch.full((1, 4), 5), torch.tensor([[0, 1, 1, 1]]))
    with pytest.raises(IsoscopeError, match="max pooling"):
        MantaConfig(pooling_mean_pool=True)
    with pytest.raises(IsoscopeError, match="odd size"):
        MantaConfig(pooling_kernel_size=2)
