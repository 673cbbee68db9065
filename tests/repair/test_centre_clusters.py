"""Centring by clusters: what it promises, on new points too, from runs and from files."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.utils.estimator_checks import parametrize_with_checks

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.estimation.matrix_cloud import cloud_of
from isoscope.metrics import mean_cosine, top_share
from isoscope.repair import AllButTheTop, Centre, CentreClusters, RepairError, load
from isoscope.statistics.sample import mix, point_hashes
from isoscope.statistics.site_statistics import SiteStatistics
from tests.repair.repair_clouds import anisotropic


def topics(n=600, d=12, k=4, offset=0.0, seed=0):
    """k balls far apart, each a little longer in a direction of its own, and which is whose."""
    rng = np.random.default_rng(seed)
    owner = rng.integers(k, size=n)
    centres = 12 * np.random.default_rng(99).normal(size=(k, d))
    stretched = rng.normal(size=(n, d)) * np.where(np.arange(d) == owner[:, None], 3.0, 1.0)
    return centres[owner] + stretched + offset, owner


# No check is left out.
@parametrize_with_checks([CentreClusters(), CentreClusters(k=2), CentreClusters(k=2, directions=1)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_every_cluster_is_centred_and_shared_cosine_vanishes():
    X, owner = topics()
    repair = CentreClusters().fit(X)
    assert len(repair.centres_) == 4
    out, label = repair.transform(X), repair.labels(X)
    for own in range(4):
        assert len(set(label[owner == own])) == 1
        np.testing.assert_allclose(out[owner == own], X[owner == own] - X[owner == own].mean(0), atol=1e-9)
    assert mean_cosine(X) > 0.2
    assert abs(mean_cosine(out)) < 0.01
    assert top_share(out) < 0.5 * top_share(X)


def test_the_centres_are_those_of_scikit_learn():
    X, _ = topics()
    theirs = KMeans(4, n_init=5, random_state=0).fit(X)
    ours = CentreClusters(k=4).fit(X)
    order = [int(theirs.predict((centre + ours.mean_)[None])[0]) for centre in ours.centres_]
    assert sorted(order) == [0, 1, 2, 3]
    np.testing.assert_allclose(ours.centres_ + ours.mean_, theirs.cluster_centers_[order], atol=1e-9)


def test_directions_are_removed_from_each_cluster_by_themselves():
    X, owner = topics()
    out = CentreClusters(k=4, directions=2).fit_transform(X)
    for own in range(4):
        np.testing.assert_allclose(out[owner == own], AllButTheTop(k=2).fit_transform(X[owner == own]), atol=1e-9)


def test_new_points_go_to_the_nearest_cluster():
    repair = CentreClusters(k=4, directions=1).fit(topics()[0])
    new, owner = topics(50, seed=5)
    label = repair.labels(new)
    out = repair.transform(new)
    expected = new - repair.mean_ - repair.means_[label]
    expected -= np.einsum("nd,nd->n", expected, repair.components_[label, 0])[:, None] * repair.components_[label, 0]
    np.testing.assert_allclose(out, expected, atol=1e-10)
    np.testing.assert_allclose(repair.transform(new[:7]), out[:7], atol=1e-12)
    assert len(set(zip(label, owner, strict=True))) == 4


def test_one_cluster_is_centring():
    X = anisotropic()
    np.testing.assert_allclose(CentreClusters(k=1).fit_transform(X), Centre().fit_transform(X), atol=1e-9)
    np.testing.assert_allclose(CentreClusters().fit_transform(X[:5]), Centre().fit_transform(X[:5]), atol=1e-9)


@pytest.mark.parametrize("offset", [30.0, 300.0, 3000.0])
def test_float32_far_from_the_origin_loses_no_digits(offset):
    narrow = topics(offset=offset)[0].astype(np.float32)
    out, wide = (CentreClusters(k=4, directions=1).fit_transform(points) for points in (narrow, narrow.astype(np.float64)))
    assert (out.dtype, wide.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(out, wide, rtol=1e-4, atol=1e-4)


def test_duplicates_and_equal_points():
    X, _ = topics()
    twice = CentreClusters(k=4).fit(np.concatenate([X, X]))
    np.testing.assert_allclose(twice.transform(X), CentreClusters(k=4).fit_transform(X), atol=1e-9)
    np.testing.assert_allclose(CentreClusters(k=3, directions=1).fit_transform(np.full((40, 3), 0.1)), 0, atol=1e-12)


def test_more_clusters_than_distinct_points_leave_nothing():
    X = np.repeat(np.eye(3), 10, axis=0)
    np.testing.assert_allclose(CentreClusters(k=8).fit_transform(X), 0, atol=1e-12)


def test_fit_cloud_and_from_statistics_equal_fit_of_the_sample():
    X = topics()[0].astype(np.float32)
    expected = CentreClusters(k=4).fit_transform(X)
    np.testing.assert_allclose(CentreClusters(k=4).fit_cloud(cloud_of(X)).transform(X), expected, atol=1e-5)
    statistics = SiteStatistics(12, ["body"], sample=4096)
    unit, index = mix(np.arange(len(X), dtype=np.uint64)), np.arange(len(X))
    statistics.moments[0].update(X)
    statistics.sample.update(X, point_hashes(0, unit, index), unit, index, np.zeros(len(X), np.int16))
    fitted = CentreClusters.from_statistics({Site("encoder", "hidden", 1): statistics}, layer=1, k=4)
    np.testing.assert_allclose(fitted.transform(X), expected, atol=1e-5)


def test_a_loaded_repair_transforms_bit_for_bit_as_the_saved_one(tmp_path):
    X, _ = topics()
    repair = CentreClusters(k=4, directions=2, seed=1).fit(X)
    repair.save(tmp_path / "c")
    again = load(tmp_path / "c")
    assert type(again) is CentreClusters
    assert again.get_params() == {"k": 4, "directions": 2, "seed": 1}
    np.testing.assert_array_equal(again.transform(X), repair.transform(X))


def test_clouds_with_too_few_points_or_dimensions_are_refused():
    with pytest.raises(IsoscopeError, match="sample"):
        CentreClusters().fit_cloud(cloud_of(anisotropic(), ("second",)))
    with pytest.raises(RepairError, match="CentreClusters needs at least two points; there is 1"):
        CentreClusters().fit_cloud(cloud_of(anisotropic(), sample=1))
    with pytest.raises(RepairError, match="CentreClusters needs at least 2 dimensions; there is 1"):
        CentreClusters(directions=1).fit_cloud(cloud_of(anisotropic()[:, :1]))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_are_refused_with_their_row(bad):
    X = topics(5000)[0]
    repair = CentreClusters(k=4).fit(X)
    X[4500, 3] = bad
    for act in (repair.fit, repair.transform):
        with pytest.raises(RepairError, match="NaN or infinity, first in row 4500"):
            act(X)


@pytest.mark.parametrize(
    ("repair", "sentence"),
    [
        (CentreClusters(k=0), r"The 'k' parameter must be None or an int of at least 1\. Got 0 instead"),
        (CentreClusters(k=2.5), r"Got 2\.5 instead"),
        (CentreClusters(k=601), "at most the number of points, 600"),
        (CentreClusters(directions=12), "'directions' parameter must be an int of at least 0 and below the number of dimensions, 12"),
        (CentreClusters(directions=-1), "Got -1 instead"),
        (CentreClusters(seed=True), "'seed' parameter must be an int of at least 0. Got True"),
    ],
)
def test_parameters_are_refused_in_scikit_learns_words(repair, sentence):
    with pytest.raises(RepairError, match=sentence):
        repair.fit(topics()[0])
