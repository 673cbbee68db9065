"""Bell and flat: decoders whose B lies exactly at its threshold, encoders whose range does."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from isoscope.claims.evidence import BELL_HEIGHT, FLAT_RANGE
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.profile import Profile
from isoscope.metrics import bell, share_range
from isoscope.statistics.kernel import block_sums
from isoscope.statistics.sample import Sample, item_hash, point_hashes
from isoscope.statistics.site_statistics import Moments
from tests.claims.error_rates import Null

D, TOKENS = 6, 12
UNITS = np.array([item_hash(str(i)) for i in range(400)], dtype=np.uint64)
SHAPES = {
    "bell": np.array([0.3, 0.3, 0.32, 0.34, 0.35, 0.35, 0.35, 0.35, 0.34, 0.32, 0.3, 0.3]),
    "bell above one end": np.array([0.6, 0.6, 0.62, 0.64, 0.65, 0.65, 0.65, 0.65, 0.64, 0.5, 0.4, 0.4]),
    "rising": np.linspace(0.3, 0.4, 12),
    "one block apart": np.array([0.3] * 6 + [0.4] + [0.3] * 5),
}
"""Shares of the first direction by block: B is 0.05 in the first two, the range is 0.1 in the last two."""


def points(rng: np.random.Generator, owner: np.ndarray, shared: float = 0.6) -> np.ndarray:
    """Points (n, d) of documents with a mean of their own."""
    means = rng.standard_normal((int(owner.max()) + 1, D))
    return np.asarray(shared * means[owner] + (1 - shared**2) ** 0.5 * rng.standard_normal((len(owner), D)))


def stack(rng: np.random.Generator, shares: np.ndarray, documents: int, uneven: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The points of every block and their documents, which change a little from block to block, as in a residual stream."""
    lengths = np.ceil(rng.lognormal(2.0, 0.8, documents)).astype(int) if uneven else np.full(documents, TOKENS)
    owner = np.repeat(np.arange(documents), lengths)
    x = points(rng, owner)
    for share in shares:
        x = 0.9 * x + (1 - 0.81) ** 0.5 * points(rng, owner)
        yield x * np.array([(share / (1 - share) * (D - 1)) ** 0.5] + [1.0] * (D - 1)), owner


def cloud(x: np.ndarray, owner: np.ndarray) -> Cloud:
    """What a profile reads of one block."""
    moments, sample = Moments(D), Sample(D, len(x))
    moments.add(block_sums(x[None]), x)
    units, index = UNITS[owner], np.arange(len(x)) - np.searchsorted(owner, owner)
    sample.update(x, point_hashes(0, units, index), units, index, np.zeros(len(x), dtype=np.int16))
    return Cloud(moments, None, sample)


def interval_misses(rng: np.random.Generator, *, profile: Profile, truth: float, shape: str, documents: int, uneven: bool) -> bool:
    """Whether the interval of one stack leaves the true value out."""
    found = profile({i: cloud(*one) for i, one in enumerate(stack(rng, SHAPES[shape], documents, uneven), 1)})
    return not found.low <= truth <= found.high


def shape_null(profile: Profile, truth: float, shape: str, documents: int, draws: int, uneven: bool = False) -> Null:
    """The null of one profile, in words."""
    lengths = " of uneven length" if uneven else ""
    draw = partial(interval_misses, profile=profile, truth=truth, shape=shape, documents=documents, uneven=uneven)
    return Null(f"`{profile.name}` of one stack", f"{truth:g} ({shape}), 12 blocks, {documents} documents{lengths}", draw, draws)


NULLS = [
    shape_null(bell, BELL_HEIGHT, "bell", 60, 400),
    shape_null(bell, BELL_HEIGHT, "bell", 200, 200),
    shape_null(bell, BELL_HEIGHT, "bell above one end", 60, 400),
    shape_null(bell, BELL_HEIGHT, "bell above one end", 60, 400, True),
    shape_null(share_range, FLAT_RANGE, "rising", 60, 400),
    shape_null(share_range, FLAT_RANGE, "rising", 200, 200),
    shape_null(share_range, FLAT_RANGE, "one block apart", 200, 200),
    shape_null(share_range, FLAT_RANGE, "rising", 60, 400, True),
]
