"""The checks of metrics, series and profiles name what is broken, and pass what is not."""

import numpy as np
import pytest

from isoscope.core.number import POPULATION, Number
from isoscope.estimation.eigenvalues import top_part
from isoscope.estimation.metric import Metric, Series
from isoscope.estimation.profile import Profile, pairwise_differences
from isoscope.testing import check_metric, check_profile, check_series


def honest(cloud):
    """A number.

    Range 0 to 1, null none.
    """
    return Number(0.5, n=cloud.n, d=cloud.d)


def made(function=honest, *, doc=honest.__doc__, **changed):
    """A metric that keeps the contract, except for what is changed."""

    def a_metric(cloud):
        return function(cloud)

    a_metric.__doc__ = doc
    return Metric(a_metric, **({"reads": ("sums",), "range": (0.0, 1.0), "title": "T"} | changed))


def mutate(cloud):
    cloud.moments.total += 1
    return honest(cloud)


def by_order(cloud):
    return Number(abs(np.sin(float(cloud.require_sample().points[0, 0]))), n=cloud.n, d=cloud.d)


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
    def a_series(cloud):
        """A curve."""
        return curve

    with pytest.raises(AssertionError, match=sentence):
        check_series(Series(a_series, reads=("sums",), title="T"))


def profiled(function=pairwise_differences, *, doc="A number.\n\nRange 0 to 1, null none.", **changed):
    def contrasts(shares):
        return function(shares)

    contrasts.__doc__ = doc
    return Profile(contrasts, **({"layer_value": top_part, "extreme": "largest", "range": (0.0, 1.0), "title": "T"} | changed))


@pytest.mark.parametrize(
    ("sentence", "broken"),
    {
        "outside its range": profiled(lambda shares: 9 * pairwise_differences(shares)),
        "differs when called again": profiled(lambda shares: pairwise_differences(shares) * rng.random()),
        "not linear": profiled(lambda shares: pairwise_differences(shares) ** 2),
        "state the range": profiled(doc="A number.\n\nNull 0."),
        "range .* is empty": profiled(range=(1.0, 0.0)),
        "is not a profile": honest,
    }.items(),
)
def test_a_broken_profile_is_told_what_is_broken(sentence, broken):
    with pytest.raises(AssertionError, match=sentence):
        check_profile(broken)


def test_the_profile_that_is_not_broken():
    check_profile(profiled())
