"""A panel whose lines have different n says so, where its metric depends on n, and nowhere else."""

import pytest

from isoscope.core.number import POPULATION, THIS_N
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, tidy
from isoscope.figures import figures

ABOUT = {"between_cosine": POPULATION, "effective_rank": THIS_N, "top_share": THIS_N}


def table(n, policies=("all",)):
    rows = [
        {"model": model, "revision": "r", "modality": "text", "stack": "encoder", "kind": "hidden", "layer": layer, "policy": policy}
        | {"metric": metric, "value": 0.2 + 0.1 * layer, "low": 0.1, "high": 0.9, "n": count - 50 * i, "d": 8, "interval_about": about}
        for model, count in n.items()
        for layer in range(3)
        for i, policy in enumerate(policies)
        for metric, about in ABOUT.items()
    ]
    return tidy(rows, TABLE_COLUMNS)


def panels(name, rows):
    spec = figures[name].draw(rows, tidy([], SERIES_COLUMNS)).to_dict()
    return spec.get("concat", [spec])


def test_lines_of_different_n_are_marked_where_the_metric_depends_on_n():
    titles = [panel["title"] for panel in panels("layer_profile", table({"small": 1000, "large": 4000}))]
    said = "n differs (1,000 to 4,000) and this metric depends on n"
    assert titles[0] == "between_cosine"
    assert titles[1:] == [{"text": name, "subtitle": said} for name in ("top_share", "effective_rank")]
    assert panels("shape_of_anisotropy", table({"small": 1000, "large": 4000}))[0]["title"]["subtitle"] == said


@pytest.mark.parametrize("n", [{"a": 1000, "b": 1005}, {"a": 1000}])
def test_lines_of_equal_n_are_not_marked(n):
    assert [panel["title"] for panel in panels("layer_profile", table(n))] == ["between_cosine", "top_share", "effective_rank"]


def test_policies_of_one_model_are_marked_where_they_are_drawn_together():
    rows = table({"a": 1000}, policies=("all", "body"))
    assert all(isinstance(panel["title"], str) for panel in panels("layer_profile", rows))
    titles = [panel["title"] for panel in panels("policy_difference", rows)]
    assert titles[0] == ["a", "between_cosine"]
    assert titles[1] == {"text": ["a", "top_share"], "subtitle": "n differs (950 to 1,000) and this metric depends on n"}


def test_a_tooltip_says_what_the_interval_is_about():
    first, second, _ = (str(panel) for panel in panels("layer_profile", table({"a": 1000})))
    assert "at this n" not in first
    assert "+ ' at this n'" in second
