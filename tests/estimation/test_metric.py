"""What metrics, series and profiles share: what they say about themselves, and which clouds they take."""

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.estimation.matrix_cloud import cloud_of
from isoscope.estimation.metric import Metric, Question, metric
from isoscope.metrics import metrics, registry

X = np.random.default_rng(0).standard_normal((60, 4)) + 1


def declared(**changed):
    def half(cloud):
        """A half.

        Range 0 to 1.
        """
        return 0.5

    return metric(**({"reads": ("sums",), "range": (0.0, 1.0), "title": "Half"} | changed))(half)


def test_a_declaration_says_what_it_is():
    half = declared()
    assert isinstance(half, Metric)
    assert (half.name, half.summary, half.question, repr(half)) == ("half", "A half.", Question.OTHER, "<metric half>")
    assert (half.at_least, half.on_request, half.wants) == (2, False, ())


def test_the_subject_follows_from_what_is_read():
    assert {name: registry[name].subject for name in ("mean_cosine", "attention_max", "bell", "spectrum", "score_histogram")} == {
        "mean_cosine": "points",
        "attention_max": "attention",
        "bell": "stack",
        "spectrum": "points",
        "score_histogram": "attention",
    }
    assert {entry.subject for entry in metrics("points")} == {"points"}


def test_variants_stand_in_the_order_of_their_file():
    names = ("between_cosine", "within_cosine", "mean_cosine", "drift_ratio", "drift_norm")
    assert sorted(names, key=lambda name: registry[name].position) == list(names)


def test_a_cloud_is_available_if_it_has_the_points_and_the_parts():
    assert declared().available(cloud_of(X))
    assert not declared(at_least=61).available(cloud_of(X))
    assert not declared(reads=("sample",)).available(cloud_of(X, ("sums",)))


def test_a_matrix_becomes_a_cloud_with_the_parts_that_are_read_and_wanted():
    cloud = declared(reads=("second",), wants=("sample",)).as_cloud(X, allow_wide=False, sample=20)
    assert [cloud.has(part) for part in ("second", "sample", "cosine")] == [True, True, False]
    assert len(cloud.sample) == 20
    assert declared().as_cloud(cloud, allow_wide=False) is cloud
    with pytest.raises(IsoscopeError, match="half is a number of rows of attention, and it was given points"):
        declared(reads=("attention",)).as_cloud(X, allow_wide=False)
