"""The sample: uniform, and the same whatever the order, the batches and the shards."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from scipy.stats import chi2, kstest

from isoscope.statistics.sample import Sample, item_hash, mix, point_hashes

ITEMS, LONG = 12, 25
N = ITEMS * LONG
UNIT = np.repeat(np.array([item_hash(f"item {i}") for i in range(ITEMS)], dtype=np.uint64), LONG)
INDEX = np.tile(np.arange(LONG), ITEMS)
POINTS = np.random.default_rng(0).standard_normal((N, 3)).astype(np.float32)
SLICE = np.random.default_rng(1).integers(0, 3, N)


def take(rows, k, seed=0, points=POINTS, batches=1, hashes=None):
    sample = Sample(points.shape[1], k)
    hashes = point_hashes(seed, UNIT, INDEX) if hashes is None else hashes
    for part in np.array_split(np.asarray(rows), batches):
        sample.update(points[part], hashes[part], UNIT[part], INDEX[part], SLICE[part])
    return sample


def same(a, b):
    assert a.state().keys() == b.state().keys()
    for key, value in a.state().items():
        np.testing.assert_array_equal(value, b.state()[key], err_msg=key)
        assert value.dtype == b.state()[key].dtype


def test_the_smallest_hashes_are_kept_with_all_that_belongs_to_them():
    sample, hashes = take(np.arange(N), 40, batches=7), point_hashes(0, UNIT, INDEX)
    chosen = np.argsort(hashes)[:40]
    for found, column in (
        (sample.hashes, hashes),
        (sample.points, POINTS),
        (sample.unit, UNIT),
        (sample.index, INDEX),
        (sample.slice, SLICE),
    ):
        np.testing.assert_array_equal(found, column[chosen])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 60), st.integers(0, N))
def test_order_batches_and_shards_do_not_matter(seed, batches, k, cut):
    order = np.random.default_rng(seed).permutation(N)
    whole = take(np.arange(N), k)
    same(take(order, k, batches=batches), whole)
    left, right = take(order[:cut], k, batches=batches), take(order[cut:], k)
    before = {key: value.copy() for key, value in left.state().items()}
    same(left.merge(right), whole)
    same(right.merge(left), whole)
    assert all(np.array_equal(value, left.state()[key]) for key, value in before.items())


def test_inclusion_is_uniform():
    """How often each point is drawn over many seeds: χ² for draws without replacement."""
    seeds, k = 600, 30
    counts = np.zeros(N)
    for seed in range(seeds):
        counts[np.isin(point_hashes(seed, UNIT, INDEX), take(np.arange(N), k, seed).hashes)] += 1
    p = k / N
    statistic = ((counts - seeds * p) ** 2).sum() / (seeds * p * (1 - p)) * (N - 1) / N
    assert 1e-3 < chi2.sf(statistic, N - 1) < 1 - 1e-3
    by_item = counts.reshape(ITEMS, LONG).sum(1) - seeds * p * LONG
    assert np.abs(by_item).max() < 4.5 * (seeds * LONG * p) ** 0.5


def test_hashes_are_uniform_over_items_indices_and_seeds():
    units = np.arange(5000, dtype=np.uint64)  # ids that differ in few bits
    for hashes in (
        point_hashes(0, units, np.zeros(5000, dtype=np.int64)),
        point_hashes(0, np.zeros(5000, dtype=np.uint64), np.arange(5000)),
        np.array([point_hashes(seed, units[:1], np.zeros(1, dtype=np.int64))[0] for seed in range(2000)]),
        mix(units),
    ):
        assert kstest(hashes / 2.0**64, "uniform").pvalue > 1e-3
        assert len(np.unique(hashes)) == len(hashes)


def test_published_values_of_splitmix64():
    """The first outputs of the reference generator for seed 1234567 are the mix of multiples of its increment."""
    with np.errstate(over="ignore"):
        steps = np.uint64(1234567) + np.arange(1, 4, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert mix(steps).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_two_sites_keep_the_same_tokens():
    other = np.random.default_rng(2).standard_normal((N, 7)).astype(np.float32)
    a, b = take(np.arange(N), 50, batches=3), take(np.arange(N)[::-1], 50, points=other, batches=11)
    np.testing.assert_array_equal(a.unit, b.unit)
    np.testing.assert_array_equal(a.index, b.index)


def test_ties_are_broken_by_item_and_index():
    ties = np.zeros(N, dtype=np.uint64)
    a = take(np.arange(N), 20, batches=5, hashes=ties)
    same(a, take(np.arange(N)[::-1], 20, batches=31, hashes=ties))
    np.testing.assert_array_equal(a.unit, np.sort(UNIT)[:20])
    np.testing.assert_array_equal(a.index, np.arange(20))


@pytest.mark.parametrize("k", [0, 1, N, N + 5])
def test_any_size(k):
    sample = take(np.arange(N), k, batches=9)
    assert len(sample) == min(k, N)
    assert sample.points.shape == (min(k, N), 3)
    same(Sample.from_state(sample.state()), sample)
    same(sample.merge(Sample(3, k)), sample)


def test_what_is_not_a_point_is_not_drawn():
    sample = Sample(3, 500)
    outside = np.where(np.arange(N) % 4 == 0, -1, SLICE)
    sample.update(POINTS, point_hashes(0, UNIT, INDEX), UNIT, INDEX, outside)
    assert len(sample) == (outside >= 0).sum()
    assert sample.slice.min() >= 0


def test_joined_slices_are_the_sample_of_them():
    sample = take(np.arange(N), N)
    joined = sample.join([0, 2])
    chosen = np.flatnonzero(np.isin(SLICE, [0, 2]))
    same(joined, take(chosen, N))
    small = take(np.arange(N), 60).join([1])
    expected = take(np.flatnonzero(SLICE == 1), len(small))
    np.testing.assert_array_equal(small.hashes, expected.hashes)
    np.testing.assert_array_equal(small.points, expected.points)


def test_tensors_and_state(tmp_path):
    sample = Sample(3, 25)
    sample.update(torch.from_numpy(POINTS), point_hashes(0, UNIT, INDEX), UNIT, INDEX, SLICE)
    same(sample, take(np.arange(N), 25))
    save_file(sample.state(), tmp_path / "s.safetensors")
    same(Sample.from_state(load_file(tmp_path / "s.safetensors")), sample)
