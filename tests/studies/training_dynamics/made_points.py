"""Queries, keys and clouds of points that are known, as the statistics of a run hold them."""

import numpy as np

from isoscope.statistics.head_statistics import Heads
from isoscope.statistics.sample import Sample, point_hashes


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


def sample_of(points, documents):
    """A sample of points (n, d), dealt to documents in turn."""
    n, d = points.shape
    sample = Sample(d, n)
    unit = (np.arange(n) % documents).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    sample.update(points.astype(np.float32), point_hashes(0, unit, np.arange(n)), unit, np.arange(n), np.zeros(n, dtype=np.int16))
    return sample


def cloud(dimension, n=1600, d=24, seed=0):
    """Points of a known dimension, more or less, spread over d."""
    rng = np.random.default_rng(seed)
    return rng.uniform(size=(n, dimension)) @ np.linalg.qr(rng.normal(size=(d, dimension)))[0].T
