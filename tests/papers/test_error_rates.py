"""Each verdict speaks in at most 5 % of simulated runs in which it should say nothing."""

from __future__ import annotations

from functools import partial

import pytest

from tests.papers.error_rates import Null
from tests.papers.nulls import NULLS
from tests.papers.nulls.drift import pooled_speaks
from tests.papers.nulls.layers import layers_null


@pytest.mark.slow
@pytest.mark.parametrize("null", NULLS, ids=lambda null: f"{null.verdict.strip('`')}: {null.world}")
def test_rate(null: Null) -> None:
    rate = null.rate()
    print(f"{null.verdict}, {null.world}: {100 * rate:.1f} % of {null.draws:,}")
    assert rate <= null.allowed()


@pytest.mark.parametrize("models", [3, 5])
def test_a_pooled_correlation_of_models_that_differ_is_rarely_decided(models: int) -> None:
    """Three and five models with mean 0: an interval that ignores how few they are speaks in 10 to 18 %."""
    null = Null("", "", partial(pooled_speaks, models=models, sd=0.6), 600)
    assert null.rate() <= null.allowed()


def test_the_highest_of_many_layers_is_not_above_the_threshold_by_chance() -> None:
    """Thirteen layers at 0.2, each of which would be called higher in 2.5 %: one of them would be in 18 % of runs."""
    null = layers_null("vit_is_low", "vision", ["vit-base-patch16"], 0.2, 0.0, 300, 120, False)
    assert null.rate() <= null.allowed()
