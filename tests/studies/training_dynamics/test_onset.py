"""The statistics of a training: common axes, alignment, onsets, rise and fall, each against brute force or a case that is known."""

import numpy as np
import pytest

from isoscope.estimation.inference import Estimate
from isoscope.statistics.head_statistics import Heads
from isoscope.statistics.sample import Sample, point_hashes
from isoscope.studies.training_dynamics.alignment import alignment, alignment_outcome, shuffled_labels, squared_cosines, surely_falls
from isoscope.studies.training_dynamics.checkpoint_measures import HeadSums, Level, Levels, measure_level, measure_levels, split_documents
from isoscope.studies.training_dynamics.onset import Track, change, direction, onset, onset_over_seeds, precedence, share_later
from isoscope.studies.training_dynamics.rise_and_fall import Phases, mean_level, rise_then_fall, verdict_over_seeds
from isoscope.studies.training_dynamics.trajectories import common_basis

STEPS = [0, 1, 2, 4, 8, 16, 32]


def vectors(seed, n, h, e, offset=3.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(h, n, e)) * rng.uniform(0.5, 2, size=(h, 1, e)) + offset * rng.normal(size=(h, 1, e))


def heads_of(points, parts=3):
    """`Heads` that saw the points (h, n, e) of body and special positions, in several batches."""
    h, _, e = points.shape
    heads = Heads(h, e, ["special", "first", "body"])
    for i, block in enumerate(np.array_split(points, parts, axis=1)):
        codes = np.full((1, block.shape[1]), 2)
        codes[:, 0] = 0
        one = np.array([i])
        heads.update(block[None], codes, one, unit=one, last=np.array([True]))
    return heads


def same_up_to_sign(ours, theirs, tolerance=1e-9):
    """Whether columns agree but for their sign."""
    return np.allclose(np.abs((ours * theirs).sum(0)), 1, atol=tolerance)


@pytest.mark.parametrize("n", [5, 400])
def test_sums_of_heads_are_sums_of_their_vectors(n):
    points = vectors(0, n, 3, 16)
    sums = HeadSums.of(heads_of(points), [0, 1, 2])
    assert sums.n == n
    np.testing.assert_allclose(sums.total, points.sum(1), rtol=1e-10)
    np.testing.assert_allclose(sums.outer, points.swapaxes(1, 2) @ points, rtol=1e-10, atol=1e-9)
    body = HeadSums.of(heads_of(points), [2])
    assert body.n == n - 3


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("of", ["union", "query", "key"])
def test_a_basis_is_numpys_svd_of_all_vectors_of_all_steps(of, centred):
    queries = [vectors(seed, 300, 2, 8, offset=0.5 * seed) for seed in range(4)]
    keys = [vectors(10 + seed, 300, 2, 8, offset=seed) for seed in range(4)]
    q, k = (
        sum((HeadSums.of(heads_of(step), [0, 1, 2]) for step in side[1:]), HeadSums.of(heads_of(side[0]), [0, 1, 2]))
        for side in (queries, keys)
    )
    basis = common_basis({"union": q + k, "query": q, "key": k}[of], q, centred=centred, components=8)
    held = np.concatenate({"union": queries + keys, "query": queries, "key": keys}[of], axis=1)
    for j in range(2):
        x = held[j] - (held[j].mean(0) if centred else 0)
        _, s, vt = np.linalg.svd(x, full_matrices=False)
        assert same_up_to_sign(basis.vectors[j], vt.T)
        np.testing.assert_allclose(basis.parts[j], s**2 / (s**2).sum(), atol=1e-10)
        mean = np.concatenate(queries, axis=1)[j].mean(0)
        assert (mean @ basis.vectors[j] > 0).all()
        np.testing.assert_allclose(basis.head(j).coordinates(x[None, :5] + basis.centre[j])[0], x[:5] @ basis.vectors[j], atol=1e-9)


def test_the_sign_does_not_flip_where_the_mean_is_zero():
    outer = np.diag([3.0, 2.0, 1.0])[None]
    sums = HeadSums(6, np.zeros((1, 3)), outer)
    basis = common_basis(sums, sums)
    assert basis.vectors[0].diagonal().tolist() == [1.0, 1.0, 1.0]


def test_a_key_that_several_queries_share_comes_again():
    sums = HeadSums.of(heads_of(vectors(1, 50, 2, 4)), [0, 1, 2])
    wide = sums.at(np.arange(4) * 2 // 4)
    np.testing.assert_array_equal(wide.total, sums.total[[0, 0, 1, 1]])


def test_alignment_counts_out_every_deal():
    """Against all 24 permutations, one by one."""
    from itertools import permutations

    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, 4, 16))
    squares = squared_cosines(q, k)
    cosine = lambda a, b: (a @ b) ** 2 / (a @ a) / (b @ b)  # noqa: E731
    own = np.mean([cosine(q[i], k[i]) for i in range(4)])
    every = [np.mean([cosine(q[i], k[j]) for i, j in enumerate(order)]) for order in permutations(range(4))]
    found = alignment([squares])
    assert found.value == pytest.approx(own)
    assert found.p == np.mean(np.array(every) >= own - 1e-12)
    assert found.null == pytest.approx(np.mean([cosine(q[i], k[j]) for i in range(4) for j in range(4) if i != j]))


def test_alignment_finds_what_is_there_and_nothing_else():
    rng = np.random.default_rng(1)
    seen = []
    for _ in range(100):
        q, k = rng.normal(size=(2, 5, 3, 32))
        seen.append(alignment([squared_cosines(a, b) for a, b in zip(q, k, strict=True)]).p)
    assert 0.01 <= np.mean(np.array(seen) < 0.05) <= 0.11
    q = rng.normal(size=(5, 3, 32))
    k = q * rng.choice([-1, 1], size=(5, 3, 1)) + 0.5 * rng.normal(size=q.shape)
    found = alignment([squared_cosines(a, b) for a, b in zip(q, k, strict=True)])
    assert found.p < 0.001
    assert found.value > 0.6
    assert found.null == pytest.approx(1 / 32, abs=0.03)
    assert found.null_sd < 0.03


def test_alignment_of_one_head_has_no_null():
    found = alignment([np.array([[0.4]])])
    assert found.value == 0.4
    assert np.isnan([found.null, found.null_sd, found.p]).all()


def test_shuffled_labels_are_at_chance():
    rng = np.random.default_rng(2)
    q = rng.normal(size=(6, 32))
    control = shuffled_labels([(q, -q)])
    assert control.p < 0.001
    assert control.mean == pytest.approx((1 + 10 / 32) / 11, abs=0.03)  # own pairs, which have cos² 1, come in one of eleven
    apart = shuffled_labels([(q, rng.normal(size=(6, 32)))])
    assert apart.p > 0.01


@pytest.mark.parametrize(
    ("p", "moved", "grown", "excess", "said"),
    [
        (0.01, [0.1, 0.2, 0.1], (0.05, 0.2), (0.1, 0.2), "holds"),
        (0.01, [0.1, -0.01, 0.1], (-0.05, 0.2), (0.1, 0.2), "undecided"),
        (0.2, [0.1, 0.2, 0.1], (0.05, 0.2), (-0.1, 0.2), "undecided"),
        (0.9, [-0.1, -0.2, -0.1], (-0.3, -0.05), (-0.1, 0.2), "fails"),
        (0.9, [0.1, 0.2], (-0.3, 0.5), (-0.2, -0.05), "fails"),
        (0.9, [0.1, 0.2], (-0.3, 0.5), (-0.2, -0.001), "undecided"),  # one of two ways to fail, and only just
        (float("nan"), [0.1], (float("nan"),) * 2, (float("nan"),) * 2, "undecided"),
    ],
)
def test_the_verdict_on_alignment(p, moved, grown, excess, said):
    pair = tuple(Estimate((low + high) / 2, low, high) for low, high in (grown, excess))
    assert alignment_outcome(p, moved, surely_falls([pair])[0]) == said


def test_several_trainings_have_several_chances_to_fall():
    just, clear = (Estimate(-1.0, -1.0 - half, -1.0 + half) for half in (0.8, 0.2))
    up, none = Estimate(1.0, 0.9, 1.1), Estimate(0.0, -1.0, 1.0)
    assert surely_falls([(just, up)]) == [True]
    assert surely_falls([(just, up), (none, up), (none, up)]) == [False, False, False]
    assert surely_falls([(clear, up), (none, up), (none, up)]) == [True, False, False]


def track(values, half=0.01, steps=STEPS):
    values = np.asarray(values, dtype=float)
    return Track(np.array(steps, dtype=float), values, values - half, values + half)


def test_onset_is_the_first_step_past_a_tenth():
    assert onset(track([0, 0.05, 0.09, 0.3, 0.6, 0.9, 1.0])).value == 4
    assert onset(track([5, 4.9, 4.8, 4.0, 2.0, 1.0, 1.0])).value == 4
    assert onset(track([5, 4.9, 4.5, 4.0, 2.0, 1.0, 1.0])).value == 2
    assert onset(track([0, -0.5, 0, 0, 0.2, 0.9, 1.0])).value == 8  # the wrong way does not count


def test_onset_has_an_interval_over_documents():
    found = onset(track([0, 0.05, 0.09, 0.12, 0.6, 0.9, 1.0], half=0.03))
    assert (found.low, found.value, found.high) == (2, 4, 8)


def test_what_does_not_change_has_no_onset():
    rng = np.random.default_rng(0)
    assert np.isnan(onset(track(rng.normal(size=7) * 0.01, half=0.05)).value)
    assert np.isnan(onset(track([1.0] * 7)).value)
    assert np.isnan(onset(track([0.0, 1.0], steps=[0, 1])).value)


def test_onset_over_seeds():
    early, late = [0, 0.05, 0.2, 0.5, 1, 1, 1], [0, 0.0, 0.0, 0.05, 0.5, 1, 1]
    found = onset_over_seeds([track(early), track(late), track([1.0] * 7)])
    assert found.value == pytest.approx(np.expm1((np.log1p(2) + np.log1p(8)) / 2))
    assert 0 <= found.low < 2 < 8 < found.high <= 32
    assert found.note == "over 2 of 3 seeds"
    assert onset_over_seeds([track(early)]).value == 2


def test_change_over_seeds_and_over_documents():
    one = change([track([0.1, 0.3, 0.5], half=0.03, steps=[0, 1, 2])])
    assert (one.value, one.high - one.value) == pytest.approx((0.4, 0.03 * 2**0.5))
    many = change([track([0, 1], steps=[0, 1]), track([0, 3], steps=[0, 1])])
    assert many.value == 2
    assert (many.low, many.high) == pytest.approx((2 - 12.706, 2 + 12.706), abs=1e-3)
    assert [direction(x) for x in (one, many, Estimate(-1, -2, -0.5))] == ["up", "undecided", "down"]


def test_precedence_of_one_seed_has_no_interval():
    """Heads of one training share its chance: eight of nine are no evidence of what another training would do."""
    from scipy import stats

    drift = np.array([[1, 1, 1, 1, 1, 1, 1, 1, 8, 2, np.nan]], dtype=float)
    sharp = np.array([[4, 4, 4, 4, 4, 4, 4, 4, 4, 2, 4]], dtype=float)
    found = precedence(drift, sharp)
    assert (found.value, found.p, found.units) == pytest.approx((8 / 9, stats.binomtest(8, 9).pvalue, 9))
    assert np.isnan([found.low, found.high]).all()
    assert (found.verdict, "one seed decides nothing" in found.note) == ("undecided", True)


def test_precedence_holds_one_half_unless_onsets_differ_too():
    """Two of three heads drift first in every seed, but the third sharpens so much earlier that onsets do not differ on average."""
    drift, sharp = np.array([[10, 10, 100]] * 3, dtype=float), np.array([[11, 11, 50], [12, 12, 60], [30, 30, 9]], dtype=float)
    found = precedence(drift, sharp)
    assert found.value == pytest.approx(2 / 3)
    assert found.low <= 0.5 < found.high
    assert precedence(drift[:, :2], sharp[:, :2] + 100).verdict == "drift first"


def test_precedence_of_several_takes_seeds():
    rng = np.random.default_rng(0)
    drift = rng.choice([1, 2, 4], size=(5, 18)).astype(float)
    found = precedence(drift, drift + 1)
    assert (found.value, found.units, found.p, found.verdict) == (1.0, 5, 0.0625, "drift first")
    noise = precedence(rng.choice([1, 2, 4.0], size=(5, 18)), rng.choice([1, 2, 4.0], size=(5, 18)))
    assert noise.verdict == "undecided"
    assert precedence(np.full((1, 4), np.nan), np.ones((1, 4))).verdict == "undecided"


def test_later_is_mann_and_whitneys():
    from scipy import stats

    rng = np.random.default_rng(0)
    a, b = rng.choice([4.0, 8, 16, 32], 9), rng.choice([1.0, 2, 4, 8], 7)
    found, p = share_later([a], [b])
    exact = stats.mannwhitneyu(a, b)
    assert (found.value, p) == pytest.approx((exact.statistic / 63, exact.pvalue))
    many, p = share_later([a, a + 1, a + 2], [b, b, b])
    assert many.low < many.value <= 1
    assert p == 0.25
    assert np.isnan(share_later([np.array([])], [b])[0].value)


def sample_of(points, documents):
    """A sample of points (n, d), dealt to documents in turn."""
    n, d = points.shape
    sample = Sample(d, n)
    unit = (np.arange(n) % documents).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    sample.update(points.astype(np.float32), point_hashes(0, unit, np.arange(n)), unit, np.arange(n), np.zeros(n, dtype=np.int16))
    return sample


def test_halves_divide_documents_not_points():
    sample = sample_of(np.random.default_rng(0).normal(size=(600, 3)), 40)
    first, second = split_documents(sample)
    assert len(first) + len(second) == 600
    assert min(len(first), len(second)) > 150
    assert not set(sample.unit[first]) & set(sample.unit[second])


def cloud(dimension, n=1600, d=24, seed=0):
    """Points of a known dimension, more or less, spread over d."""
    rng = np.random.default_rng(seed)
    return rng.uniform(size=(n, dimension)) @ np.linalg.qr(rng.normal(size=(d, dimension)))[0].T


def test_levels_are_those_of_the_metric():
    from isoscope.metrics import registry

    points = cloud(4, 700).astype(np.float32)
    assert measure_level(points, np.arange(700)).value == pytest.approx(float(registry["two_nn"](points)), rel=1e-6)
    found = measure_levels(sample_of(points, 100), 300)
    assert found.pick.value == pytest.approx(4, rel=0.25)
    assert found.judge.value == pytest.approx(4, rel=0.25)
    assert found.gaussian.value == pytest.approx(4, rel=0.35)
    assert np.isnan(measure_levels(sample_of(points, 100), 600).judge.value)
    assert np.isnan(measure_level(np.zeros((50, 4), np.float32), np.arange(50)).value)


def curves(dimensions, seeds):
    """Levels of clouds whose dimension over the steps is known."""
    drawn = [[cloud(dim, 900, seed=100 * s + i) for i, dim in enumerate(dimensions)] for s in range(seeds)]
    return {s: [measure_levels(sample_of(points, 150), 400) for points in own] for s, own in enumerate(drawn)}


def test_a_rise_and_a_fall_are_found_with_five_seeds():
    found = rise_then_fall([0, 1, 2, 3, 4], curves([3, 6, 12, 6, 3], 5))
    assert [one.peak for one in found.values()] == [2] * 5
    assert [one.verdict for one in found.values()] == ["holds"] * 5
    assert verdict_over_seeds(list(found.values())) == ("holds", 0.03125)
    assert verdict_over_seeds(list(found.values())[:4])[0] == "undecided"
    assert all(one.gaussian_rise.value > 2 for one in found.values())


@pytest.mark.parametrize("dimensions", [[2, 4, 6, 9, 12], [12, 9, 6, 4, 2], [6, 6, 6, 6, 6]], ids=["rising", "falling", "flat"])
def test_a_curve_that_does_not_rise_and_fall_does_not_pass(dimensions):
    found = rise_then_fall([0, 1, 2, 3, 4], curves(dimensions, 5))
    words = [one.verdict for one in found.values()]
    assert "holds" not in words
    assert verdict_over_seeds(list(found.values()))[0] == ("undecided" if len(set(dimensions)) == 1 and "undecided" in words else "fails")


def test_noise_does_not_pass():
    """Where all steps are alike but for chance the picked peak is no peak on the other half: of 200 curves hardly one passes."""
    rng = np.random.default_rng(0)
    passed = 0
    for _ in range(200):
        one = lambda: Level(float(10 + 1.5 * rng.normal()), 1.5, 50.0)  # noqa: E731
        found = rise_then_fall(STEPS, {0: [Levels(one(), one(), one()) for _ in STEPS]})
        passed += found[0].verdict == "holds"
    assert passed <= 2


def test_the_peak_is_picked_by_other_seeds():
    """A seed whose own half peaks elsewhere is judged at the peak of the others."""
    flat, steps = Level(5.0, 0.1, 50.0), [0, 1, 2, 3]
    high = Level(9.0, 0.1, 50.0)
    own = [Levels(high if i == 1 else flat, high if i == 1 else flat, flat) for i in range(4)]
    other = [Levels(high if i == 2 else flat, high if i == 2 else flat, flat) for i in range(4)]
    found = rise_then_fall(steps, {0: own, 1: other})
    assert (found[0].peak, found[0].verdict) == (2, "fails")
    assert rise_then_fall(steps, {0: own})[0].verdict == "holds"


def test_a_mean_over_layers_keeps_the_error():
    assert mean_level([Level(4.0, 0.2, 10.0), Level(6.0, 0.4, 20.0)]) == Level(5.0, pytest.approx(0.3), 15.0)


def test_verdicts_need_five():
    judged = Phases(1, 5, Estimate(1), Estimate(1), Estimate(0), Estimate(0), "fails")
    assert verdict_over_seeds([judged] * 5) == ("fails", 1.0)
    assert verdict_over_seeds([judged] * 4)[0] == "undecided"
