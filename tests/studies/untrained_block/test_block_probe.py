"""The curves of an untrained block equal brute force and theory."""

import math

import numpy as np
import pytest
import torch

from isoscope.core.errors import IsoscopeError
from isoscope.studies.untrained_block.block_probe import probe_network
from isoscope.studies.untrained_block.curves import CURVES
from isoscope.studies.untrained_block.networks import PlainNetwork, Sizes
from tests.studies.untrained_block.small_networks import SMALL, draw_network

pytestmark = pytest.mark.usefixtures("one_thread")


def test_curves_equal_brute_force():
    subject = draw_network(SMALL, seed=3)
    bias = torch.randn(32, generator=torch.Generator().manual_seed(5)) * 2
    found = probe_network(subject, bias, (1,), 24).curves()
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
    subject = draw_network(SMALL)
    whole = probe_network(subject, torch.zeros(32), (1,), 8).curves()
    monkeypatch.setattr(PlainNetwork, "AT_ONCE", 1)
    assert len(list(subject.inputs())) == 3
    for name, value in probe_network(subject, torch.zeros(32), (1,), 8).curves().items():
        assert value == pytest.approx(whole[name], rel=1e-5, abs=1e-7)


def test_one_deep_pass_gives_every_depth():
    subject = draw_network(SMALL, depths=(1, 3))
    both = probe_network(subject, torch.ones(32), (1, 3), 8).curves()
    alone = probe_network(subject, torch.ones(32), (1,), 8).curves()
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
        subject = draw_network(sizes, seed=draw)
        direction = torch.nn.functional.normalize(torch.randn(768, generator=torch.Generator().manual_seed(draw)), dim=0)
        for norm, found in values.items():
            found.append(probe_network(subject, direction * norm, (1,), 16).curves())
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
    found = [
        probe_network(draw_network(sizes, seed=seed, init=init, variant="attention-only"), torch.zeros(768), (1,), 8).curves()
        for seed in (0, 1)
    ]
    for name in ("block_query_cosine", "block_key_cosine"):
        assert np.mean([one[name, 1] for one in found]) == pytest.approx(expected, abs=0.04)


def test_infinity_is_refused_and_never_averaged():
    with pytest.raises(IsoscopeError, match="NaN or infinity"):
        probe_network(draw_network(SMALL), torch.full((32,), math.inf), (1,), 8)
