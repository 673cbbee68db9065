"""Each verdict speaks in at most 5 % of simulated runs in which it should say nothing."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tests.claims.error_rates import Null
from tests.claims.nulls import NULLS, shape
from tests.claims.nulls.drift import pooled_speaks
from tests.claims.nulls.layers import layers_null
from tests.claims.nulls.orders import precedence_speaks
from tests.claims.nulls.suites import heads_speak, shared_noise


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


@pytest.mark.parametrize("seeds", [1, 3])
def test_heads_that_share_the_chance_of_their_training_are_not_put_in_order(seeds: int) -> None:
    """Onsets alike: an interval over heads speaks in half of trainings of one seed, Student's of parts in 10 % of few heads."""
    null = Null("", "", partial(precedence_speaks, seeds=seeds, layers=2, count=2), 1000)
    assert null.rate() <= null.allowed()


def test_a_range_at_the_threshold_is_rarely_decided() -> None:
    """Sixty documents of uneven length: quantiles of the draws leave the true range out in 20 %."""
    null = shape.shape_null(shape.share_range, shape.FLAT_RANGE, "rising", 60, 60, True)
    assert null.rate() <= null.allowed()


def test_layers_of_one_training_share_its_chance() -> None:
    """The world that single trainings are tried in: means over all heads vary far more than heads of their own would."""
    rng = np.random.default_rng(0)
    means = [shared_noise(rng, 1, 6, 4).mean() for _ in range(500)]
    assert np.var(means) > 5 * 1 / 24


def test_one_training_does_not_speak_for_trainings() -> None:
    """One seed, whose documents are known well: an interval over them speaks every time, one over layers in a third of runs."""
    world = {"name": "dot_product_grows", "metric": "qk_dot", "kinds": ("attention",), "seeds": 1, "level": 1.0, "sd": 0.3, "size": True}
    assert Null("", "", partial(heads_speak, **world), 20).rate() == 0  # type: ignore[arg-type]
