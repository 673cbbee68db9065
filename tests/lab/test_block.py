"""The untrained block: equal to other people's blocks, and to what theory says of it."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from isoscope.core.block import CURVES, HISTOGRAM, NUMBERS
from isoscope.core.errors import IsoscopeError
from isoscope.figures import figures
from isoscope.lab.architectures import Architecture
from isoscope.lab.block import Network, Trial, carry_out, fixed_point, keep_trained, plan, verdict
from isoscope.lab.networks import Block, Plain, Sizes, parse_variant
from isoscope.lab.sight import look
from isoscope.store.run import Run

SMALL = Sizes(d=32, heads=4, length=24, batch=3, vocabulary=50)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def copied(block: Block, pairs: dict) -> None:
    with torch.no_grad():
        for name, theirs in pairs.items():
            mine = block.get_submodule(name)
            mine.weight.copy_(theirs.weight)
            mine.bias.copy_(theirs.bias)


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
    copied(mine, parts | {"around_mlp": theirs.output.LayerNorm})
    x = torch.randn(2, 7, 32)
    with torch.inference_mode():
        torch.testing.assert_close(mine(x), theirs(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("first", [True, False])
def test_pre_and_post_ln_are_torch_encoder_layers(first):
    theirs = shaken(torch.nn.TransformerEncoderLayer(32, 4, 128, activation="gelu", batch_first=True, norm_first=first))
    mine = Block(32, 4, 128, norm="pre" if first else "post", eps=1e-5)
    copied(mine, {"out": theirs.self_attn.out_proj, "up": theirs.linear1, "down": theirs.linear2})
    copied(mine, {"around_attention": theirs.norm1, "around_mlp": theirs.norm2})
    with torch.no_grad():
        for i, name in enumerate(("query", "key", "value")):
            part = mine.get_submodule(name)
            part.weight.copy_(theirs.self_attn.in_proj_weight[32 * i : 32 * (i + 1)])
            part.bias.copy_(theirs.self_attn.in_proj_bias[32 * i : 32 * (i + 1)])
    x = torch.randn(2, 7, 32)
    torch.testing.assert_close(mine(x), theirs(x), atol=1e-5, rtol=1e-5)


def test_variants_leave_out_what_they_say():
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


def drawn(sizes: Sizes, seed: int = 0, **choices: str) -> Plain:
    network = Network(**choices)
    subject = network.subject(sizes)
    subject.draw(seed)
    return subject


def test_initialisations_are_what_they_say():
    bert, torchs = drawn(SMALL), drawn(SMALL, init="torch")
    weight, bias = bert.blocks[0].up.weight, bert.blocks[0].up.bias
    assert weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert bias.abs().max().item() == 0
    assert float(bert.points.std()) == pytest.approx(0.02, rel=0.05)
    assert 0 < torchs.blocks[0].up.bias.abs().max().item() <= 32**-0.5
    assert torchs.blocks[0].up.weight.std().item() == pytest.approx((3 * 32) ** -0.5, rel=0.05)
    torch.testing.assert_close(bert.points, torchs.points)
    sums = drawn(SMALL, init="words-positions-types").points
    torch.testing.assert_close(sums.norm(dim=-1), torch.full((3, 24), math.sqrt(32)), rtol=1e-5, atol=1e-5)


def test_curves_equal_brute_force():
    subject = drawn(SMALL, seed=3)
    bias = torch.randn(32, generator=torch.Generator().manual_seed(5)) * 2
    found = look(subject, bias, (1,), 24).curves()
    block, x = subject.blocks[0], (subject.points + bias).double()
    block.double()
    with torch.inference_mode():
        out = block(x)
        query, key = ((part(x).unflatten(-1, (4, 8)).transpose(1, 2)) for part in (block.query, block.key))
    scores = query @ key.transpose(-1, -2) / 8**0.5
    rows = scores.softmax(-1)

    def cosine(points: torch.Tensor) -> float:
        u = torch.nn.functional.normalize(points.reshape(-1, points.shape[-1]), dim=-1)
        c = u @ u.T
        n = len(u)
        return float((c.sum() - c.trace()) / (n * (n - 1)))

    def dot_of_pairs(points: torch.Tensor) -> float:
        products = points.flatten(0, 1) @ points.flatten(0, 1).T
        return float((products.sum() - products.trace()) / (len(products) * (len(products) - 1)))

    truth = {
        ("block_cosine", 0): cosine(x),
        ("block_cosine", 1): cosine(out),
        ("block_mean_norm", 0): x.norm(dim=-1).mean(),
        ("block_mean_norm", 1): out.norm(dim=-1).mean(),
        ("block_drift_norm", 1): dot_of_pairs(out) ** 0.5,
        ("block_query_cosine", 1): np.mean([cosine(query[:, head]) for head in range(4)]),
        ("block_key_cosine", 1): np.mean([cosine(key[:, head]) for head in range(4)]),
        ("block_query_cosine_whole", 1): cosine(query.transpose(1, 2).flatten(2)),
        ("block_key_norm", 1): key.norm(dim=-1).mean(),
        ("block_score_mean", 1): scores.mean(),
        ("block_score_offset", 1): scores.mean((0, 2, 3)).abs().mean(),
        ("block_score_sd", 1): scores.std(correction=0),
        ("block_score_row_sd", 1): scores.std(-1, correction=0).mean(),
        ("block_entropy", 1): -(rows * rows.log()).sum(-1).mean(),
        ("block_entropy_gap", 1): math.log(24) + (rows * rows.log()).sum(-1).mean(),
        ("block_row_max", 1): rows.amax(-1).mean(),
        ("block_row_min", 1): rows.amin(-1).mean(),
        ("block_row_median", 1): np.median(rows.numpy(), -1).mean(),
        ("block_sequence_max", 1): rows.amax((1, 2, 3)).mean(),
        ("block_sequence_min", 1): rows.amin((1, 2, 3)).mean(),
    }
    for name, value in truth.items():
        assert found[name] == pytest.approx(float(value), rel=2e-4, abs=2e-7), name
    assert {name for name, _ in found} == set(CURVES)


def test_sequences_run_apart_or_together_are_the_same(monkeypatch):
    subject = drawn(SMALL)
    whole = look(subject, torch.zeros(32), (1,), 8).curves()
    monkeypatch.setattr(Plain, "AT_ONCE", 1)
    assert len(list(subject.inputs())) == 3
    for name, value in look(subject, torch.zeros(32), (1,), 8).curves().items():
        assert value == pytest.approx(whole[name], rel=1e-5, abs=1e-7)


def test_one_deep_pass_gives_every_depth():
    subject = drawn(SMALL, depths=(1, 3))
    both = look(subject, torch.ones(32), (1, 3), 8).curves()
    alone = look(subject, torch.ones(32), (1,), 8).curves()
    assert {layer for _, layer in both} == {0, 1, 3}
    assert all(both[key] == value for key, value in alone.items())
    assert both["block_cosine", 3] != both["block_cosine", 1]


def common_part(d: int = 768, sigma: float = 0.02) -> float:
    """The cosine that a BERT block makes of nothing: GELU has a mean m, which the second layer turns into a common vector.

    Behind the first norm the inner units are N(0, dσ²); of g, their GELU, the output keeps 4dσ²m² beside a variance of 1 + 4dσ²E g².
    """
    z = np.linspace(-10, 10, 100_001) * (d * sigma**2) ** 0.5
    weights = np.exp(-(z**2) / (2 * d * sigma**2))
    g = torch.nn.functional.gelu(torch.from_numpy(z)).numpy()
    mean, square = (float((weights * x).sum() / weights.sum()) for x in (g, g**2))
    return 4 * d * sigma**2 * mean**2 / (1 + 4 * d * sigma**2 * square)


def test_the_block_of_the_paper_at_a_smaller_length():
    """σ = 0.02 and d = 768 decide these numbers, not how many tokens there are."""
    sizes = Sizes(length=128, batch=2, vocabulary=2000)
    values = {norm: [] for norm in (0.0, 1.0, 5.0)}
    for draw in range(3):
        subject = drawn(sizes, seed=draw)
        direction = torch.nn.functional.normalize(torch.randn(768, generator=torch.Generator().manual_seed(draw)), dim=0)
        for norm, found in values.items():
            found.append(look(subject, direction * norm, (1,), 16).curves())
    unbiased = math.sqrt(768 * common_part())
    expected = {0.0: (0.0, common_part(), unbiased), 1.0: (0.765, 0.775, 24.4), 5.0: (0.988, 0.9885, 27.55)}
    for norm, (enters, leaves, drift) in expected.items():
        mean = {key: float(np.mean([one[key] for one in values[norm]])) for key in values[norm][0]}
        assert mean["block_cosine", 0] == pytest.approx(enters, abs=0.003)
        assert mean["block_cosine", 1] == pytest.approx(leaves, abs=0.0025 if norm == 0 else 0.012)
        assert mean["block_drift_norm", 1] == pytest.approx(drift, abs=0.4)
        assert mean["block_mean_norm", 1] == pytest.approx(math.sqrt(768), rel=1e-5)
        # A small spread of scores s lowers the entropy of a row by s²/2.
        assert mean["block_entropy_gap", 1] == pytest.approx(mean["block_half_row_variance", 1], rel=0.02, abs=2e-7)


@pytest.mark.parametrize(("init", "expected"), [("bert", 0.0), ("words-positions-types", 1 / 3), ("torch", 0.765)])
def test_query_cosine_without_bias_is_the_initialisations(init, expected):
    """A third is the type vector's part; a torch bias has the variance 1/(3d) beside σ²/3 of the rest."""
    sizes = Sizes(length=64, batch=2, vocabulary=2000)
    found = [look(drawn(sizes, seed=seed, init=init, variant="attention-only"), torch.zeros(768), (1,), 8).curves() for seed in (0, 1)]
    for name in ("block_query_cosine", "block_key_cosine"):
        assert np.mean([one[name, 1] for one in found]) == pytest.approx(expected, abs=0.04)


def test_fixed_point_of_post_ln_is_the_norm_and_pre_ln_has_none(tmp_path):
    sizes = Sizes(length=32, batch=2, vocabulary=500)
    trial = Trial(sizes, norms=(0.0, 1.0, 5.0, 25.0, 30.0), draws=3)
    run = Run(tmp_path)
    for norm in ("post", "pre"):
        assert carry_out(run, Network(norm=norm), trial)
    post, pre = (cell.rows().set_index("metric") for cell in run.cells())
    assert post.loc["norm_fixed_point", "value"] == pytest.approx(math.sqrt(768 * (1 - 0.02**2)), abs=0.002)
    assert post.loc["norm_fixed_point", "low"] <= post.loc["norm_fixed_point", "value"] <= post.loc["norm_fixed_point", "high"]
    assert "not a property of the block" in post.loc["norm_fixed_point", "spec"]
    assert post.loc["output_norm_change", "value"] < 1e-5
    assert math.isnan(pre.loc["norm_fixed_point", "value"])
    assert "no fixed point" in pre.loc["norm_fixed_point", "spec"]
    assert set(post.index) == set(NUMBERS) - {"trained_norm"}


def test_fixed_point_by_hand():
    norms = np.array([0.0, 10.0, 20.0])
    assert fixed_point(norms, norms, np.array([14.0, 14.0, 14.0])) == pytest.approx(14.0)
    assert math.isnan(fixed_point(norms, norms, norms + 1))
    assert fixed_point(norms, norms + 1, np.array([1.0, 5.0, 5.0])) == 0


def test_a_cell_is_not_computed_twice_and_another_choice_is_another_cell(tmp_path):
    run, steps = Run(tmp_path), []
    trial = Trial(SMALL, norms=(0.0, 2.0), draws=2)
    assert carry_out(run, Network(), trial, lambda: steps.append(1))
    assert len(steps) == 4
    assert not carry_out(run, Network(), trial, lambda: steps.append(1))
    assert len(steps) == 4
    assert carry_out(run, Network(), Trial(SMALL, norms=(0.0, 2.0), draws=2, seed=1))
    series = run.cells()[0].series()
    assert set(series["name"]) == {*CURVES, HISTOGRAM}
    assert set(series["seed"]) == {0, 1}
    histogram = series[series["name"].eq(HISTOGRAM) & series["seed"].eq(0) & series["weight"].eq(2.0)]
    width = np.diff(histogram["x"].to_numpy()).mean()
    assert histogram["y"].sum() * width == pytest.approx(1.0, rel=1e-3)


def test_draws_differ_and_repeat(tmp_path):
    trial = Trial(SMALL, norms=(1.0,), draws=2)
    for name in ("a", "b"):
        carry_out(Run(tmp_path / name), Network(), trial)
    one, two = (Run(tmp_path / name).cells()[0].series() for name in ("a", "b"))
    pd.testing.assert_frame_equal(one, two)
    out = one[one["name"].eq("block_cosine") & one["layer"].eq(1)]["y"].to_numpy()
    assert out[0] != out[1]


def test_plan_of_a_grid():
    names = [network.name for network in plan(["bert", "torch"], ["post", "pre"], ["full", "no-norm"], [1, 12, 2])]
    assert names == [
        "block bert post-LN",
        "block bert pre-LN",
        "block torch post-LN",
        "block torch pre-LN",
        "block bert, no norm",
        "block bert post-LN, 12 blocks",
        "block bert pre-LN, 12 blocks",
    ]


def test_an_architecture_of_transformers_is_run_with_its_own_embeddings_and_blocks(tmp_path):
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(vocab_size=50, n_embd=32, n_layer=3, n_head=4, n_positions=24)
    config.save_pretrained(tmp_path)
    subject = Architecture(str(tmp_path), (1, 2)).subject(SMALL)
    subject.draw(0)
    assert subject.width == 32
    bias = torch.ones(32)
    found = look(subject, bias, (1, 2), 24).curves()
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
    theirs = Architecture(str(tmp_path)).subject(SMALL)
    theirs.draw(0)
    mine = drawn(SMALL, init="words-positions-types")
    layer = theirs._model.encoder.layer[0]
    inner = layer.attention.self
    parts = {"query": inner.query, "key": inner.key, "value": inner.value, "out": layer.attention.output.dense}
    copied(mine.blocks[0], parts | {"up": layer.intermediate.dense, "down": layer.output.dense})
    with torch.inference_mode():
        mine.points = theirs._model.embeddings(torch.cat(list(theirs.inputs())))
    one, two = (look(subject, torch.full((32,), 0.5), (1,), 24).curves() for subject in (theirs, mine))
    assert set(one) == set(two)
    for name, value in two.items():
        assert one[name] == pytest.approx(value, rel=2e-4, abs=1e-6), name


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Network(init="brt"), "did you mean bert?"),
        (lambda: Network(norm="layer"), "--norm takes post, pre, rms"),
        (lambda: Network(depths=(0,)), "--depth counts blocks"),
        (lambda: parse_variant("full+mlp"), "did you mean"),
        (lambda: parse_variant("attention-only+mlp-only"), "cannot be joined"),
        (lambda: Trial(norms=(-1.0,)), "0 or above; got -1"),
        (lambda: Trial(norms=(math.nan,)), "0 or above"),
        (lambda: Trial(draws=0), "--draws must be at least 1"),
        (lambda: Sizes(d=10, heads=3), "a multiple of --heads"),
        (lambda: Sizes(length=1), "--length must be at least 2"),
        (lambda: Sizes(sigma=0.0), "--sigma must be above 0"),
        (lambda: Architecture("no-such-type"), "a type that transformers knows"),
        (lambda: Architecture("bert", (13,)), "bert has 12 blocks"),
    ],
)
def test_what_cannot_be_is_said(make, said):
    with pytest.raises(IsoscopeError, match=said):
        make()


def test_infinity_is_not_averaged():
    with pytest.raises(IsoscopeError, match="NaN or infinity"):
        look(drawn(SMALL), torch.full((32,), math.inf), (1,), 8)


def test_every_figure_is_drawn_and_holds_the_mean_and_the_range_over_draws(tmp_path):
    run = Run(tmp_path)
    trial = Trial(SMALL, norms=(0.0, 2.0, 8.0), draws=3)
    carry_out(run, Network(), trial)
    table, series = run.cells()[0].rows(), run.cells()[0].series()
    own = series[series["name"].eq("block_row_max") & series["x"].eq(8.0)]["y"]
    for name in figures.names():
        if name.startswith("block_"):
            assert figures[name].draw(table, series) is not None, name
            assert figures[name].draw(table.iloc[:0], series.iloc[:0]) is None, name
    spec = figures["block_rows"].draw(table, series).to_dict()
    values = [row for panel in spec["datasets"].values() for row in panel if row["curve"] == "maximum" and row["x"] == 8]
    assert values[0]["mean"] == pytest.approx(own.mean(), rel=1e-4)
    assert values[0]["min"] == pytest.approx(own.min(), rel=1e-4)
    assert values[0]["max"] == pytest.approx(own.max(), rel=1e-4)


def test_norms_of_a_trained_model_are_kept_beside(tmp_path):
    from tests.figures.made_table import made_table

    run = Run(tmp_path)
    table, _ = made_table(twin=False)
    keep_trained(run, table, "made")
    kept = run.cells()[0].rows()
    truth = table[table["metric"].eq("mean_norm") & table["kind"].eq("hidden") & table["policy"].eq("all")]
    assert set(kept["metric"]) == {"trained_norm"}
    assert sum(len(cell.rows()) for cell in run.cells()) == len(truth)
    with pytest.raises(IsoscopeError, match="holds no mean_norm"):
        keep_trained(run, table.iloc[:0], "empty")


def test_a_mean_that_meets_its_input_below_the_length_of_a_norm_is_a_crossing():
    norms = np.array([0.0, 5.0, 10.0])
    length = np.full((2, 3), 10.0)
    enters, leaves = np.tile([4.0, 6.4, 10.8], (2, 1)), np.tile([4.5, 6.0, 8.0], (2, 1))
    each = np.array([fixed_point(norms, a, b) for a, b in zip(enters, leaves, strict=True)])
    assert verdict(norms, enters, leaves, each, length).startswith("a crossing: over N = 0 to 10 the output's length runs from 4.5 to 8")
    assert "its last norm makes every output 10.00 long" in verdict(norms, enters, length, np.array([9.0, 9.0]), length)
