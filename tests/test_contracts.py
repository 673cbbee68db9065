"""Every metric, profile and series that the registry finds is held to the public contract checks, and the checks hold to theirs."""

import numpy as np
import pytest

import isoscope.metrics
from isoscope.core.errors import IsoscopeError
from isoscope.core.number import POPULATION, Number
from isoscope.metrics import curves, metrics, profiles, registry
from isoscope.statistics.metric import Metric, Series
from isoscope.statistics.profile import Profile, spread, steps
from isoscope.statistics.spectrum import top_part
from isoscope.testing import check_metric, check_profile, check_series


@pytest.mark.parametrize("metric", metrics(), ids=lambda entry: entry.name)
def test_metric(metric):
    check_metric(metric)


@pytest.mark.parametrize("series", curves(), ids=lambda entry: entry.name)
def test_series(series):
    check_series(series)


@pytest.mark.parametrize("profile", profiles(), ids=lambda entry: entry.name)
def test_profile(profile):
    check_profile(profile)


def test_the_registry_names_what_the_package_offers():
    for name in registry.names():
        assert registry[name].name == name
        assert getattr(isoscope.metrics, name) is registry[name]
    assert len({entry.title for entry in registry}) == len(registry.names())
    with pytest.raises(IsoscopeError, match="no metric called 'mean_cosin', did you mean mean_cosine"):
        registry["mean_cosin"]


def honest(cloud):
    """A number.

    Range 0 to 1, null none.
    """
    return Number(0.5, n=cloud.n, d=cloud.d)


def made(function=honest, *, name="test_contracts", doc=None, **changed):
    """A metric in this file, which carries the file's name so that only what is broken on purpose is broken."""

    def function_(cloud):
        return function(cloud)

    function_.__name__ = function_.__qualname__ = name
    function_.__doc__ = honest.__doc__ if doc is None else doc
    function_.__module__ = f"tests.{name}"
    return Metric(function_, **({"reads": ("sums",), "range": (0.0, 1.0), "title": "T"} | changed))


def mutate(cloud):
    cloud.moments.total += 1
    return honest(cloud)


def by_order(cloud):
    return Number(abs(np.sin(float(cloud.drawn.points[0, 0]))), n=cloud.n, d=cloud.d)


rng = np.random.default_rng(0)
BROKEN = {
    "outside its range": made(lambda cloud: Number(2.0, n=cloud.n, d=cloud.d)),
    "note does not say why": made(lambda cloud: Number(np.nan, n=cloud.n, d=cloud.d)),
    "a Number is expected": made(lambda cloud: 0.5),
    "changed the cloud": made(mutate),
    "order of rows": made(by_order, reads=("sample",)),
    "differs when called again": made(lambda cloud: Number(rng.random(), n=cloud.n, d=cloud.d)),
    "outside its interval": made(lambda cloud: Number(0.5, n=cloud.n, d=cloud.d, low=0.6, high=0.7)),
    "d is 24": made(lambda cloud: Number(0.5, n=cloud.n, d=1)),
    "warns: invalid value": made(lambda cloud: honest(cloud) if np.zeros(1) / np.zeros(1) else None),
    "no docstring": made(doc=""),
    "begin with one sentence": made(doc="One. Two.\n\nRange and null."),
    "state the range": made(doc="A number.\n\nNull 0."),
    "state the null": made(doc="A number.\n\nRange 0 to 1."),
    "title is empty": made(title=" "),
    "declare what it is about": made(lambda cloud: Number(0.5, n=cloud.n, d=cloud.d, low=0.4, high=0.6)),
    "and it has none": made(interval_about=POPULATION),
    "interval_about must be one of None, population, this n": made(interval_about="everything"),
    "parts of a cloud": made(reads=("everything",)),
    "range .* is empty": made(range=(1.0, 0.0)),
    r"must be other\.py": made(name="other"),
    "is not a metric": honest,
}


@pytest.mark.parametrize(("sentence", "broken"), BROKEN.items(), ids=BROKEN)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_broken_metric_is_told_what_is_broken(sentence, broken):
    with pytest.raises(AssertionError, match=sentence):
        check_metric(broken)


def test_the_one_that_is_not_broken():
    check_metric(made())


@pytest.mark.parametrize(
    ("sentence", "curve"),
    [
        ("three of one length", (np.ones(3), np.ones(2), np.ones(3))),
        ("2 arrays", (np.ones(3), np.ones(3))),
        ("NaN or infinity", (np.ones(1), np.full(1, np.nan), np.ones(1))),
    ],
)
def test_a_broken_series_is_told_what_is_broken(sentence, curve):
    def test_contracts(cloud):
        """A curve."""
        return curve

    test_contracts.__module__ = "test_contracts"
    with pytest.raises(AssertionError, match=sentence):
        check_series(Series(test_contracts, reads=("sums",), title="T"))


def profiled(function, *, of=top_part, doc="A number.\n\nRange 0 to 1, null none.", **changed):
    def test_contracts(shares):
        return function(shares)

    test_contracts.__module__, test_contracts.__doc__ = "tests.test_contracts", doc
    return Profile(test_contracts, of=of, **({"range": (0.0, 1.0), "title": "T", "contrasts": steps} | changed))


@pytest.mark.parametrize(
    ("sentence", "broken"),
    {
        "outside its range": profiled(lambda shares: shares.sum(-1) + 1),
        "differs when called again": profiled(lambda shares: shares.mean(-1) * rng.random()),
        "by its contrasts": profiled(lambda shares: shares.mean(-1)),
        "state the range": profiled(lambda shares: shares.mean(-1), doc="A number.\n\nNull 0."),
        "range .* is empty": profiled(lambda shares: shares.mean(-1), range=(1.0, 0.0)),
        "is not a profile": honest,
    }.items(),
)
def test_a_broken_profile_is_told_what_is_broken(sentence, broken):
    with pytest.raises(AssertionError, match=sentence):
        check_profile(broken)


def test_the_profile_that_is_not_broken():
    check_profile(profiled(spread))
