"""Every interval holds what it says it is about, in nine of ten simulated corpora or more."""

import sys
from pathlib import Path

import numpy as np
import pytest

from isoscope.metrics import metrics

sys.path.append(str(Path(__file__).parents[2] / "tools"))
from interval_coverage import SIZES, Attending, Population, coverages, tried_metrics

DRAWS = 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "about"),
    [*((Population(d, documents), "points") for d, documents in SIZES.items()), (Attending(), "attention")],
    ids=[*(f"d={d}" for d in SIZES), "attention"],
)
def test_every_interval_holds_what_it_is_about(model, about):
    found = list(coverages(model, tried_metrics(about), DRAWS))
    assert {one.metric.name for one in found} == {metric.name for metric in tried_metrics(about)}
    for one in found:
        assert one.declared >= 0.9, (one.metric.name, one.population, one.this_n)
    if about == "points":  # what is declared to be about this n has reason to be
        by_name = {one.metric.name: one for one in found}
        assert by_name["effective_rank"].population == by_name["participation_ratio"].population == 0


def test_the_population_has_the_value_that_a_large_corpus_has():
    """The values that coverage is held against, computed from the covariance, are those of a corpus of 20,000 documents."""
    model = Population(8, 20_000)
    chosen = [metric for metric in metrics("points") if metric.name in ("top_share", "effective_rank", "participation_ratio", "drift_norm")]
    cloud, known = model.cloud(np.random.default_rng(0)), model.values(chosen)
    for metric in chosen:
        assert float(metric(cloud)) == pytest.approx(known[metric.name], rel=0.01), metric.name
