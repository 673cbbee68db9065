"""What estimators of dimension give for isotropic points: the fit that comes with isoscope against new draws."""

import numpy as np
import pytest

from isoscope.estimation.intrinsic_dimension import ESTIMATORS, isotropic_level, rows
from isoscope.estimation.isotropic_dimensions import DIMENSIONS, ERROR, POINTS, tabulated_level
from isoscope.estimation.neighbours import neighbours
from isoscope.estimation.resampled_neighbours import mean_length


def draw(name, n, d, draws):
    """The dimension that an estimator gives for each of a few isotropic clouds."""
    estimator, values = ESTIMATORS[name], []
    for seed in range(draws):
        x = np.random.default_rng([seed, n, d]).standard_normal((n, d), dtype=np.float32)
        seen = rows(neighbours(x, estimator.k), estimator, np.arange(n), mean_length(x))
        values.append(estimator.fit(seen.distances).value)
    return np.array(values)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize(("n", "d"), [(280, 7), (300, 500), (610, 90), (1200, 28), (1700, 200)])
def test_the_fit_is_what_new_draws_give(name, n, d):
    """At places between the nodes: within the stated error and the noise of these draws."""
    values = draw(name, n, d, 12)
    mean, sd = tabulated_level(name, n, d)
    assert mean == pytest.approx(values.mean(), abs=ERROR * mean + 3.5 * sd / 12**0.5)
    assert 0.5 * values.std(ddof=1) < sd < 2 * values.std(ddof=1)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d"), [(2500, 3000), (3700, 384), (3000, 1), (4096, 768), (256, 8192)])
def test_the_fit_is_what_new_draws_give_at_its_ends(n, d):
    for name in ESTIMATORS:
        values = draw(name, n, d, 12)
        mean, sd = tabulated_level(name, n, d)
        assert mean == pytest.approx(values.mean(), abs=ERROR * mean + 3.5 * sd / 12**0.5), name


@pytest.mark.parametrize("name", ESTIMATORS)
def test_where_the_fit_begins_there_is_no_step(name):
    """Below, clouds are drawn: the mean of eight."""
    (below, below_sd), (above, above_sd) = (
        isotropic_level(ESTIMATORS[name], POINTS[0] - 4, 40),
        isotropic_level(ESTIMATORS[name], POINTS[0], 40),
    )
    assert below == pytest.approx(above, abs=ERROR * above + 4 * above_sd / 8**0.5)
    assert 0.5 < below_sd / above_sd < 2


def test_nothing_is_extrapolated():
    for n, d in ((POINTS[0] - 1, 10), (POINTS[1] + 1, 10), (1000, DIMENSIONS[1] + 1), (1000, DIMENSIONS[0] - 1)):
        assert tabulated_level("facco", n, d) is None
