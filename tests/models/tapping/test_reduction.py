"""Reducing a batch: a point that is not finite is reported with its site and reaches no statistics, padding is not looked at."""

import numpy as np
import pytest
import torch

from isoscope.core.errors import IsoscopeError
from isoscope.models.tapping.reduction import reduce_heads, reduce_state
from isoscope.statistics.head_statistics import Heads
from isoscope.statistics.site_statistics import SiteStatistics
from tests.statistics.head_batches import NAMES, SITE, E, H, batches


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
def test_nan_is_reported_with_its_site(value):
    x, layout = next(batches(torch.float32))
    x[0, 1, 3, 0] = value
    heads = Heads(H, E, NAMES)
    with pytest.raises(IsoscopeError, match=r"made gives NaN or infinity at encoder\.query\.2: 1 body vectors"):
        reduce_heads(heads, x, layout, SITE, "made")
    assert heads.counts.sum() == 0


def test_a_batch_of_states_is_reduced_to_the_sums_of_its_slices():
    """The positions of each slice, by plain selection; the last half of the second sequence is padding and holds NaN."""
    x, layout = next(batches(torch.float64))
    states = x[:, 0].contiguous()
    statistics = SiteStatistics(E, NAMES, sample=16)
    reduce_state(statistics, states, layout, SITE, "made")
    for code, moments in enumerate(statistics.moments):
        own = states.numpy()[layout.codes == code]
        assert moments.n == len(own) > 0
        np.testing.assert_allclose(moments.total, own.sum(0), rtol=1e-9)
        np.testing.assert_allclose(moments.norm, np.linalg.norm(own, axis=1).sum(), rtol=1e-9)
