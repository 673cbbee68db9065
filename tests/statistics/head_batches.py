"""Batches of queries with padding, slices and items in parts, for tests of the statistics of heads."""

import numpy as np
import torch

from isoscope.core.site import Site
from isoscope.models.tapping.layout import Layout
from isoscope.statistics.sample import point_hashes

NAMES = ["special", "first", "body"]
SITE = Site("encoder", "query", 2)
H, E = 3, 5


def batches(dtype, count=4, b=3, t=40, seed=0, offset=0.0):
    """Batches of points with padding, three slices, and one item that comes in two parts."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        codes = np.full((b, t), 2, dtype=np.int16)
        codes[:, 0], codes[0, 5:9] = 0, 1
        codes[1, t // 2 :] = -1
        item = np.arange(b).astype(np.uint64) + np.uint64(100 * number)
        index = np.tile(np.arange(t), (b, 1))
        hashes = point_hashes(0, np.repeat(item, t), index.ravel()).reshape(b, t)
        unit = item.astype(np.int64)
        last = np.ones(b, dtype=bool)
        if number < 2:
            unit[2], last[2] = 7777, number == 1
        x = torch.as_tensor(rng.standard_normal((b, t, H, E)) * [[[1.0]], [[3.0]], [[0.2]]][number % 3] + offset, dtype=dtype)
        x[1, t // 2 :] = torch.nan  # padding
        x[0, 7, 1] = 0.0
        layout = Layout(codes, None, hashes, index, item, unit, rng.integers(0, 64, b), last)
        layout.group[2] = 5 if number < 2 else layout.group[2]
        yield x.transpose(1, 2), layout
