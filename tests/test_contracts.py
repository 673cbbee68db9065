"""Everything that the registries find is held to the public contract checks, and the checks name what is broken."""

from pathlib import Path

import pytest

import isoscope.metrics
from isoscope.claims import claims
from isoscope.core.errors import IsoscopeError
from isoscope.estimation.metric import Question
from isoscope.figures import figures
from isoscope.metrics import curves, metrics, profiles, registry
from isoscope.models.loading.family import families
from isoscope.sources import sources
from isoscope.testing import check_claim, check_family, check_figure, check_metric, check_profile, check_series, check_source


@pytest.mark.parametrize("metric", metrics(), ids=lambda entry: entry.name)
def test_metric(metric):
    check_metric(metric)


@pytest.mark.parametrize("series", curves(), ids=lambda entry: entry.name)
def test_series(series):
    check_series(series)


@pytest.mark.parametrize("profile", profiles(), ids=lambda entry: entry.name)
def test_profile(profile):
    check_profile(profile)


@pytest.mark.parametrize("figure", figures, ids=lambda figure: figure.name)
def test_figure(figure):
    check_figure(figure)


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim.name)
def test_claim(claim):
    check_claim(claim)


@pytest.mark.parametrize("family", families, ids=lambda family: family.name)
def test_family(family):
    check_family(family)


@pytest.mark.parametrize("kind", sources, ids=lambda kind: kind.name)
def test_source(kind):
    check_source(kind, "embedded" if kind.name in ("text", "speech", "images") else None)


def test_every_metric_of_the_package_answers_a_question():
    """The index of docs/metrics.md is made from these; one without a question is listed last, which is for plugins."""
    folder = Path(isoscope.metrics.__file__).parent
    own = [entry for entry in registry if Path(entry.__wrapped__.__code__.co_filename).parent == folder]
    assert len(own) > 60
    assert [entry.name for entry in own if entry.question is Question.OTHER] == []


def test_the_registry_names_what_the_package_offers():
    for name in registry.names():
        assert registry[name].name == name
        assert getattr(isoscope.metrics, name) is registry[name]
    assert len({entry.title for entry in registry}) == len(registry.names())
    with pytest.raises(IsoscopeError, match="no metric called 'mean_cosin', did you mean mean_cosine"):
        registry["mean_cosin"]
