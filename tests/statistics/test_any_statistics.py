"""Statistics of every kind through one door: their states come back, merge, and are told apart."""

import numpy as np

from isoscope.statistics.any_statistics import from_state, layout_of, merge_statistics, state_of
from isoscope.statistics.attention_statistics import AttentionStatistics
from isoscope.statistics.head_statistics import Heads
from isoscope.statistics.sample import mix, point_hashes
from isoscope.statistics.site_statistics import SiteStatistics

NAMES = ["first", "body"]


def heads_of(seed, sequences=3, d=4):
    """Two heads that have seen a few sequences, each an item; position 0 is `first`, and the last one is padding."""
    x = np.random.default_rng(seed).standard_normal((sequences, 2, 9, d)).astype(np.float32)
    codes = np.tile(np.array([0] + [1] * 7 + [-1]), (sequences, 1))
    unit = np.arange(seed * 100, seed * 100 + sequences)
    heads = Heads(2, d, NAMES, sample=16)
    assert heads.update(x, codes, unit % 16, unit=unit, last=np.ones(sequences, bool)) == {}
    item, index = mix(unit.astype(np.uint64)), np.tile(np.arange(9), (sequences, 1))
    heads.draw(x, point_hashes(0, np.repeat(item, 9), index.ravel()).reshape(codes.shape), item, index, codes)
    return heads, x


def equal_states(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def test_the_state_of_heads_comes_back_under_their_kind():
    heads, _ = heads_of(1)
    again = from_state("query", state_of(heads))
    assert isinstance(again, Heads)
    equal_states(state_of(again), state_of(heads))
    assert not any(name.startswith("sample.") for name in state_of(heads, sample=False))


def test_merged_heads_hold_the_points_of_both():
    (a, x), (b, y) = heads_of(1), heads_of(2)
    merged = merge_statistics(a, b)
    for j, head in enumerate(merged.split()):
        body = np.concatenate([part[:, j, 1:8].reshape(-1, 4) for part in (x, y)]).astype(np.float64)
        moments = head.moments[NAMES.index("body")]
        assert moments.n == len(body)
        np.testing.assert_allclose(moments.total, body.sum(0), rtol=1e-5)
        np.testing.assert_allclose(moments.second.covariance, np.cov(body.T), rtol=1e-4, atol=1e-5)
    assert merged.slices_in_use == NAMES


def test_statistics_of_other_slices_widths_or_kinds_have_another_layout():
    assert layout_of(SiteStatistics(4, NAMES)) == (SiteStatistics, 1, 4, NAMES)
    assert layout_of(Heads(2, 4, NAMES)) == (Heads, 2, 4, NAMES)
    assert layout_of(AttentionStatistics(2, 4, NAMES)) == (AttentionStatistics, 2, 4, NAMES)
    assert layout_of(SiteStatistics(4, NAMES[::-1])) != layout_of(SiteStatistics(4, NAMES))
