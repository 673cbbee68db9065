"""Layouts of small batches, for tests of the parts that reduce them on a device."""

import numpy as np

from isoscope.models.tapping.layout import Layout

NAMES = ["special", "first", "body"]


def make_layout(codes, unit=None, last=None, seed=0):
    """Positions with these slices (b, t), drawn hashes, and a unit for each row unless some are given; groups are those of eight."""
    codes = np.asarray(codes, dtype=np.int16)
    b, t = codes.shape
    unit = np.arange(b) if unit is None else np.asarray(unit)
    last = np.ones(b, dtype=bool) if last is None else np.asarray(last)
    hashes = np.random.default_rng(seed).integers(0, 2**64, (b, t), dtype=np.uint64)
    return Layout(codes, None, hashes, np.tile(np.arange(t), (b, 1)), unit.astype(np.uint64), unit, unit % 8, last)


def make_codes(b, t, padding=0):
    """A special token, a first one, and a body; the last row ends in padding."""
    codes = np.full((b, t), 2)
    codes[:, 0], codes[:, 1] = 0, 1
    codes[-1, t - padding :] = -1
    return codes
