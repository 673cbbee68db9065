"""Intrinsic dimension as a metric: on the inputs that break other libraries, each value is that of a second implementation or a refusal."""

import math
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from brute_dimension import brute_dimensions, distinct, facco, gride, mle, razzhigaev, sorted_distances

from isoscope.core.errors import IsoscopeError
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.matrix_cloud import cloud_of
from isoscope.metrics import gride_scales, levina_bickel, registry, two_nn, two_nn_batches, two_nn_mle, two_nn_razzhigaev, two_nn_sizes
from isoscope.statistics.sample import Sample, mix

NAMES = ("two_nn", "two_nn_razzhigaev", "two_nn_mle", "two_nn_batches", "gride", "levina_bickel")


def rng(seed=0):
    return np.random.default_rng(seed)


def manifold(n=400, d=6, ambient=64, seed=0):
    """A curved cloud of d dimensions among many."""
    x = rng(seed).standard_normal((n, d))
    return np.tanh(x @ rng(1).standard_normal((d, ambient)) * 0.3)


def offset(by):
    return (manifold() + by).astype(np.float32)


def triplicated():
    x = manifold().astype(np.float32)
    return np.concatenate([x, x[:40], x[:40]])


def doubled():
    return np.repeat(manifold(200), 2, axis=0).astype(np.float32)


def nearly_doubled():
    x = manifold(200)
    return np.concatenate([x, x + 1e-4 * rng(2).standard_normal(x.shape)])


def clusters():
    return np.concatenate([1e-3 * manifold(60, seed=i) + 10 * rng(i).standard_normal(64) for i in range(5)])


def two_clusters():
    return np.concatenate([rng(3).standard_normal(30) + 1e-6 * rng(4).standard_normal((100, 30)), 1e-6 * rng(5).standard_normal((100, 30))])


def stretched():
    x = rng(6).standard_normal((400, 16))
    x[:, [3, 9]] *= 100
    return x


def wide():
    return rng(7).standard_normal((40, 90))


HARD = {f"offset {by}": lambda by=by: offset(by) for by in (0, 30, 300, 3000)}
HARD |= {f.__name__: f for f in (triplicated, doubled, nearly_doubled, clusters, two_clusters, stretched, wide)}


@pytest.mark.parametrize("make", HARD.values(), ids=HARD)
def test_hard_inputs_have_the_value_of_brute_force(make):
    x = make()
    cloud, expected = cloud_of(x, ("sample",), allow_wide=True), brute_dimensions(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in NAMES:
            found = registry[name](cloud)
            # Doubled, no point is left to the authors' procedure.
            assert float(found) == pytest.approx(expected[name], rel=1e-4, nan_ok=True), name
            if np.isfinite(found):
                assert 0 < found.low < found < found.high < np.inf, name
                assert found.null > 0
                assert found.null_sd > 0
            else:
                assert found.note


@pytest.mark.parametrize("by", [30, 300, 3000])
def test_an_offset_costs_only_what_float32_cannot_store(by):
    assert two_nn(offset(by)) == pytest.approx(two_nn(offset(0)), rel=1e-3 if by < 3000 else 0.05)


def test_duplicates_are_left_out_aloud():
    x, clean = triplicated(), manifold().astype(np.float32)
    for metric in (two_nn, two_nn_mle, levina_bickel):
        found = metric(x)
        assert found == pytest.approx(float(metric(clean)), rel=1e-12)
        assert found.note == "80 exact duplicates left out"
        assert (found.n, metric(clean).note) == (400, "")
    assert two_nn(np.concatenate([clean, clean[:1]])).note == "1 exact duplicate left out"
    theirs = two_nn_razzhigaev(x)
    assert (theirs.n, theirs.note) == (480, "80 exact duplicates kept")
    assert theirs > 1.3 * two_nn_razzhigaev(clean)


def test_all_duplicated():
    x = doubled()
    assert two_nn(x) == pytest.approx(float(two_nn(x[::2])), rel=1e-12)
    assert two_nn(x).note == "200 exact duplicates left out"
    refused = two_nn_razzhigaev(x)
    assert math.isnan(refused)
    assert "equally far" in refused.note


def test_near_duplicates_look_like_their_noise_until_the_scale_is_larger():
    """Pairs at 1e-4: r₁ is tiny, and the first two neighbours say nothing of the manifold; the 8th and 16th do."""
    x = nearly_doubled()
    assert two_nn(x) < 1
    assert registry["gride"](x) == pytest.approx(float(registry["gride"](manifold(200))), rel=0.25)


def test_too_few_points_are_refused_with_a_reason():
    for n in (3, 5, 9):
        for name in NAMES:
            found = registry[name](rng().standard_normal((n, 4)), allow_wide=True)
            assert math.isnan(found)
            assert "distinct points; there are" in found.note
    assert math.isnan(two_nn(np.ones((50, 4))))
    assert two_nn(np.ones((50, 4))).note.endswith("there are 1.")
    assert "at least 3 points" in two_nn(np.eye(2)).note
    assert np.isfinite(two_nn(rng().standard_normal((10, 4))))
    assert "there are 18" in levina_bickel(rng().standard_normal((18, 4))).note


def test_equally_far_points_are_refused():
    for name in NAMES:
        found = registry[name](np.eye(30))
        assert math.isnan(found)
        assert "equally far" in found.note


def test_nan_is_refused():
    x = manifold()
    x[7, 3] = np.nan
    with pytest.raises(IsoscopeError, match="NaN"):
        two_nn(x)
    cloud = cloud_of(manifold(), ("sample",))
    cloud.sample.points[7, 3] = np.nan
    for name in NAMES:
        found = registry[name](cloud)
        assert math.isnan(found)
        assert "NaN" in found.note
    for curve in (gride_scales, two_nn_sizes):
        assert [len(column) for column in curve(cloud)] == [0, 0, 0]


def test_more_dimensions_than_points_must_be_allowed():
    with pytest.raises(IsoscopeError, match="allow"):
        two_nn(wide())


def test_a_sample_must_have_been_kept():
    with pytest.raises(IsoscopeError, match="--sample"):
        two_nn(Cloud(cloud_of(manifold(), ("sums",)).moments))


def test_the_value_is_held_against_gaussian_points():
    for name in NAMES:
        found = registry[name](rng(8).standard_normal((300, 30)))
        assert abs(found - found.null) < 4.5 * found.null_sd, name
        assert found.null < 27
        assert registry[name](manifold(300, 3)).high < registry[name](manifold(300, 3)).null


# Batches


def batched(points, unit=None):
    """A cloud whose sample is these points, in this order."""
    cloud = cloud_of(points, ("sample",))
    n = len(points)
    cloud.sample = Sample(points.shape[1], n)
    unit = mix(np.arange(n, dtype=np.uint64)) if unit is None else unit
    cloud.sample.update(points.astype(np.float32), np.arange(n, dtype=np.uint64), unit, np.arange(n), np.zeros(n, np.int16))
    return cloud


def test_a_small_sample_is_one_batch():
    x = rng(9).standard_normal((500, 8)).astype(np.float32)
    found = two_nn_batches(batched(x))
    assert found == pytest.approx(razzhigaev(x), rel=1e-9)
    assert found.note == "one batch of 500"
    assert two_nn_batches(batched(np.concatenate([x, x[:5]]))).note == "one batch of 505; 5 exact duplicates kept"


def test_whole_batches_of_4096():
    x = rng(10).standard_normal((2 * 4096 + 100, 3)).astype(np.float32)
    found = two_nn_batches(batched(x))
    values = [float(two_nn_razzhigaev(batched(x[i : i + 4096]))) for i in (0, 4096)]
    assert found == pytest.approx(np.mean(values), rel=1e-12)
    assert found.n == 2 * 4096
    assert found.note == f"2 batches of 4,096, standard deviation {np.std(values, ddof=1):.3g}"
    assert found.low < found < found.high
    one = two_nn_razzhigaev(batched(x[:4096]))
    assert found.high / found.low < one.high / one.low
    assert found.null_sd == pytest.approx(one.null_sd / 2**0.5, rel=1e-9)


# Curves


def test_scales_are_gride_at_each():
    x = manifold(300)
    m, d, distance = gride_scales(x)
    r = sorted_distances(x)
    assert m.tolist() == [1, 2, 4, 8, 16, 32, 64]
    assert d == pytest.approx([gride(r, int(i)) for i in m], rel=1e-6)
    assert d[0] == pytest.approx(mle(r), rel=1e-9)
    assert distance == pytest.approx([r[:, 2 * int(i) - 1].mean() for i in m], rel=1e-6)
    assert gride_scales(x[:40], allow_wide=True)[0].tolist() == [1, 2, 4, 8, 16]
    assert registry["gride"](x) == pytest.approx(d[3], rel=1e-12)


def test_sizes_show_whether_it_has_settled():
    flat, rising = rng(11).standard_normal((1600, 3)), rng(12).standard_normal((1600, 40))
    size, d, sd = two_nn_sizes(flat)
    assert size.tolist() == [100, 200, 400, 800, 1600]
    assert np.abs(d - 3).max() < 0.35
    assert sd[-1] < 0.5 * sd[0]
    assert d[-1] == pytest.approx(float(two_nn(flat)), rel=1e-12)
    _, rises, error = two_nn_sizes(rising)
    assert rises[-1] - rises[0] > 5 * error[-1]


def test_each_size_is_the_mean_over_disjoint_parts():
    cloud = cloud_of(np.concatenate([manifold(330), manifold(330)[:10]]), ("sample",))
    points = distinct(cloud.require_sample().points)
    order = {row.tobytes(): i for i, row in reversed(list(enumerate(cloud.require_sample().points.astype(np.float64))))}
    points = points[np.argsort([order[row.tobytes()] for row in points])]
    size, d, sd = two_nn_sizes(cloud)
    assert size.tolist() == [20, 41, 82, 165, 330]
    for i, (step, parts) in enumerate(((20, 16), (41, 8), (82, 4), (165, 2))):
        values = [facco(sorted_distances(points[j * step : (j + 1) * step])) for j in range(parts)]
        assert (d[i], sd[i]) == pytest.approx((np.mean(values), np.std(values, ddof=1)), rel=1e-6)
    assert two_nn_sizes(manifold(25), allow_wide=True)[0].tolist() == [12, 25]
    assert [len(column) for column in two_nn_sizes(np.ones((20, 3)))] == [0, 0, 0]


# The page


def test_the_page_on_intrinsic_dimension_runs(capsys):
    page = (Path(__file__).parents[2] / "docs" / "intrinsic-dimension.md").read_text("utf-8")
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        exec(compile(block, "docs/intrinsic-dimension.md", "exec"), names)
    assert names["x"].low < 3 < names["x"].high
    assert capsys.readouterr().out.startswith("3.00 (")
    assert names["dimension"] == pytest.approx(3, rel=0.1)
    assert names["size"][-1] == 2000
    for name in NAMES:
        assert f"| `{name}` |" in page


def test_the_page_says_what_duplicates_do_to_the_published_number():
    x = rng(13).standard_normal((2000, 20)).astype(np.float32)
    same = np.where(np.arange(2000)[:, None] < 100, x[0], x)
    assert 1.2 < two_nn_razzhigaev(same) / two_nn_razzhigaev(x) < 1.5
    assert two_nn(same) == pytest.approx(float(two_nn(x)), rel=0.03)
