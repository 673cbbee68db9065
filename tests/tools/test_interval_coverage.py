"""Every interval holds what it says it is about, in nine of ten simulated corpora or more."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from isoscope.metrics import metrics

sys.path.append(str(Path(__file__).parents[2] / "tools"))
from interval_coverage import SIZES, Attending, Population, coverages, tried_metrics

DRAWS = 200
PAGE = Path(__file__).parents[2] / "docs" / "intervals-and-nulls.md"
NEAR = 0.03
"""Draws are the same everywhere, but another linear algebra library may put an end of an interval on the other side."""


def rates_on_page(place: int) -> dict[str, tuple[str, ...]]:
    """By metric the rates for the population and for this n on the page: in 128 dimensions (0), in 768 (1), of attention (2)."""
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    width, columns = (5, (2, 3)) if place == 2 else (8, (2 + place, 4 + place))
    return {row[0].strip("`"): tuple(row[i] for i in columns) for row in cells if len(row) == width}


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
    shown = rates_on_page(2 if about == "attention" else list(SIZES).index(model.d))
    assert set(shown) == {one.metric.name for one in found}
    for one in found:
        for rate, said in zip((one.population, one.this_n), shown[one.metric.name], strict=True):
            assert math.isnan(rate) if said == "–" else abs(rate - float(said.removesuffix(" %")) / 100) <= NEAR, one.metric.name
    if about == "points":  # what is declared to be about this n has reason to be
        by_name = {one.metric.name: one for one in found}
        assert by_name["effective_rank"].population == by_name["participation_ratio"].population == 0


@pytest.mark.parametrize("place", range(3))
def test_the_page_has_a_rate_for_every_metric(place):
    """Of every metric 90 % or more of what it says it is about."""
    chosen = {metric.name: metric for metric in tried_metrics("attention" if place == 2 else "points")}
    shown = rates_on_page(place)
    assert set(shown) == set(chosen)
    for name, metric in chosen.items():
        assert float(shown[name][metric.interval_about != "population"].removesuffix(" %")) >= 90


def test_the_population_has_the_value_that_a_large_corpus_has():
    """The values that coverage is held against, computed from the covariance, are those of a corpus of 20,000 documents."""
    model = Population(8, 20_000)
    chosen = [metric for metric in metrics("points") if metric.name in ("top_share", "effective_rank", "participation_ratio", "drift_norm")]
    cloud, known = model.cloud(np.random.default_rng(0)), model.values(chosen)
    for metric in chosen:
        assert float(metric(cloud)) == pytest.approx(known[metric.name], rel=0.01), metric.name
