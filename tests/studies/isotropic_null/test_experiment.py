"""The isotropic null: published values, every closed form against simulation, and a score that is the same at every dimension."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import gammaln, hyp1f1

from isoscope.core.errors import IsoscopeError, IsoscopeWarning
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.isotropic_quantiles import head_threshold, one_pair
from isoscope.estimation.matrix_cloud import cloud_of
from isoscope.figures import figures
from isoscope.metrics import between_cosine, isotropy_score, mean_cosine, registry
from isoscope.studies.isotropic_null import experiment as null

PUBLISHED = dict(zip(null.DIMENSIONS, (0.4124, 0.2058, 0.1455, 0.1028, 0.0727, 0.0594, 0.0514, 0.0363, 0.0257, 0.0182), strict=True))


def test_the_percentile_of_one_pair_to_four_digits():
    assert null.DIMENSIONS == (16, 64, 128, 256, 512, 768, 1024, 2048, 4096, 8192)
    assert {d: round(null.closed_forms(d, 4096)["pair_95"], 4) for d in PUBLISHED} == PUBLISHED


@pytest.mark.parametrize("d", [2, 3, 16, 768, 8192])
def test_the_density_is_that_of_the_percentile(d):
    end = one_pair(d)
    area = quad(lambda c: float(null.pair_density(np.array(c), d)), 0, end, points=None, limit=200)[0]
    assert area == pytest.approx(0.45, abs=1e-6)
    c = np.linspace(-0.9, 0.9, 7) * min(1, 4 * d**-0.5)
    assert null.pair_density(c, d) == pytest.approx(stats.beta((d - 1) / 2, (d - 1) / 2).pdf((1 + c) / 2) / 2, rel=1e-8)


@pytest.mark.parametrize(("d", "n"), [(16, 100), (64, 1000), (256, 100), (768, 150), (8192, 50)])
def test_simulation_agrees_with_every_closed_form(d, n):
    forms, drawn = null.closed_forms(d, n), null.simulate_forms(d, n, 2000)
    assert {*forms} - {*drawn} == {"lower_edge", "upper_edge", "top_share"}  # limits, to which smallest and largest belong
    for name, estimate in drawn.items():
        assert 0 < estimate.error < 0.12 * abs(estimate.value), name
        assert estimate.agrees(forms[name], null.FORMS[name].slack(d, n)), (name, forms[name], estimate)


def test_a_wrong_form_does_not_agree():
    """A tenth is seen, and so is what is often mistaken for something else."""
    forms, drawn = null.closed_forms(16, 100), null.simulate_forms(16, 100, 10_000)
    for name, estimate in drawn.items():
        assert not estimate.agrees(1.1 * forms[name], null.FORMS[name].slack(16, 100)), name
    assert not drawn["average_95"].agrees(forms["pair_95"])
    assert not drawn["largest"].agrees(forms["upper_edge"])


def test_the_walk_is_the_average_of_real_clouds():
    """Drawing only the length of Σu gives the same law as drawing the points."""
    n, d, rng = 20, 8, np.random.default_rng(0)
    clouds = [float(mean_cosine(rng.standard_normal((n, d)))) for _ in range(800)]
    walked = null._draw_averages(rng, d, n, 800)
    assert stats.ks_2samp(clouds, walked).pvalue > 0.001


def test_eigenvalues_of_real_clouds():
    n, d, rng = 200, 24, np.random.default_rng(1)
    values = np.array([np.linalg.eigvalsh(np.cov(rng.standard_normal((n, d)).T)) for _ in range(600)])
    low, high = null.extreme_eigenvalues(d, n)
    assert values[:, 0].mean() == pytest.approx(low, rel=0.01)
    assert values[:, -1].mean() == pytest.approx(high, rel=0.01)
    score = ((values.sum(1) ** 2 / (values**2).sum(1)) - 1) / (d - 1)
    assert score.mean() == pytest.approx(null.isotropic_isoscore(d, n), abs=4 * score.std() / 600**0.5)
    assert math.isnan(null.extreme_eigenvalues(100, 100)[0])


def test_levels_of_the_spectrum_are_those_of_the_metrics():
    cloud = cloud_of(np.random.default_rng(2).standard_normal((400, 32)))
    forms = null.closed_forms(32, 400)
    assert registry["top_share"](cloud).null == pytest.approx(forms["top_share"], rel=1e-12)
    assert registry["isoscore"](cloud).null == pytest.approx(forms["isoscore"], rel=0.002)
    assert registry["mean_cosine"](cloud).null_sd == pytest.approx(forms["average_sd"], rel=1e-12)
    assert null.closed_forms(768, 4096)["top_share"] == pytest.approx(0.00267, abs=5e-6)
    assert 1 + null.isotropic_isoscore(768, 4096) * 767 == pytest.approx(768 / (1 + 768 / 4096), rel=0.001)


def test_the_chance_level_of_heads():
    assert head_threshold(64, 144) == pytest.approx(0.430, abs=5e-4)
    over, expected = null.simulate_heads(64, 144, 1000)
    assert expected == pytest.approx(0.0488, abs=1e-4)
    assert over.agrees(expected)


@pytest.mark.parametrize(("d", "published"), [(10, 9.8), (20, 17.5), (50, 33.5)])
def test_two_nn_is_low_in_high_dimension(d, published):
    found = null.simulate_two_nn(d, 4096)
    assert found.value == pytest.approx(published, rel=0.03)
    assert found.error < 0.03 * published


def test_two_nn_is_the_estimator_over_the_nearest():
    rng, values = np.random.default_rng([0, 5, 300]), []
    for x in rng.standard_normal((2, 300, 5), dtype=np.float32):
        distances = np.sort(np.linalg.norm(x[:, None].astype(float) - x, axis=-1), axis=1)
        values.append(299 / np.log(distances[:, 2] / distances[:, 1]).sum())
    assert null.simulate_two_nn(5, 300, draws=2).value == pytest.approx(np.mean(values), rel=1e-9)


def test_the_tables_fill_both_figures_and_no_other():
    table, series = null.isotropic_tables([16, 64, 768], 1000)
    assert [name for name in figures.names() if figures[name].draw(table, series) is not None] == ["cosine_density", "isotropic_level"]
    drawn = figures["cosine_density"].draw(table, series).to_dict()
    rows = [row for rows in drawn["datasets"].values() for row in rows]
    assert {row["d"] for row in rows} == {"16", "64", "768"}
    for row in rows[::40]:
        assert row["y"] == pytest.approx(float(null.pair_density(np.array(row["x"]), int(row["d"]))), rel=1e-2, abs=1e-6)
    for d in (16, 64, 768):
        own = series[series["weight"] == d]
        assert np.trapezoid(own["y"], own["x"]) == pytest.approx(1, abs=1e-4)


# The isotropy score


def population_cosine(ratio, d):
    """The exact mean cosine of b + z, z ~ N(0, I), ‖b‖² = ratio·d: ‖E u‖² of a projected normal."""
    squared = ratio * d
    length = np.exp(gammaln((d + 1) / 2) - gammaln(d / 2 + 1)) * (squared / 2) ** 0.5 * hyp1f1(0.5, d / 2 + 1, -squared / 2)
    return float(length**2)


def drifting(rng, n, d, ratio):
    b = rng.standard_normal(d)
    return rng.standard_normal((n, d), dtype=np.float32) + (b * (ratio * d) ** 0.5 / np.linalg.norm(b)).astype(np.float32)


def corrected(c, d):
    return 1 - c * (1 + (1 - c) * (1 - 3 * c) / (2 * d))


@pytest.mark.parametrize("d", null.DIMENSIONS)
def test_isotropic_clouds_score_the_same_at_every_dimension(d):
    rng, draws = np.random.default_rng(d), 30
    numbers = [isotropy_score(rng.standard_normal((60, d), dtype=np.float32), allow_wide=True) for _ in range(draws)]
    z = np.array([(number - number.null) / number.null_sd for number in numbers])
    assert {number.null for number in numbers} == {1.0}
    assert abs(z.mean()) < 4 / draws**0.5
    assert 0.6 < z.std(ddof=1) < 1.5
    assert max(abs(float(number) - 1) for number in numbers) < 0.05


@pytest.mark.parametrize("d", null.DIMENSIONS)
def test_equal_drift_scores_the_same_at_every_dimension(d):
    rng = np.random.default_rng(d)
    for ratio in (0.05, 0.5, 5.0):
        values = np.array([float(isotropy_score(drifting(rng, 100, d, ratio), allow_wide=True)) for _ in range(8)])
        assert values.mean() == pytest.approx(1 / (1 + ratio), abs=6 * values.std(ddof=1) / 8**0.5 + 0.0005), ratio


def test_the_correction_is_what_makes_few_dimensions_comparable():
    """In the population: 0.0005 at most from d = 16 on; without it fifteen times as much."""
    ratios = np.geomspace(0.01, 100, 41)
    for d in null.DIMENSIONS:
        cosines = [population_cosine(ratio, d) for ratio in ratios]
        assert max(abs(corrected(c, d) - 1 / (1 + r)) for c, r in zip(cosines, ratios, strict=True)) < 0.0005 * (16 / d) ** 1.5
    plain = max(abs(1 - population_cosine(ratio, 16) - 1 / (1 + ratio)) for ratio in ratios)
    assert plain > 15 * 0.0004


@pytest.mark.parametrize(("d", "ratio"), [(16, 0.5), (256, 0.5), (256, 20.0)])
def test_the_interval_covers_the_truth(d, ratio):
    rng, draws = np.random.default_rng(5), 100
    numbers = [isotropy_score(drifting(rng, 200, d, ratio), allow_wide=True) for _ in range(draws)]
    truth = corrected(population_cosine(ratio, d), d)
    assert 0.88 <= np.mean([number.low <= truth <= number.high for number in numbers]) <= 1.0
    assert all(number.low <= number <= number.high for number in numbers)


def test_norms_and_far_offsets_do_not_matter():
    rng = np.random.default_rng(6)
    x = drifting(rng, 300, 48, 0.7).astype(np.float64)
    heavy = x * rng.lognormal(0, 2, (300, 1))
    assert isotropy_score(heavy) == pytest.approx(float(isotropy_score(x)), rel=1e-9)
    offset = (rng.standard_normal((300, 48)) + 300).astype(np.float32)
    assert isotropy_score(offset) == pytest.approx(1 / (1 + 300**2), rel=0.2)
    assert isotropy_score(offset) == pytest.approx(corrected(float(mean_cosine(offset)), 48), abs=1e-12)


def test_pairs_of_one_document_do_not_count():
    rng = np.random.default_rng(7)
    x = np.repeat(rng.standard_normal((100, 16)), 3, axis=0)  # every point three times
    rows, cloud = isotropy_score(x), cloud_of(x)
    assert rows == pytest.approx(corrected(float(between_cosine(x)), 16), rel=1e-12)
    assert rows < 1  # of a matrix every row is an item, and copies agree
    assert "not kept" in isotropy_score(Cloud(cloud.moments)).note


def test_hard_inputs():
    rng = np.random.default_rng(8)
    assert isotropy_score(np.ones((50, 8))) == pytest.approx(0, abs=1e-12)
    assert isotropy_score(np.array([[1.0, 2.0], [-1.0, -2.0]])) == pytest.approx(2.25)
    assert isotropy_score(np.array([[1.0], [-1.0]])) == isotropy_score.range[1] == 2.5
    with pytest.raises(IsoscopeError, match="at least two points"):
        isotropy_score(np.ones((1, 1)))
    assert 0.9 < isotropy_score(rng.standard_normal((20, 300)), allow_wide=True) < 1.1
    with pytest.raises(IsoscopeError):
        isotropy_score(rng.standard_normal((20, 300)))
    x = rng.standard_normal((60, 5)) + 1
    whole = float(isotropy_score(x))
    with pytest.warns(IsoscopeWarning, match="zero"):
        assert isotropy_score(np.concatenate([x, np.zeros((4, 5))])) == pytest.approx(whole, rel=1e-12)
    x[3, 2] = np.nan
    with pytest.raises(IsoscopeError):
        isotropy_score(x)
    with pytest.raises(IsoscopeError, match="no direction"):
        isotropy_score(np.zeros((10, 4)))
