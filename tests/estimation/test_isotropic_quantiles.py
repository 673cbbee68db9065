"""What isotropic vectors exceed by chance: published percentiles, and many pairs."""

import numpy as np
import pytest

from isoscope.estimation.isotropic_quantiles import head_threshold, one_pair

PUBLISHED = {
    16: 0.4124,
    64: 0.2058,
    128: 0.1455,
    256: 0.1028,
    512: 0.0727,
    768: 0.0594,
    1024: 0.0514,
    2048: 0.0363,
    4096: 0.0257,
    8192: 0.0182,
}


def test_published_percentiles_of_one_pair():
    assert {d: round(one_pair(d), 4) for d in PUBLISHED} == PUBLISHED


@pytest.mark.parametrize("q", [0.5, 0.9, 0.975])
def test_quantiles_are_those_of_drawn_pairs(q):
    x = np.random.default_rng(0).standard_normal((200_000, 12))
    cosine = x[:, 0] / np.linalg.norm(x, axis=1)
    assert one_pair(12, q) == pytest.approx(np.quantile(cosine, q), abs=0.004)


def test_the_largest_of_many_heads_exceeds_the_threshold_in_one_case_of_twenty():
    x = np.random.default_rng(1).standard_normal((4000, 40, 8))
    largest = np.abs(x[..., 0] / np.linalg.norm(x, axis=-1)).max(1)
    assert np.mean(largest > head_threshold(8, 40)) == pytest.approx(0.05, abs=0.012)
