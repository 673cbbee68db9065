"""What a watched training says beside its geometry: losses, rates, gradients of queries and keys, and the loggers that get it all."""

import json

import pytest
import torch
import transformers as t
from torch import nn

import isoscope
from isoscope.watching.projections import BY_NAME
from tests.watching.watched import WORDS, batches, started, train

COMMON = {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
LONGEST = {"max_position_embeddings": 32}
GROUPED = {"num_key_value_heads": 2, "head_dim": 8}


class Packed(nn.Module):
    """torch's own layers, with queries, keys and values in one weight."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, 32)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2, enable_nested_tensor=False)

    def forward(self, ids):
        return self.encoder(self.table(ids))


def rows(path, of):
    """(query, key) gradients of weights whose rows are cut by `of(d)`."""
    return lambda model, layer: [model.get_parameter(path.format(layer)).grad[of(32)[i]] for i in (0, 1)]


def pair(path):
    return lambda model, layer: [model.get_parameter(path.format(layer, word)).grad for word in ("q", "k")]


def interleaved(model, layer):
    """GPT-NeoX: for each of four heads eight queries, eight keys, eight values."""
    whole = model.get_parameter(f"gpt_neox.layers.{layer}.attention.query_key_value.weight").grad.reshape(4, 3, 8, 32)
    return [whole[:, 0], whole[:, 1]]


def columns(model, layer):
    """GPT-2: x W, with outputs as columns."""
    whole = model.get_parameter(f"transformer.h.{layer}.attn.c_attn.weight").grad
    return [whole[:, :32], whole[:, 32:64]]


MODELS = {
    "bert": (
        lambda: t.BertForMaskedLM(t.BertConfig(**COMMON, **LONGEST)),
        lambda m, i: [m.get_parameter(f"bert.encoder.layer.{i}.attention.self.{word}.weight").grad for word in ("query", "key")],
    ),
    "gpt2": (
        lambda: t.GPT2LMHeadModel(
            t.GPT2Config(vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4, n_positions=32, bos_token_id=1, eos_token_id=2)
        ),
        columns,
    ),
    "neox": (lambda: t.GPTNeoXForCausalLM(t.GPTNeoXConfig(**COMMON, **LONGEST, bos_token_id=1, eos_token_id=2)), interleaved),
    "qwen3": (lambda: t.Qwen3ForCausalLM(t.Qwen3Config(**COMMON, **LONGEST, **GROUPED)), pair("model.layers.{}.self_attn.{}_proj.weight")),
    "torch": (Packed, rows("encoder.layers.{}.self_attn.in_proj_weight", lambda d: (slice(0, d), slice(d, 2 * d)))),
}


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_what_makes_queries_and_keys(tmp_path, name):
    make, brute = MODELS[name]
    torch.manual_seed(0)
    model = make()
    ids = batches()[0]
    with isoscope.watch(model, every=1, data=ids, out=tmp_path / "run") as w:
        out = model(ids)
        (out if isinstance(out, torch.Tensor) else out.logits).square().mean().backward()
        w.step()
    table = w.results().table()
    table = table[table["metric"].eq("gradient_norm")]
    found = {(kind, layer): value for kind, layer, value in zip(table["kind"], table["layer"], table["value"], strict=True)}
    expected = {(kind, i + 1): float(part.norm()) for i in (0, 1) for kind, part in zip(("query", "key"), brute(model, i), strict=True)}
    assert found == pytest.approx(expected, rel=1e-5)
    assert min(expected.values()) > 0


def test_a_weight_that_is_no_parameter_is_looked_for_by_name(tmp_path):
    model, optimizer = started()
    for block in model.blocks:
        block.query.register_parameter("scale", nn.Parameter(torch.ones(1, 1)))
        block.query.forward = lambda x, own=block.query: nn.functional.linear(x, own.weight * own.scale, own.bias)
    with isoscope.watch(model, every=1, data=batches()[0], out=tmp_path / "run", optimizer=optimizer) as w:
        train(model, optimizer, batches(1), w)
    table = w.results().table()
    table = table[table["metric"].eq("gradient_norm") & table["layer"].eq(1)].set_index("kind")
    notes = {kind: json.loads(spec).get("note") for kind, spec in table["spec"].items()}
    assert notes == {"query": BY_NAME, "key": None}
    query = model.blocks[0].query
    assert table["value"]["query"] == pytest.approx(float((query.weight.grad.norm() ** 2 + query.scale.grad.norm() ** 2) ** 0.5), rel=1e-5)


def test_gradients_and_rates_are_taken_before_they_are_gone(tmp_path):
    model, optimizer = started()
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=4)
    norms, rates, losses = {}, {}, {}
    with isoscope.watch(model, every=2, data=batches()[0], out=tmp_path / "run", optimizer=optimizer) as w:
        for step, ids in enumerate(batches(4), 1):
            loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
            loss.backward()
            norms[step], rates[step], losses[step] = float(model.blocks[0].key.weight.grad.norm()), schedule.get_last_lr()[0], loss.item()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            w.step(loss=loss)
    table = w.results().table()
    one = table[table["kind"].eq("key") & table["layer"].eq(1) & table["metric"].eq("gradient_norm")]
    for frame, expected in (
        (one, norms),
        (table[table["metric"].eq("learning_rate")], rates),
        (table[table["metric"].eq("training_loss")], losses),
    ):
        assert dict(zip(frame["step"], frame["value"], strict=True)) == pytest.approx({step: expected[step] for step in (2, 4)}, rel=1e-6)
