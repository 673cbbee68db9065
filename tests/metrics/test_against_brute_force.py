"""Every metric against a second implementation in float64, on clouds of every kind that models give."""

import math
import warnings

import numpy as np
import pytest
import torch
from brute_force import LENGTHS, NO_UNIT, brute_force, equal_points

from isoscope.core.errors import IsoscopeWarning
from isoscope.estimation.matrix_cloud import cloud_of
from isoscope.metrics import curves, mean_cosine, metrics, registry

N, D = 260, 24
PLAIN = [metric for metric in metrics("points") if not metric.name.startswith(("local_", "cluster_"))]
"""The others draw their points at random, and have tests of their own."""
SHARES = ("top_dimension_share", "top3_dimension_share")


def rng(seed=0):
    return np.random.default_rng(seed)


def gaussian():
    return rng(1).standard_normal((N, D))


def offset():
    return (rng(2).standard_normal((N, D)) + 100).astype(np.float32)


def dominated():
    x = rng(3).standard_normal((N, D)) + 0.5
    x[:, 5] *= 60
    return x


def heavy():
    return rng(4).standard_normal((N, D)) * rng(5).lognormal(0, 1.5, (N, 1)) + 0.3


def duplicated():
    x = rng(6).standard_normal((N, D)).astype(np.float32)
    return np.concatenate([x, x[: N // 10], x[: N // 10]])


def wide():
    return rng(7).standard_normal((30, 45)) + 0.4


def two():
    return rng(8).standard_normal((2, 5))


def integers():
    return rng(9).integers(-40, 70, (N, D))


def halves():
    return (rng(10).standard_normal((N, D)) * 3 + 1).astype(np.float16)


def exactly_d():
    return rng(11).standard_normal((D, D)) + 0.2


def one_more():
    return rng(12).standard_normal((D + 1, D)) + 0.2


def broad():
    """Above 256 dimensions some products are taken in float32."""
    return (rng(13).standard_normal((420, 280)) * rng(14).lognormal(0, 0.3, (420, 1)) + 0.4).astype(np.float32)


CLOUDS = (gaussian, offset, dominated, heavy, duplicated, wide, two, integers, halves, exactly_d, one_more, broad)


def check(found, name, expected, points):
    if expected is None:  # ties
        assert math.isfinite(found)
    elif name in SHARES and math.isnan(found):
        assert not mean_cosine(points, allow_wide=True).low > 0
        assert "not above zero" in found.note
    elif math.isnan(expected):
        assert math.isnan(found)
        assert found.note
    else:
        # One minus a cosine near one has the cosine's own error, 4e-9 of float32 points, and no more digits than that leaves.
        assert float(found) == pytest.approx(expected, rel=1e-6, abs=1e-8 if name == "isotropy_score" else 1e-9)


def test_every_metric_has_a_second_implementation():
    assert set(brute_force(gaussian())) == {metric.name for metric in PLAIN}


@pytest.mark.parametrize("make", CLOUDS, ids=lambda make: make.__name__)
def test_one_metric_at_a_time(make):
    x = make()
    expected = brute_force(x)
    for metric in PLAIN:
        check(metric(x, allow_wide=True), metric.name, expected[metric.name], x)


@pytest.mark.parametrize("make", CLOUDS, ids=lambda make: make.__name__)
def test_all_metrics_of_one_cloud(make):
    x = make()
    expected, cloud = brute_force(x), cloud_of(x, allow_wide=True)
    for metric in PLAIN:
        found = metric(cloud)
        assert found.d == x.shape[1]
        check(found, metric.name, expected[metric.name], x)


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def threads(request):
    """Torch on one thread and on two must give the same numbers."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("make", [dominated, offset, heavy], ids=lambda make: make.__name__)
def test_torch_tensors(make, kind, threads):
    x = torch.from_numpy(make()).to(kind).requires_grad_()
    expected = brute_force(x.detach().double().numpy())
    for metric in PLAIN:
        check(metric(x), metric.name, expected[metric.name], x)


def test_a_tensor_is_as_exact_as_an_array(threads):
    """Second moments of a matrix are products in float64, whoever holds it."""
    x = offset()
    a, b = (cloud_of(given).moments for given in (torch.from_numpy(x), x))
    np.testing.assert_allclose(a.second.covariance, b.second.covariance, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(a.cosine.covariance, b.cosine.covariance, rtol=1e-9, atol=1e-17)


def test_a_tensor_in_any_layout():
    x = torch.from_numpy(dominated()).t().contiguous().t()
    assert mean_cosine(x) == pytest.approx(brute_force(x.numpy())["mean_cosine"], rel=1e-9)
    assert mean_cosine(np.asfortranarray(dominated())[::-1]) == pytest.approx(mean_cosine(dominated()), rel=1e-12)


@pytest.mark.parametrize("kind", ["<f8", ">f8", ">f4", "<f2", "longdouble"])
def test_every_byte_order_and_width_keeps_its_digits(kind):
    # Rounded to float32, points this close to each other would be equal.
    x = 1 + rng(13).standard_normal((50, 6)) * (1e-3 if kind in ("<f2", ">f4") else 1e-9)
    x = x.astype(kind)
    expected = np.asarray(x, dtype=np.float64)
    expected = np.sqrt(((expected - expected.mean(0)) ** 2).sum())
    moment = cloud_of(x, ("second",)).moments.second
    assert np.sqrt(np.trace(moment.covariance) * 49) == pytest.approx(expected, rel=1e-6)
    assert cloud_of(x, ("sums",)).moments.mean == pytest.approx(np.asarray(x, dtype=np.float64).mean(0), rel=1e-7 if "4" in kind else 1e-12)


def test_zero_vectors_are_left_out_of_the_cosines_aloud():
    x = gaussian() + 0.5
    x[[3, 77, 200]] = 0
    expected = brute_force(x)
    for metric in PLAIN:
        with pytest.warns(IsoscopeWarning, match="3 of 260 vectors of the matrix are zero"):
            found = metric(x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IsoscopeWarning)
            check(found, metric.name, expected[metric.name], x)
    with pytest.warns(IsoscopeWarning, match="left out of the cosines"):
        assert mean_cosine(x).n == N - 3


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
def test_directions_do_not_depend_on_scale(scale):
    x = gaussian() + 0.3
    for metric in PLAIN:
        if metric.name in LENGTHS:
            assert metric(x * scale) == pytest.approx(metric(x) * scale, rel=1e-9)
        elif metric.name not in NO_UNIT:
            assert metric(x * scale) == pytest.approx(float(metric(x)), rel=1e-6, nan_ok=True), metric.name


def test_narrow_cones_keep_their_digits():
    """Where all cosines are 1 − 1e-7, their spread is computed around a shift and not as a difference of nearly equal numbers."""
    x = 1000 + rng(14).standard_normal((N, D)) * 0.3
    expected = brute_force(x)
    assert expected["cosine_sd"] < 1e-7
    assert registry["cosine_sd"](x) == pytest.approx(expected["cosine_sd"], rel=1e-3)
    assert registry["cosine_sd"](x[:D]) == pytest.approx(brute_force(x[:D])["cosine_sd"], rel=1e-3)


@pytest.mark.parametrize("value", [0.1, 1.0, 12345.678, -3e-5])
@pytest.mark.parametrize("n", [2, 10, 100])
def test_equal_points_have_no_spread(n, value):
    """NaN with a reason where a spread is asked for, exact values elsewhere; neither a crash nor a warning."""
    d = 30
    x = np.full((n, d), value) * np.linspace(1, 2, d)
    known = equal_points(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in (np.float64, np.float32):
            cloud = cloud_of(x.astype(kind), allow_wide=True)
            for metric in PLAIN:
                found = metric(cloud)
                expected = known.get(metric.name, math.nan)
                if expected is not None and not math.isnan(expected):
                    # The root of a rounding error of 1e-16 is 1e-8, and thirty of them move RankMe in the fifth digit.
                    assert found == pytest.approx(expected, rel=1e-4 if metric.name == "rankme" else 1e-6, abs=1e-7)
                    assert metric.range[0] <= found <= metric.range[1]
                elif expected is not None:
                    assert math.isnan(found), metric.name
                    assert found.note, metric.name
            for curve in curves("points"):
                assert len({len(column) for column in curve(cloud)}) == 1


@pytest.mark.parametrize("n", [3, 4, 6])
def test_few_points_have_intervals_without_warnings(n):
    x = rng(15).standard_normal((n, 5)) + 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for metric in PLAIN:
            found = metric(cloud_of(x, allow_wide=True))
            if np.isfinite(found) and metric.interval_about is not None:
                assert found.low <= found.high, metric.name


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_a_single_point_has_no_geometry(kind):
    two_points = np.array([[3.0, 4.0, 0.1], [1.0, 1.0, 7.0]], dtype=kind)
    cloud = cloud_of(two_points, allow_wide=True)
    alone = cloud_of(two_points[:1].repeat(2, 0), allow_wide=True)
    for part in ("moments", "groups", "sample"):
        setattr(cloud, part, type(getattr(alone, part)).from_state(halved(getattr(alone, part).state())))
    assert cloud.n == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for metric in PLAIN:
            found = metric(cloud)
            if metric.at_least == 1:
                assert found == pytest.approx(equal_points(two_points[:1])[metric.name], rel=1e-6)
            else:
                assert math.isnan(found), metric.name
                assert found.note, metric.name


def halved(state):
    """The state of one of two equal points."""
    out = {}
    for key, value in state.items():
        if key == "counts" and value.ndim == 1:
            out[key] = np.array([value[0], value[1] // 2, value[2]])
        elif key in ("second.n", "cosine.n"):
            out[key] = np.array([value[0] // 2, value[1]])
        elif key in ("k",):
            out[key] = value
        elif key in ("second.points", "cosine.points", "hashes", "points", "unit", "index", "slice"):
            out[key] = value[:1]
        else:
            out[key] = value / 2 if value.dtype.kind == "f" else value // 2
    return out
