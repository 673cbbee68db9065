"""Intervals: how often they cover what they claim to, in simulations with known answers."""

import numpy as np
import pytest
from scipy.stats import t as student

from isoscope.estimation.cloud import Cloud
from isoscope.metrics import between_cosine, drift_norm, drift_ratio, mean_cosine, mean_norm, participation_ratio, top_share
from isoscope.statistics.jackknife_groups import GROUPS, Groups
from isoscope.statistics.kernel import block_sums
from isoscope.statistics.sample import item_hash, mix, point_hashes
from isoscope.statistics.site_statistics import SiteStatistics

BODY = "body"
UNITS = np.array([item_hash(str(i)) for i in range(200)], dtype=np.uint64)


def site(x, mask, *, second=False, sample=0):
    """The statistics of documents (g, t, d) of unequal length, as a pass over a corpus makes them."""
    g, t, d = x.shape
    unit = UNITS[:g]
    statistics = SiteStatistics(d, [BODY], second=second, sample=sample)
    sums = block_sums(x, mask)
    statistics.moments[0].add(sums, x[mask] if second else None)
    statistics.groups.update((unit % np.uint64(GROUPS)).astype(np.int64), [sums], unit=unit.astype(np.int64))
    if sample:
        owner, index = np.repeat(unit, t), np.tile(np.arange(t), g)
        flat = x.reshape(-1, d)
        statistics.sample.update(flat, point_hashes(0, owner, index), owner, index, np.where(mask.ravel(), 0, -1))
    return Cloud.of(statistics, BODY)


def corpus(rng, count, *, shared, drift, scale, longest=24):
    """Documents with a mean of their own: drift + shared·a_document + a token's part."""
    d = len(drift)
    lengths = 1 + np.minimum(rng.geometric(0.15, count), longest - 1)
    x = drift + scale * (shared * rng.standard_normal((count, 1, d)) + (1 - shared**2) ** 0.5 * rng.standard_normal((count, longest, d)))
    return x, np.arange(longest) < lengths[:, None]


def test_coverage_of_the_cosine_between_documents():
    """The interval covers ‖E u‖², the mean cosine of two tokens of different documents, in 93 % of draws or more."""
    drift, scale = np.array([0.8, 0, 0, 0.3, 0, 0]), np.ones(6)
    rng = np.random.default_rng(0)
    far = drift + scale * rng.standard_normal((2_000_000, 6))
    # E‖mean‖² is above ‖E u‖² by 1/n, which at this n is 5e-7.
    truth = float((np.mean(far / np.linalg.norm(far, axis=1, keepdims=True), axis=0) ** 2).sum())
    covered, all_pairs, draws = 0, 0, 300
    for draw in range(draws):
        cloud = site(*corpus(rng, 40 + 32 * (draw % 6), shared=0.7, drift=drift, scale=scale))
        found = between_cosine(cloud)
        assert found.low < found < found.high
        covered += found.low <= truth <= found.high
        naive = mean_cosine(cloud)
        all_pairs += naive.low <= truth <= naive.high
    assert covered >= 0.93 * draws
    assert covered <= 0.995 * draws  # nor is it so wide that it says nothing
    assert all_pairs < covered  # pairs within a document bias the mean over all pairs


@pytest.mark.parametrize("length", [0.0, 1.0, 4.0])
def test_coverage_of_drift(length):
    """Pairs within a document are left out: the estimate has no bias, and the interval covers the population's drift, be it 0 or not."""
    d, draws, rng = 64, 200, np.random.default_rng(8)
    drift = np.full(d, length / d**0.5)
    truth = {drift_norm: length, drift_ratio: length**2 / (length**2 + d)}
    covered, squares = dict.fromkeys(truth, 0), []
    for _ in range(draws):
        cloud = site(*corpus(rng, 100, shared=0.6, drift=drift, scale=np.ones(d)))
        squares.append(float(cloud.totals.squared_mean))
        for metric, expected in truth.items():
            found = metric(cloud)
            assert found.low <= found <= found.high
            covered[metric] += found.low <= expected <= found.high
    assert abs(np.mean(squares) - length**2) < 4 * np.std(squares) / draws**0.5
    for metric, count in covered.items():
        assert count >= 0.92 * draws, metric.name


def test_drift_of_one_document_is_not_known():
    found = drift_ratio(site(np.random.default_rng(9).standard_normal((1, 5, 3)), np.ones((1, 5), dtype=bool)))
    assert np.isnan(found)
    assert found.note == "all points come from one item"


def test_drift_below_nothing_is_zero():
    x = np.random.default_rng(10).standard_normal((300, 8))
    found = drift_norm(x - x.mean(0)), drift_ratio(x - x.mean(0))
    assert [float(number) for number in found] == [0.0, 0.0]
    assert [number.low for number in found] == [0.0, 0.0]
    assert all(number.high >= 0 for number in found)


@pytest.mark.parametrize("n", [8, 40, GROUPS])
def test_jackknife_of_a_mean_is_the_textbook_interval(n):
    """With one point a group the jackknife of a mean is mean ± t·s/√n, exactly."""
    x = np.random.default_rng(1).lognormal(0, 1, (n, 3))
    statistics = SiteStatistics(3, [BODY], second=False, sample=0)
    sums = block_sums(x[:, None])
    statistics.groups.update(np.arange(n), [sums])
    statistics.moments[0].add(sums, None)
    found, norms = mean_norm(Cloud.of(statistics, BODY)), np.linalg.norm(x, axis=1)
    half = student.ppf(0.975, n - 1) * norms.std(ddof=1) / n**0.5
    assert found == pytest.approx(norms.mean(), rel=1e-12)
    assert found.high == pytest.approx(norms.mean() + half, rel=1e-9)
    assert found.low == pytest.approx(max(norms.mean() - half, 0), rel=1e-9)


def test_groups_of_unequal_size_cover_the_mean_norm():
    rng, covered, draws = np.random.default_rng(2), 0, 300
    truth = float(np.linalg.norm(rng.standard_normal((1_000_000, 4)) + 0.5, axis=1).mean())
    for _ in range(draws):
        x, mask = corpus(rng, 60, shared=0.6, drift=np.full(4, 0.5), scale=np.ones(4))
        found = mean_norm(site(x, mask))
        covered += found.low <= truth <= found.high
    assert 0.92 * draws <= covered <= 0.99 * draws


def test_too_few_groups_have_no_interval():
    x = np.random.default_rng(3).standard_normal((2, 5, 3))
    found = between_cosine(site(x, np.ones((2, 5), dtype=bool)))
    assert np.isfinite(found)
    assert np.isnan(found.low)
    assert np.isnan(found.high)


def test_an_interval_ends_where_the_metric_does():
    x = 1 + 1e-3 * np.random.default_rng(4).standard_normal((200, 5))
    assert mean_cosine(x).high <= 1.0
    groups = Groups(5)
    assert np.isnan(groups.interval(lambda t: t.norm / t.n)).all()


@pytest.mark.parametrize(
    ("metric", "function"),
    [(participation_ratio, lambda v: v.sum() ** 2 / (v**2).sum()), (top_share, lambda v: v[0] / v.sum())],
    ids=["participation_ratio", "top_share"],
)
def test_coverage_of_spectral_intervals(metric, function):
    """The document bootstrap covers the population's value in nine draws of ten or more, where n is much larger than d."""
    variances = np.array([6.0, 3, 2, 1.5, 1, 0.7, 0.5, 0.3])
    truth, rng, covered, draws = float(function(variances)), np.random.default_rng(5), 0, 100
    for _ in range(draws):
        x, mask = corpus(rng, 150, shared=0.4, drift=np.full(8, 2.0), scale=np.sqrt(variances))
        found = metric(site(x, mask, second=True, sample=4096))
        covered += found.low <= truth <= found.high
    assert covered >= 0.9 * draws


def test_hash_of_rows_fills_the_groups_evenly():
    group = mix(np.arange(6400).astype(np.uint64)) % np.uint64(GROUPS)
    counts = np.bincount(group.astype(int), minlength=GROUPS)
    assert ((counts - 100) ** 2 / 100).sum() < 110  # χ² with 63 degrees, 0.02 %
