"""Metrics of attention against softmax written out, and against closed forms (reference §2.10, §2.14, §2.15)."""

import math

import numpy as np
import pytest
import torch

import isoscope.metrics as m
from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.estimation.matrix_cloud import cloud_of
from isoscope.estimation.site_clouds import AttentionCloud
from isoscope.models.tapping.attention_call import AttentionCall
from isoscope.models.tapping.attention_rows import attention_rows, count_scores
from isoscope.models.tapping.layout import Layout
from isoscope.models.tapping.reduction import reduce_heads, reduce_rows
from isoscope.statistics.attention_statistics import EDGES, AttentionStatistics
from isoscope.statistics.head_statistics import Heads
from isoscope.statistics.sample import point_hashes

NAMES = ["special", "first", "body"]
SITE = Site("encoder", "attention", 1)


def laid(b, t, first=0):
    codes = np.full((b, t), 2, dtype=np.int16)
    codes[:, 0] = 0
    item = (first + np.arange(b)).astype(np.uint64)
    index = np.tile(np.arange(t), (b, 1))
    hashes = point_hashes(0, np.repeat(item, t), index.ravel()).reshape(b, t)
    return Layout(codes, None, hashes, index, item, item.astype(np.int64), (item % 64).astype(np.int64), np.ones(b, dtype=bool))


def measured(query, key, scale, mask=None, **kept):
    """A cloud for each head, through the kernel and the statistics; `query` (b, h, t, e), one batch."""
    b, h, t, e = query.shape
    layout = laid(b, t)
    call = AttentionCall(SITE, query, key, scale, None, mask, None, query, key)
    statistics = AttentionStatistics(h, e, NAMES, scale=scale, median=True, histogram=True)
    reduce_rows(statistics, attention_rows(call, median=True), layout, SITE, "made")
    statistics.count(count_scores(call, torch.arange(t), torch.from_numpy(layout.codes >= 0)))
    sides = []
    for x in (query, key):
        heads = Heads(x.shape[1], e, NAMES)
        reduce_heads(heads, x, layout, SITE, "made")
        sides.append(heads.split())
    group = h // key.shape[1]
    return [AttentionCloud.of(statistics, "all", j, queries=sides[0][j], keys=sides[1][j // group]) for j in range(h)]


@pytest.fixture(scope="module")
def case():
    g = torch.Generator().manual_seed(0)
    query = torch.randn(9, 4, 30, 16, generator=g) * torch.tensor([0.3, 1, 3, 6])[:, None, None] + 0.7
    key = torch.randn(9, 2, 30, 16, generator=g) + 0.4
    mask = torch.ones(30, 30).tril().bool()
    return query, key, mask, measured(query, key, 0.25, mask)


@pytest.mark.parametrize("j", range(4))
def test_every_metric_equals_brute_force(case, j):
    query, key, _, clouds = case
    q, k = query[:, j].double().numpy(), key[:, j // 2].double().numpy()
    s = np.einsum("bte,bse->bts", q, k) * 0.25
    rows = [(i, r, s[i, r, : r + 1]) for i in range(9) for r in range(30)]
    ps = [(i, r, np.exp(x - x.max()) / np.exp(x - x.max()).sum()) for i, r, x in rows]
    entropy = [-(p * np.log(p)).sum() for _, _, p in ps]
    received = np.zeros((9, 30))
    for i, r, p in ps:
        received[i, : r + 1] += p
    every = np.concatenate([x for _, _, x in rows])
    of_sequence = [[p for i, _, p in ps if i == n] for n in range(9)]
    mean_q, mean_k = q.reshape(-1, 16).mean(0), k.reshape(-1, 16).mean(0)
    cov_q, cov_k = np.cov(q.reshape(-1, 16).T), np.cov(k.reshape(-1, 16).T)
    drift = mean_q @ cov_k @ mean_q
    expected = {
        "attention_entropy": np.mean(entropy),
        "attention_entropy_normalised": np.mean([h / math.log(r + 1) for h, (_, r, _) in zip(entropy, ps, strict=True) if r]),
        "attention_max": np.mean([p.max() for *_, p in ps]),
        "attention_median": np.mean([np.median(p) for *_, p in ps]),
        "attention_min": np.mean([p.min() for *_, p in ps]),
        "attention_sequence_max": np.mean([max(p.max() for p in own) for own in of_sequence]),
        "attention_sequence_min": np.mean([min(p.min() for p in own) for own in of_sequence]),
        "score_row_sd": np.sqrt(np.mean([x.var() for *_, x in rows])),
        "score_offset": np.mean([x.mean() for *_, x in rows]),
        "score_sd": every.std(),
        "sink_mass": np.mean([p[0] for *_, p in ps]),
        "sink_mass_top": received.max(1).sum() / 270,
        "sink_rate": (received.max(1) > 0.3 * 30).mean(),
        "qk_cosine": mean_q @ mean_k / np.linalg.norm(mean_q) / np.linalg.norm(mean_k),
        "qk_dot": 0.25 * mean_q @ mean_k,
        "drift_sharpening": drift / (drift + np.trace(cov_q @ cov_k)),
    }
    assert set(expected) == {metric.name for metric in m.metrics("attention")}
    for name, value in expected.items():
        found = getattr(m, name)(clouds[j])
        assert found == pytest.approx(value, rel=2e-5, abs=1e-7), name
        assert found.low <= found <= found.high, name
        assert found.d == 16
    _, y, width = m.score_histogram(clouds[j])
    np.testing.assert_allclose(y.sum(), 1)
    counts = np.histogram(every, EDGES)[0]
    held = np.flatnonzero(counts)
    assert np.abs(y - (counts / counts.sum())[held[0] : held[-1] + 1]).sum() < 2e-3
    assert (width > 0).all()


def test_nulls_are_those_of_uniform_rows():
    """Keys that are all equal make every row uniform: each number sits at its null."""
    g = torch.Generator().manual_seed(1)
    query, key = torch.randn(4, 1, 20, 8, generator=g), torch.ones(4, 1, 20, 8)
    cloud = measured(query, key, 1.0, torch.ones(20, 20).tril().bool())[0]
    for name in ("attention_entropy", "attention_entropy_normalised", "attention_max", "attention_median", "attention_min", "sink_mass"):
        found = getattr(m, name)(cloud)
        assert found == pytest.approx(found.null, rel=1e-5), name
    assert m.sink_mass_top(cloud) == pytest.approx(m.sink_mass_top(cloud).null, rel=1e-5)
    assert m.score_row_sd(cloud) == pytest.approx(0, abs=1e-5)
    assert m.attention_entropy(cloud).null == pytest.approx(np.mean(np.log(np.arange(1, 21))))
    assert m.qk_cosine(cloud).null_sd == pytest.approx(8**-0.5)


def test_a_sliding_window_hides_the_first_position_from_the_null_of_sinks():
    """Of 20 rows that see 4 positions each, only the first four see position 0; uniform rows give it (1 + 1/2 + 1/3 + 1/4)/20."""
    g = torch.Generator().manual_seed(1)
    query, key = torch.randn(4, 1, 20, 8, generator=g), torch.ones(4, 1, 20, 8)
    window = torch.ones(20, 20).tril().bool() & ~torch.ones(20, 20).tril(-4).bool()
    found = m.sink_mass(measured(query, key, 1.0, window)[0])
    assert found.null == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 20)
    assert found == pytest.approx(found.null, rel=1e-5)


@pytest.mark.parametrize(("sd", "share"), [(1, 0.92), (2, 0.71), (4, 0.34), (8, 0.13)])
def test_isotropic_queries_can_be_as_sharp_as_one_likes(sd, share):
    g = torch.Generator().manual_seed(sd)
    query, key = sd * torch.randn(1, 2, 512, 256, generator=g), torch.randn(1, 2, 512, 256, generator=g)
    for cloud in measured(query, key, 256**-0.5):
        assert m.attention_entropy_normalised(cloud) == pytest.approx(share, abs=0.015)
        assert m.score_row_sd(cloud) == pytest.approx(sd, rel=0.03)
        assert m.drift_sharpening(cloud) < 0.02


def test_row_variance_splits_into_drift_and_the_rest():
    """Reference §2.14, exact over one sequence without a mask: row variance = Q̄ᵀΣ_KQ̄ + tr Σ_QΣ_K."""
    g = torch.Generator().manual_seed(4)
    query, key = torch.randn(1, 1, 200, 12, generator=g) + 0.8, torch.randn(1, 1, 200, 12, generator=g) * 2 - 0.3
    cloud = measured(query, key, 1.0)[0]
    q, k = query[0, 0].double().numpy(), key[0, 0].double().numpy()
    mean, spread_q, spread_k = q.mean(0), np.cov(q.T, bias=True), np.cov(k.T, bias=True)
    assert m.score_row_sd(cloud) ** 2 == pytest.approx(mean @ spread_k @ mean + np.trace(spread_q @ spread_k), rel=1e-5)
    # The score's offset is what the means make, and it makes nothing sharper.
    assert m.score_offset(cloud) == pytest.approx(m.qk_dot(cloud), rel=1e-4)


def test_a_sink_is_found_wherever_it_is():
    g = torch.Generator().manual_seed(2)
    query = torch.randn(6, 1, 25, 8, generator=g) + 2
    key = torch.randn(6, 1, 25, 8, generator=g)
    key[:, :, 7] += 3
    cloud = measured(query, key, 1.0)[0]
    assert m.sink_rate(cloud) == 1
    assert m.sink_mass_top(cloud) > 0.9
    assert m.sink_mass(cloud) < 0.1


def test_one_open_position_has_no_normalised_entropy():
    query = torch.randn(3, 1, 5, 4, generator=torch.Generator().manual_seed(0))
    cloud = measured(query, query, 1.0, torch.eye(5, dtype=torch.bool))[0]
    assert math.isnan(m.attention_entropy_normalised(cloud))
    assert m.attention_entropy_normalised(cloud).note == "no row sees more than one position"
    assert m.attention_max(cloud) == 1


def test_intervals_cover_what_they_should():
    """Of 60 draws of 30 sequences with a mean of their own, some 95 % of the intervals hold the mean over many."""
    rng = np.random.default_rng(0)

    def drawn(b):
        level = rng.standard_normal(b)
        rows = {name: np.full((b, 1, 4), 0.5) for name in ("maximum", "minimum", "mean", "sd", "first")}
        rows |= {"open": np.full((b, 1, 4), 9), "sees_first": np.ones((b, 1, 4), dtype=bool), "received": np.ones((b, 1, 9))}
        rows["entropy"] = (1.5 + 0.2 * level[:, None] + 0.02 * rng.standard_normal((b, 4)))[:, None]
        statistics = AttentionStatistics(1, 8, NAMES)
        statistics.update(rows, np.full((b, 4), 2, dtype=np.int16), rng.integers(0, 64, b))
        return m.attention_entropy(AttentionCloud.of(statistics, "all"))

    inside = sum(value.low <= 1.5 <= value.high for value in (drawn(30) for _ in range(60)))
    assert 51 <= inside <= 60


def test_points_and_rows_are_not_mistaken_for_each_other(case):
    cloud = case[3][0]
    with pytest.raises(IsoscopeError, match="mean_cosine is a number of points, and it was given rows of attention"):
        m.mean_cosine(cloud)
    with pytest.raises(IsoscopeError, match="attention_entropy is a number of rows of attention, and it was given points"):
        m.attention_entropy(np.eye(4))
    points = cloud_of(np.random.default_rng(0).standard_normal((9, 4)))
    for entry in m.registry:
        assert entry.available(cloud) != entry.available(points), entry.name
    bare = AttentionStatistics(4, 16, NAMES)
    bare.sums, bare.sequences = np.ones_like(bare.sums), np.ones_like(bare.sequences)
    with pytest.raises(IsoscopeError, match="qk_cosine needs queries and keys, which were not kept"):
        m.qk_cosine(AttentionCloud.of(bare, "all"))
    assert not m.attention_median.available(AttentionCloud.of(bare, "all"))
