"""Many points: how long their neighbours take is said first, they are searched for once, and the numbers are the same."""

import numpy as np
import pytest

import isoscope
from isoscope.estimation import cloud
from isoscope.estimation.neighbours import neighbours
from isoscope.runs import matrix_geometry as module

X = np.random.default_rng(0).standard_normal((300, 6))


@pytest.fixture
def searches(monkeypatch):
    """How far each search of a cloud went."""
    seen = []

    def search(points, k, *, reach, **more):
        seen.append(reach)
        return neighbours(points, k, reach=reach, **more)

    monkeypatch.setattr(cloud, "neighbours", search)
    return seen


@pytest.mark.parametrize(
    ("names", "reach"),
    [(None, [2]), ("two_nn", [2]), (["two_nn", "mean_cosine"], [2]), (["two_nn", "gride", "hubness"], [cloud.REACH]), ("mean_cosine", [])],
    ids=str,
)
def test_neighbours_of_many_points_are_searched_for_once_and_as_far_as_needed(names, reach, searches, monkeypatch, capsys):
    expected = isoscope.geometry(X, metric=names)
    searches.clear()
    monkeypatch.setattr(module, "MANY", 200)
    found = isoscope.geometry(X, metric=names, quiet=False)
    assert searches == reach
    assert found == pytest.approx(expected, rel=1e-12, nan_ok=True)
    said = capsys.readouterr().err
    assert ("The neighbours of 300 points: about 1 s, and as long again for an isotropic cloud of this size." in said) is bool(reach)


def test_points_without_neighbours_say_why(monkeypatch):
    monkeypatch.setattr(module, "MANY", 20)
    found = isoscope.geometry(np.ones((30, 3)), metric="two_nn")["two_nn"]
    assert np.isnan(found)
    assert "there are 1" in found.note
