"""Attention of every architecture: what the tap gives is what another model with the same weights writes out, and nothing is changed."""

import copy
import dataclasses
import itertools

import pytest
import torch
from torch import nn

from isoscope.core.errors import IsoscopeError
from isoscope.models.loading.family import Stack, families
from isoscope.models.loading.load import load_model
from isoscope.models.naming.model_name import resolve_model
from isoscope.models.tapping.attention_call import AttentionCall
from isoscope.models.tapping.attention_rows import attention_rows
from isoscope.models.tapping.attention_tap import AttentionTap
from isoscope.models.tapping.tap import Tap
from isoscope.sources import open_source
from tests.models.brute_attention import NORMED, Reference, eager, references
from tests.models.written_attention import (
    CLOSE,
    WRITTEN,
    Block,
    Model,
    labels,
    scores_of,
    split_heads,
    watch_attention,
)
from tests.models.zoo import ZOO, build

BY_TITLE = {small.title: small for small in ZOO}
WITHOUT = tuple(title for family in families for title in family.without_attention)
ATTENDING = [title for title in BY_TITLE if title not in WITHOUT]
ROTARY = {"ModernBERT", "GPT-J", "GPT-NeoX (Pythia)", "Llama", "Falcon", "Qwen2", "Qwen3", "Gemma", "Gemma 2", "Gemma 3", "OLMo", "OLMo 2"}
ROTARY |= {"Moonshine", "isoscope text, causal", "isoscope speech"}


@pytest.fixture(scope="module")
def seen(tmp_path_factory, data):
    """`seen(title)`: the calls of one forward pass, what the untapped and the tapped model gave, and the reference's attentions."""
    made = {}

    def see(title):
        if title not in made:
            small = BY_TITLE[title]
            folder = build(small, tmp_path_factory.mktemp("zoo") / f"small-{len(made)}")
            loaded = load_model(resolve_model(str(folder)))
            arguments = _arguments(loaded, data[loaded.family.source])
            calls, outputs = watch_attention(loaded.family.stacks(loaded.base), lambda: loaded.base(**arguments))
            reference = references(small, eager(small, folder), arguments) if title not in WITHOUT else []
            made[title] = calls, outputs, reference
        return made[title]

    return see


def _arguments(loaded, source):
    """A batch of three pieces, of different sizes where these may share a batch; CANINE's are longer than a chunk."""
    lengths = {"canine": 200, "byt5": 40}
    reader = loaded.family.reader(loaded, lengths.get(loaded.family.name, 20 if loaded.family.source == "text" else None))
    items = itertools.islice(open_source(source, None, loaded.family.source).items(), 8)
    pieces = [piece for item in items for piece in reader.chunks(item.content)]
    alike = [piece for piece in pieces if reader.pads or piece.data.shape == pieces[0].data.shape]
    chosen = sorted(alike[:8], key=lambda piece: piece.size)
    return reader.feed(list({id(piece): piece for piece in (chosen[0], chosen[len(chosen) // 2], chosen[-1])}.values())).arguments


def points(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """(n, h, e) of the positions `at` (b, t)."""
    return x.double().transpose(1, 2)[at]


def compare(calls: list[AttentionCall], reference: list[Reference]) -> None:
    """Sites, scores, masks, weights, queries and keys, call by call."""
    assert [(call.site.stack, call.site.kind, call.site.layer) for call in calls] == [one.site for one in reference]
    for call, one in zip(calls, reference, strict=True):
        where = call.site.label
        scores = scores_of(call)
        assert scores.shape == one.scores.shape, where
        assert torch.equal(scores > -torch.inf, one.open), where
        torch.testing.assert_close(scores[one.open], one.scores[one.open], **CLOSE, msg=lambda text, w=where: f"scores {w}: {text}")
        seeing = one.open.any(-1)
        weights = scores.softmax(-1)[seeing]
        torch.testing.assert_close(weights, one.weights.double()[seeing], **CLOSE, msg=lambda text, w=where: f"weights {w}: {text}")
        if call.scores is not None:
            torch.testing.assert_close(call.scores.double()[one.open], one.scores[one.open], **CLOSE)
        for name, ours, theirs, at in (
            ("queries", call.plain_query, one.query, one.seeing),
            ("keys", call.plain_key, one.key, one.seen),
        ):
            assert ours.shape == theirs.shape, f"{name} {where}"
            torch.testing.assert_close(points(ours, at), points(theirs, at), **CLOSE, msg=lambda text, w=f"{name} {where}": f"{w}: {text}")


@pytest.mark.parametrize("title", ATTENDING)
def test_every_architecture_attends_as_its_eager_twin(title, seen):
    calls, _, reference = seen(title)
    assert reference
    compare(calls, reference)


@pytest.mark.parametrize("title", BY_TITLE)
def test_a_tapped_model_computes_the_same_bit_for_bit(title, seen):
    _, (plain, tapped), _ = seen(title)
    compared = [name for name, value in plain.items() if isinstance(value, torch.Tensor) and torch.equal(value, tapped[name])]
    assert compared == [name for name, value in plain.items() if isinstance(value, torch.Tensor)]
    assert compared


def test_small_models_cover_rotary_grouped_queries_padding_and_several_calls(seen):
    """The cases that matter are there: rotary, grouped queries, padding, causal rows, several calls at one site."""
    turned = {title for title in ATTENDING if any(call.plain_query is not call.query for call in seen(title)[0])}
    assert turned == ROTARY
    # Moonshine's cross-attention is not rotated.
    assert all(call.plain_key is not call.key for title in ROTARY - {"Moonshine"} for call in seen(title)[0])
    assert all(call.plain_key is call.key for title in set(ATTENDING) - ROTARY for call in seen(title)[0])
    for title in ("Llama", "Falcon", "Qwen2", "Qwen3", "Gemma", "Gemma 2", "Gemma 3", "OLMo", "OLMo 2"):
        assert [(call.query.shape[1], call.key.shape[1]) for call in seen(title)[0]] == [(4, 2)] * 3
    for title in ("BERT", "T5", "BART", "DeBERTa-v2", "CharacterBERT", "GPT-2", "Falcon", "GPT-J"):
        opened = seen(title)[2][0].open
        assert not opened[0].all()  # the shortest piece of the batch
        assert opened[-1].all() == (title not in ("GPT-2", "Falcon", "GPT-J"))
    sites = [call.site.label for call in seen("CANINE-s")[0]]
    assert sites.count("characters.attention.1") > 1


@pytest.mark.parametrize("title", WITHOUT)
def test_a_network_without_attention_gives_none(title, seen):
    assert seen(title)[0] == []


@pytest.mark.parametrize("title", ATTENDING)
def test_a_tap_one_head_off_is_seen(title, seen):
    """The comparison can fail: with the queries of the next head it does, where there is a next head, and by their scores alone too."""
    calls, _, reference = seen(title)
    rolled = [dataclasses.replace(call, query=call.query.roll(1, 1), plain_query=call.plain_query.roll(1, 1)) for call in calls]
    scores = [dataclasses.replace(call, query=call.query.roll(1, 1), scores=None) for call in calls]
    assert max(call.query.shape[1] for call in calls) > 1
    for shifted in (rolled, scores):
        with pytest.raises(AssertionError):
            compare(shifted, reference)


@pytest.mark.parametrize("title", ATTENDING)
def test_rows_of_attention_equal_brute_force(title, seen):
    """Entropy, largest, median and smallest weight of every row, over its open positions."""
    calls, _, reference = seen(title)
    for call, one in zip(calls, reference, strict=True):
        rows = attention_rows(call, median=True)
        p = one.scores.masked_fill(~one.open, -torch.inf).softmax(-1)
        seeing = one.open.any(-1)
        assert torch.equal(rows.open.expand(seeing.shape), one.open.sum(-1))
        expected = {
            "entropy": -torch.xlogy(p, p).sum(-1),
            "maximum": p.amax(-1),
            "median": p.masked_fill(~one.open, torch.nan).nanquantile(0.5, -1),
            "minimum": p.masked_fill(~one.open, 2).amin(-1),
        }
        for name, values in expected.items():
            found = getattr(rows, name).double()[seeing]
            torch.testing.assert_close(found, values[seeing], **CLOSE, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.parametrize("title", ATTENDING)
def test_the_mean_query_is_the_projection_of_the_mean_input(title, seen):
    """Paper 1, equation 1: Q̄ = W_Q·mean(x) + b_Q, and K̄ likewise; where a norm lies behind the projection, the mean of its results."""
    calls, _, reference = seen(title)
    for call, one in zip(calls, reference, strict=True):
        torch.testing.assert_close(points(call.plain_query, one.seeing).mean(0), one.mean_query, **CLOSE)
        torch.testing.assert_close(points(call.plain_key, one.seen).mean(0), one.mean_key, **CLOSE)


def test_only_a_norm_behind_the_projection_breaks_equation_1(seen):
    """Of the architectures that are named as normed, W·mean(x) + b is not the mean: the exception is needed, and only there."""
    assert set(ATTENDING) > NORMED
    for title in NORMED:
        calls, _, reference = seen(title)
        norms = [points(call.plain_query, one.seeing).norm(dim=-1) for call, one in zip(calls, reference, strict=True)]
        assert all((norm.std(0) < 0.3 * norm.mean(0)).all() for norm in norms), title


@pytest.mark.parametrize("title", ATTENDING)
def test_removing_the_mean_key_changes_no_weight(title, seen):
    """Reference §2.14: what the mean key adds to a row is the same for all of its positions."""
    for call in seen(title)[0]:
        centred = dataclasses.replace(call, key=(call.key.double() - call.key.double().mean((0, 2), keepdim=True)), scores=None)
        before, after = scores_of(call), scores_of(centred)
        seeing = (before > -torch.inf).any(-1)
        torch.testing.assert_close(after.softmax(-1)[seeing], before.softmax(-1)[seeing], **CLOSE)
        assert (before - after)[before > -torch.inf].abs().max() > 1e-3


@pytest.mark.parametrize("title", ATTENDING)
def test_the_variance_within_rows_splits_into_drift_and_spread(title, seen):
    """Reference §2.14, of each head: mean over rows of the variance of q·k = Q̄ᵀΣ_KQ̄ + tr(Σ_QΣ_K)."""
    for call in seen(title)[0]:
        q = call.query.double()[0]
        k = call.key.double()[0].repeat_interleave(len(q) // call.key.shape[1], 0)
        within = (call.scale * q @ k.mT).var(-1, correction=0).mean(-1)
        mean, spread, keys = q.mean(1), _covariance(q), _covariance(k)
        drift = torch.einsum("he,hef,hf->h", mean, keys, mean)
        torch.testing.assert_close(within, call.scale**2 * (drift + torch.einsum("hef,hfe->h", spread, keys)), **CLOSE)


def _covariance(x):
    """(h, e, e) of the rows of each head."""
    centred = x - x.mean(1, keepdim=True)
    return centred.mT @ centred / x.shape[1]


def test_two_modules_that_attend_in_one_block_are_refused():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = Block(WRITTEN["matmul"]), Block(WRITTEN["matmul"])

        def forward(self, x):
            return self.b(self.a(x))

    class Again(Two):
        def forward(self, x):
            return self.a(self.a(x))

    assert labels(Model(Again(), Again())) == ["encoder.attention.1", "encoder.attention.1", "encoder.attention.2", "encoder.attention.2"]
    with pytest.raises(IsoscopeError, match="Layer 1 of the encoder holds more than one module of attention"):
        labels(Model(Two(), Two()))


@pytest.fixture
def no_fast_path():
    """torch's own fused layer is off wherever a function is watched or a hook is there, and so it must be in the comparison too."""
    torch.backends.mha.set_fastpath_enabled(False)
    yield
    torch.backends.mha.set_fastpath_enabled(True)


def _torch_pair(batch_first):
    """nn.TransformerEncoder and nn.TransformerDecoder."""
    options = {"d_model": 12, "nhead": 3, "dim_feedforward": 20, "batch_first": batch_first}
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(**options), 2, enable_nested_tensor=False)
    return nn.ModuleList([encoder, nn.TransformerDecoder(nn.TransformerDecoderLayer(**options), 2)]).eval()


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("masks", ["none", "padding", "causal", "both", "float"])
def test_torch_transformers(masks, batch_first, no_fast_path):
    """Encoder and decoder, whose sequences are equally long; weights from the modules' own `need_weights`, queries and keys by hand."""
    torch.manual_seed(0)
    ours, theirs = _torch_pair(batch_first), _torch_pair(batch_first)
    theirs.load_state_dict(ours.state_dict())
    x, y = torch.randn(2, 4, 9, 12) if batch_first else torch.randn(2, 9, 4, 12)
    padding = torch.arange(9) >= torch.tensor([[9], [7], [5], [9]]) if masks in ("padding", "both") else None
    causal = torch.ones(9, 9, dtype=torch.bool).triu(1) if masks in ("causal", "both") else torch.randn(9, 9) if masks == "float" else None

    def run(encoder, decoder):
        return decoder(y, encoder(x, mask=causal, src_key_padding_mask=padding), tgt_mask=causal, memory_key_padding_mask=padding)

    expected = []

    def watch(module, args, kwargs):
        weights = nn.MultiheadAttention.forward(module, *args, **kwargs | {"need_weights": True, "average_attn_weights": False})[1]
        w, b = module.in_proj_weight.double().chunk(3), module.in_proj_bias.double().chunk(3)
        sides = [given.double() if batch_first else given.double().transpose(0, 1) for given in args[:2]]
        expected.append((weights.double(), *(split_heads(side @ w[i].T + b[i], 3) for i, side in enumerate(sides))))

    for module in theirs.modules():
        if isinstance(module, nn.MultiheadAttention):
            module.register_forward_pre_hook(watch, with_kwargs=True)
    with torch.inference_mode():
        run(*theirs)
    calls, outputs = watch_attention({"encoder": Stack(ours[0]), "decoder": Stack(ours[1])}, lambda: run(*ours))
    assert torch.equal(*outputs)
    names = ["encoder.attention.1", "encoder.attention.2", "decoder.attention.1", "decoder.cross_attention.1"]
    assert [call.site.label for call in calls] == [*names, "decoder.attention.2", "decoder.cross_attention.2"]
    for call, (weights, query, key) in zip(calls, expected, strict=True):
        torch.testing.assert_close(scores_of(call).softmax(-1), weights, **CLOSE)
        torch.testing.assert_close(call.plain_query.double(), query, **CLOSE)
        torch.testing.assert_close(call.plain_key.double(), key, **CLOSE)
        with pytest.raises(AssertionError):
            torch.testing.assert_close(scores_of(dataclasses.replace(call, query=call.query.roll(1, 1))).softmax(-1), weights, **CLOSE)


def test_keys_without_a_position_are_refused(no_fast_path):
    layer = nn.TransformerEncoderLayer(12, 3, 20, batch_first=True).eval()
    layer.self_attn = nn.MultiheadAttention(12, 3, add_zero_attn=True, batch_first=True).eval()
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    tap = Tap({"encoder": Stack(model)}, lambda site, state: None)
    tap.begin()
    watched = AttentionTap(tap.running, lambda call: None)
    with pytest.raises(IsoscopeError, match="put in keys that no position has"), torch.inference_mode(), tap.attach(), watched:
        model(torch.randn(2, 9, 12))


@pytest.mark.models
@pytest.mark.parametrize(
    ("name", "title", "sites"),
    [("minilm", "BERT", "encoder:6"), pytest.param("smollm2", "Llama", "decoder:30", marks=pytest.mark.slow)],
)
def test_real_weights(name, title, sites, request):
    """In float64, where two ways to the same number leave no room for rounding."""
    folder = str(request.getfixturevalue(name))
    loaded = load_model(resolve_model(folder))
    arguments = _arguments(loaded, "embedded")
    twin = copy.deepcopy(loaded.base.double())
    twin.set_attn_implementation("eager")
    calls, (plain, tapped) = watch_attention(loaded.family.stacks(loaded.base), lambda: loaded.base(**arguments)[0])
    assert torch.equal(plain, tapped)
    small = dataclasses.replace(BY_TITLE[title], config={"num_key_value_heads": calls[0].key.shape[1]}, sites=sites)
    compare(calls, references(small, twin, arguments))
