"""Points reduced on a device, against sums over their positions one by one in NumPy."""

import numpy as np
import pytest
import torch

from isoscope.core.errors import IsoscopeError
from isoscope.models.tapping.device_memory import DeviceMemory
from isoscope.models.tapping.device_points import PointBank
from tests.models.tapping.small_layouts import NAMES, make_codes, make_layout

D, GROUPS, K, CHANNELS = 5, 8, 6, 3


def make_bank(**options):
    memory = DeviceMemory(torch.device("cpu"))
    bank = PointBank(memory, D, NAMES, **{"groups": GROUPS, "second": True, "sample": K, "double": True} | options)
    assert [bank.add_channels(1), bank.add_channels(CHANNELS - 1)] == [0, 1]
    bank.declare()
    memory.clear()
    bank.begin()
    return memory, bank


def test_sums_are_those_of_the_positions_one_by_one():
    """Item 0 lies in two batches, items 1 and 9 in two rows; some points have no direction, and padding holds NaN."""
    rng, (memory, bank) = np.random.default_rng(0), make_bank()
    batches = [([0, 1, 1, 2], [False, False, True, True]), ([3, 9, 0, 9], [True, False, True, True])]
    points = []  # unit, slice, hash, (channels, d)
    for seed, (unit, last) in enumerate(batches):
        b, t = len(unit), 8
        layout = make_layout(make_codes(b, t, padding=2), unit, last, seed)
        x = rng.standard_normal((b, CHANNELS, t, D)) + 3
        x[0, 1, 4] = x[1, 2, 0] = 0
        x[b - 1, :, t - 2 :] = np.nan
        for i, j in np.argwhere(layout.codes >= 0):
            points.append((unit[i], int(layout.codes[i, j]), int(layout.hashes[i, j]), x[i, :, j]))
        bank.reduce(0, torch.from_numpy(x[:, :1]), layout)
        bank.reduce(1, torch.from_numpy(x[:, 1:]), layout)
        bank.end_batch()
    host = memory.read()
    assert not bank.bad(host).any()
    drawn = sorted(points, key=lambda point: point[2])[:K]
    for channel in range(CHANNELS):
        got, items = bank.statistics(host, channel), {}
        np.testing.assert_array_equal(got.sample.points, np.array([x[channel] for *_, x in drawn]))
        for code, moments in enumerate(got.moments):
            x = np.array([x[channel] for _, c, _, x in points if c == code])
            norms = np.linalg.norm(x, axis=1)
            u = x[norms > 0] / norms[norms > 0, None]
            assert (moments.n, moments.zeros) == (len(x), (norms == 0).sum())
            np.testing.assert_allclose([moments.norm, moments.norm2], [norms.sum(), (norms**2).sum()], rtol=1e-12)
            np.testing.assert_allclose(moments.total, x.sum(0), rtol=1e-12)
            np.testing.assert_allclose(moments.directions, u.sum(0), rtol=1e-12)
            np.testing.assert_allclose(moments.squared, (u**2).sum(0), rtol=1e-12)
            np.testing.assert_allclose(moments.second.covariance, np.cov(x.T), rtol=1e-10, atol=1e-12)
        for unit, code, _, x in points:
            point, norm = x[channel], np.linalg.norm(x[channel])
            item = items.setdefault(unit, np.zeros((2, len(NAMES), D + 1)))
            item[0, code] += np.append(point / norm, 1) if norm else 0
            item[1, code] += np.append(point, 1)
        products = np.zeros((4, GROUPS, len(NAMES), len(NAMES)))
        for unit, sums in items.items():
            for kind, (vectors, n) in enumerate((part[:, :D], part[:, D]) for part in sums):
                products[2 * kind : 2 * kind + 2, unit % GROUPS] += vectors @ vectors.T, np.outer(n, n)
        np.testing.assert_allclose(got.groups.products, products, rtol=1e-11, atol=1e-11)
        assert got.groups.units.tolist() == [1, 2, 1, 1, 0, 0, 0, 0]


def test_points_that_are_not_finite_are_counted_in_their_slice():
    memory, bank = make_bank(second=False, sample=0)
    x = torch.ones(2, CHANNELS, 8, D)
    x[0, 1, 0, 3], x[0, 1, 5], x[1, 2, 4, 0] = torch.nan, torch.inf, -torch.inf
    bank.reduce(0, x, make_layout(make_codes(2, 8)))
    bank.end_batch()
    assert bank.bad(memory.read()).tolist() == [[0, 0, 0], [1, 0, 1], [0, 0, 1]]


def test_channels_that_see_different_positions_are_refused():
    _, bank = make_bank()
    bank.reduce(0, torch.ones(2, CHANNELS - 1, 8, D, dtype=torch.float64), make_layout(make_codes(2, 8)))
    bank.reduce(CHANNELS - 1, torch.ones(2, 1, 6, D, dtype=torch.float64), make_layout(make_codes(2, 6)))
    with pytest.raises(IsoscopeError, match=r"see different positions in one batch, .* use --device cpu"):
        bank.end_batch()
