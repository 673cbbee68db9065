"""Settings and meanings that the page lists for every number."""

import json

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.metrics import registry
from isoscope.report.line import all_lines
from isoscope.report.methods import meaning_of, meanings, specification


def test_a_setting_with_several_values_lists_each_once():
    specs = [{"data": "a", "seed": 7, "slices": ["body"]}, {"data": "b", "seed": 7}, {"data": "a", "slices": []}]
    who = {
        "model": "net",
        "stack": "encoder",
        "seed": 1,
        "kind": "hidden",
        "layer": 0,
        "policy": "all",
        "metric": "mean_norm",
        "value": 1.0,
    }
    rows = [who | {"spec": json.dumps(spec)} for spec in specs] + [who | {"spec": "no JSON"}]
    (line,) = all_lines(make_table(rows, TABLE_COLUMNS), make_table([], SERIES_COLUMNS))
    assert specification(line) == {
        "model": "net",
        "seed": "1",
        "stack": "encoder",
        "data": "a, b",
        "seed (of the sample)": "7",
        "slices": '["body"], []',
        "spec": "no JSON",
    }


def test_a_meaning_is_the_docstring_up_to_its_example():
    meaning = meaning_of("two_nn")
    text = registry["two_nn"].__doc__
    assert meaning.summary == " ".join(text.split("\n\n")[0].split())
    assert meaning.details
    assert ">>>" not in meaning.details
    assert meaning.details.split() == text.partition(">>>")[0].partition("\n\n")[2].replace("``", "").split()


def test_metrics_that_are_not_installed_are_said_to_be():
    table = make_table([{"metric": "of_a_plugin"}, {"metric": "mean_norm"}, {"metric": "of_a_plugin"}], TABLE_COLUMNS)
    series = make_table([{"name": "spectrum"}], SERIES_COLUMNS)
    listed = meanings(table, series)
    assert [meaning.name for meaning in listed] == ["mean_norm", "of_a_plugin", "spectrum"]
    assert (listed[1].summary, listed[1].details) == ("Not installed here.", "")


def test_each_study_explains_its_own_changes():
    """Both numbers end in `_change`: one is over the norms of a bias, the other over the steps of a training."""
    assert "over the grid" in meaning_of("output_norm_change").summary
    assert "last step of a training" in meaning_of("between_cosine_change").summary
