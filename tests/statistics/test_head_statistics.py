"""Heads all at once against each head on its own, through the statistics that hidden states go through."""

import numpy as np
import pytest
import torch

from isoscope.estimation.cloud import Cloud
from isoscope.models.tapping.reduction import reduce_heads, reduce_state
from isoscope.statistics.head_statistics import Heads
from isoscope.statistics.site_statistics import SiteStatistics
from tests.statistics.head_batches import NAMES, SITE, E, H, batches


def one_by_one(dtype, groups=16, **made):
    parts = [SiteStatistics(E, NAMES, sample=16) for _ in range(H)]
    for x, layout in batches(dtype, **made):
        for j, part in enumerate(parts):
            for array in ("counts", "sums", "products", "units"):  # as many groups as heads have
                if part.groups.count != groups:
                    old = getattr(part.groups, array)
                    axis = {"counts": 2, "sums": 2, "products": 1, "units": 0}[array]
                    setattr(part.groups, array, old.take(range(groups), axis))
            part.groups.count = groups
            reduce_state(part, x[:, j].contiguous(), layout, SITE, "made")
    return parts


def at_once(dtype, **made):
    heads = Heads(H, E, NAMES, sample=16)
    for x, layout in batches(dtype, **made):
        reduce_heads(heads, x, layout, SITE, "made")
    return heads


def same(a, b, tolerance):
    """Two statistics hold the same numbers, whatever shift their second moments are about."""
    for one, two in zip(a.moments, b.moments, strict=True):
        assert (one.n, one.zeros) == (two.n, two.zeros)
        for name in ("norm", "norm2", "total", "directions", "squared", "mean"):
            np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=tolerance, atol=tolerance * one.norm, err_msg=name)
        assert (one.second.outer is None) == (two.second.outer is None)
        largest = np.abs(one.second.covariance).max()
        np.testing.assert_allclose(one.second.covariance, two.second.covariance, rtol=tolerance, atol=tolerance * largest)
    for name in ("counts", "sums", "products", "units"):
        first = getattr(a.groups, name)
        np.testing.assert_allclose(first, getattr(b.groups, name), rtol=tolerance, atol=tolerance * np.abs(first).max(), err_msg=name)
    assert a.groups._open.keys() == b.groups._open.keys()
    for name in ("points", "hashes", "unit", "index", "slice"):
        np.testing.assert_array_equal(getattr(a.sample, name), getattr(b.sample, name))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 2e-5)])
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("offset", [0.0, 50.0])
def test_heads_equal_each_head_on_its_own(dtype, tolerance, count, offset):
    tolerance *= 20 if offset and dtype == torch.float32 else 1
    for one, two in zip(one_by_one(dtype, count=count, offset=offset), at_once(dtype, count=count, offset=offset).split(), strict=True):
        same(one, two, tolerance)


def test_heads_that_were_split_and_joined_go_on_as_if_they_had_not():
    given = list(batches(torch.float64))
    whole, first = Heads(H, E, NAMES, sample=16), Heads(H, E, NAMES, sample=16)
    for x, layout in given:
        reduce_heads(whole, x, layout, SITE, "made")
    for x, layout in given[:1]:
        reduce_heads(first, x, layout, SITE, "made")
    stored = [SiteStatistics.from_state(part.state()) for part in first.split()]
    again = Heads.from_heads(stored)
    for x, layout in given[1:]:
        reduce_heads(again, x, layout, SITE, "made")
    for one, two in zip(whole.split(), again.split(), strict=True):
        same(one, two, 1e-12)


def test_heads_merge_as_sites_do():
    given = list(batches(torch.float64))
    parts = [Heads(H, E, NAMES, sample=16) for _ in range(2)]
    for number, (x, layout) in enumerate(given):
        reduce_heads(parts[number // 2], x, layout, SITE, "made")
    for one, a, b in zip(at_once(torch.float64).split(), parts[0].split(), parts[1].split(), strict=True):
        same(one, a.merge(b), 1e-9)


def test_the_clouds_of_heads_answer_metrics():
    from isoscope.metrics import effective_rank, mean_cosine

    head = at_once(torch.float64).split()[1]
    cloud = Cloud.of(head, "no-special")
    value = mean_cosine(cloud)
    assert cloud.n == head.moments[1].n + head.moments[2].n
    assert value.low < value < value.high
    assert 1 < effective_rank(cloud) <= E
