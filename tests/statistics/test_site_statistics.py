"""Moments and all that a site keeps: merged equals one pass, and a file gives back what it was given."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from isoscope.core.site import POINTS
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.matrix_cloud import accumulate
from isoscope.metrics import metrics
from isoscope.statistics.site_statistics import Moments, SiteStatistics

D = 9


def points(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, D)) * rng.lognormal(0, 1, (n, 1)) + rng.integers(-3, 4)
    x[rng.random(n) < 0.05] = 0
    return x


def moments(*blocks):
    m = Moments(D, cosine=True)
    for block in blocks:
        m.update(block)
    return m


def close(a, b, rel=1e-9):
    assert (a.n, a.zeros) == (b.n, b.zeros)
    for name in ("norm", "norm2", "total", "directions", "squared"):
        x, y = np.asarray(getattr(a, name)), np.asarray(getattr(b, name))
        np.testing.assert_allclose(x, y, rtol=rel, atol=rel * (1 + np.abs(y).max()), err_msg=name)
    for name in ("second", "cosine"):
        x, y = getattr(a, name), getattr(b, name)
        assert x.n == y.n
        if x.n > 1:
            np.testing.assert_allclose(x.covariance, y.covariance, atol=rel * np.abs(y.covariance).max(), rtol=rel, err_msg=name)
            np.testing.assert_allclose(x.raw_moment, y.raw_moment, atol=rel * np.abs(y.raw_moment).max(), rtol=rel, err_msg=name)


def test_against_float64():
    x = points(300, 0)
    m = moments(x[:7], x[7:100], x[100:])
    norms = np.linalg.norm(x, axis=1)
    u = x[norms > 0] / norms[norms > 0, None]
    assert m.alive == len(u)
    np.testing.assert_allclose(m.total, x.sum(0), rtol=1e-10)
    np.testing.assert_allclose(m.directions, u.sum(0), rtol=1e-10)
    np.testing.assert_allclose(m.squared, (u**2).sum(0), rtol=1e-10)
    np.testing.assert_allclose([m.norm, m.norm2], [norms.sum(), (norms**2).sum()], rtol=1e-12)
    np.testing.assert_allclose(m.second.covariance, np.cov(x.T), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(m.cosine.raw_moment, u.T @ u / len(u), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(Cloud(m).spectrum().values, np.linalg.eigvalsh(np.cov(x.T))[::-1], rtol=1e-9)
    np.testing.assert_allclose(Cloud(m).spectrum(centred=False).values, np.linalg.eigvalsh(x.T @ x / 300)[::-1], rtol=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.integers(0, 99), st.lists(st.integers(0, 60), max_size=4), st.integers(0, 10**6))
def test_any_split_in_any_order(n, seed, cuts, shuffle):
    x = points(n, seed)
    parts = [moments(part) for part in np.split(x, sorted(min(c, n) for c in cuts)) if len(part)]
    order = np.random.default_rng(shuffle).permutation(len(parts))
    merged = parts[order[0]]
    for i in order[1:]:
        merged = merged.merge(parts[i])
    close(merged, moments(x))


def test_a_spectrum_is_not_kept_beyond_an_update():
    x = points(80, 1)
    m = moments(x[:40])
    first = Cloud(m).spectrum().values.copy()
    m.update(x[40:])
    assert not np.allclose(first, Cloud(m).spectrum().values)
    np.testing.assert_allclose(Cloud(m).spectrum().values, Cloud(moments(x)).spectrum().values, rtol=1e-9)


def test_rows_that_are_not_finite_are_in_no_sum():
    x = points(50, 2)
    dirty = np.insert(x, 20, np.nan, axis=0)
    close(moments(dirty), moments(x), rel=1e-12)


def test_tensors_and_arrays_agree():
    x = points(70, 3).astype(np.float32)
    close(moments(torch.from_numpy(x)), moments(x), rel=1e-6)
    rounded = torch.from_numpy(x).bfloat16()
    close(moments(rounded), moments(rounded.float().numpy()), rel=1e-6)


@pytest.mark.parametrize("n", [0, 1, D, D + 1, 60])
def test_state_is_everything(n, tmp_path):
    m = moments(points(n, 4)) if n else Moments(D, cosine=True)
    save_file(m.state(), tmp_path / "m.safetensors")
    for again in (Moments.from_state(m.state()), Moments.from_state(load_file(tmp_path / "m.safetensors"))):
        assert again.state().keys() == m.state().keys()
        for key, value in m.state().items():
            np.testing.assert_array_equal(again.state()[key], value)


# A site of a matrix, in shards.


def site(x, start=0, sample=40):
    parts = ("directions", "sums", "second", "cosine", "groups", "sample")
    blocks = (x[i : i + 7] for i in range(0, len(x), 7))
    return accumulate(blocks, max(len(x), 2), D, parts, allow_wide=True, start=start, sample=sample)


@settings(max_examples=15, deadline=None)
@given(st.integers(12, 90), st.integers(0, 99), st.integers(1, 11), st.booleans())
def test_shards_of_a_matrix(n, seed, cut, swap):
    x = np.random.default_rng(seed).standard_normal((n, D)) + 0.5
    whole, left, right = site(x), site(x[:cut]), site(x[cut:], start=cut)
    merged = right.merge(left) if swap else left.merge(right)
    close(merged.moments[0], whole.moments[0])
    for key, value in whole.groups.state().items():
        np.testing.assert_allclose(merged.groups.state()[key], value, rtol=1e-9, atol=1e-9, err_msg=key)
    for key, value in whole.sample.state().items():
        np.testing.assert_array_equal(merged.sample.state()[key], value, err_msg=key)
    a, b = Cloud.of(merged, "all"), Cloud.of(whole, "all")
    for metric in metrics("points"):
        x, y = metric(a), metric(b)
        np.testing.assert_allclose([x, x.low, x.high, x.null], [y, y.low, y.high, y.null], rtol=1e-6, atol=1e-9, err_msg=metric.name)


def test_a_shard_without_points_takes_nothing_away():
    x = np.random.default_rng(5).standard_normal((50, D))
    whole, empty = site(x), SiteStatistics(D, [POINTS], cosine=True, sample=40)
    for merged in (whole.merge(empty), empty.merge(whole)):
        assert len(merged.sample) == 40
        np.testing.assert_array_equal(merged.sample.points, whole.sample.points)
        close(merged.moments[0], whole.moments[0], rel=1e-12)
    assert Cloud.of(empty, "all") is None
    assert empty.slices_in_use == []


def test_a_site_through_a_file(tmp_path):
    x = np.random.default_rng(6).standard_normal((50, D))
    names = ["special", "first", "body", "body:sink"]
    whole = SiteStatistics(D, names, cosine=True, sample=30)
    for m, part in zip(whole.moments, np.array_split(x, 4), strict=True):
        m.update(part)
    rows, code = np.arange(50), np.repeat([0, 1, 2, 3], [13, 13, 12, 12])
    whole.sample.update(x, rows.astype(np.uint64), rows.astype(np.uint64), rows, code)
    save_file(whole.state(), tmp_path / "s.safetensors")
    again = SiteStatistics.from_state(load_file(tmp_path / "s.safetensors"))
    assert again.names == names
    assert again.state().keys() == whole.state().keys()
    for key, value in whole.state().items():
        np.testing.assert_array_equal(again.state()[key], value)
    assert SiteStatistics.from_state(whole.state(sample=False)).sample is None
    cloud = Cloud.of(again, "body-no-sink")
    assert cloud.n == 12
    np.testing.assert_allclose(cloud.moments.mean, x[26:38].mean(0), rtol=1e-10)
    assert set(cloud.sample.slice) == {2}
