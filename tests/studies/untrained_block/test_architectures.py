"""Architectures of transformers run as untrained blocks, with their own embeddings."""

import pytest
import torch

from isoscope.studies.untrained_block.architectures import Architecture
from isoscope.studies.untrained_block.block_probe import probe_network
from tests.studies.untrained_block.small_networks import SMALL, copy_weights, draw_network

pytestmark = pytest.mark.usefixtures("one_thread")


def test_an_architecture_of_transformers_is_run_with_its_own_embeddings_and_blocks(tmp_path):
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(vocab_size=50, n_embd=32, n_layer=3, n_head=4, n_positions=24)
    config.save_pretrained(tmp_path)
    subject = Architecture(str(tmp_path), (1, 2)).make_subject(SMALL)
    subject.draw(0)
    assert subject.width == 32
    bias = torch.ones(32)
    found = probe_network(subject, bias, (1, 2), 24).curves()
    assert {layer for _, layer in found} == {0, 1, 2}
    model = subject._model
    assert isinstance(model, GPT2Model)
    ids = torch.cat(list(subject.inputs()))
    with torch.inference_mode():
        truth = model(inputs_embeds=model.wte(ids) + bias, output_hidden_states=True).hidden_states
    assert found["block_mean_norm", 0] == pytest.approx(float(truth[0].norm(dim=-1).mean()), rel=1e-5)
    assert found["block_mean_norm", 1] == pytest.approx(float(truth[1].norm(dim=-1).mean()), rel=1e-5)
    assert found["block_row_min", 1] <= found["block_row_median", 1] <= found["block_row_max", 1] < 1


def test_an_architecture_equals_the_plain_block_with_the_same_weights(tmp_path):
    from transformers import BertConfig

    BertConfig(vocab_size=50, hidden_size=32, num_attention_heads=4, intermediate_size=128, num_hidden_layers=1).save_pretrained(tmp_path)
    theirs = Architecture(str(tmp_path)).make_subject(SMALL)
    theirs.draw(0)
    mine = draw_network(SMALL, init="words-positions-types")
    layer = theirs._model.encoder.layer[0]
    inner = layer.attention.self
    parts = {"query": inner.query, "key": inner.key, "value": inner.value, "out": layer.attention.output.dense}
    copy_weights(mine.blocks[0], parts | {"up": layer.intermediate.dense, "down": layer.output.dense})
    with torch.inference_mode():
        mine.points = theirs._model.embeddings(torch.cat(list(theirs.inputs())))
    one, two = (probe_network(subject, torch.full((32,), 0.5), (1,), 24).curves() for subject in (theirs, mine))
    assert set(one) == set(two)
    for name, value in two.items():
        assert one[name] == pytest.approx(value, rel=2e-4, abs=1e-6), name
