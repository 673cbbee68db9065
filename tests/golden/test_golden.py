"""Comparing finds what changed and names it; and nothing that isoscope offers is left out of the measurements."""

import pandas as pd
import pytest

from tests.golden import names, renames
from tests.golden.comparing import compare_tables, compare_words, same_text
from tests.golden.measurements import GROUPS, measurements
from tests.golden.outcome import STORED, Outcome, compare_outcomes, list_new_metrics, read_outcome, write_outcome

UNTOUCHED = {
    "--address": "needs a cluster",
    "--all": "downloads every package",
    "--delete": "deletes what was downloaded from a hub",
    "--device-map": "spreads a model over several devices",
    "--help": "prints help, which docs/cli.md is compared with",
    "--trust-remote-code": "runs the code of a model, which no small model here brings",
}
"""Options that no measurement touches, and why."""
SOURCES = {"text": "sources", "wiki": "sources", "speech": "architectures", "images": "architectures", "arrays": "matrix_drifting"}
"""The measurement that reads each kind of source."""
ELSEWHERE = {"hub": "needs a hub; tests/sources/test_hub.py has one of its own"}
STORED_METRICS = 63
"""Metrics, profiles and series that are stored."""
LIMIT = 1_500_000
"""Bytes of all stored values."""

TABLE = pd.DataFrame({"model": ["a", "a"], "metric": ["bell", "top_share"], "value": [0.25, 1e-4], "n": [3, 3], "note": ["", "few"]})


@pytest.fixture(scope="module")
def stored():
    return {name: read_outcome(name) for name in measurements}


def test_equal_tables_do_not_differ():
    assert compare_tables("t", TABLE, TABLE.iloc[::-1], 1e-12) == []
    assert compare_tables("t", TABLE, TABLE.assign(value=TABLE["value"] + 0.9e-6), 1e-5) == []


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (TABLE.assign(value=[0.25, 1.02e-4]), "t: model=a metric=top_share: value was 0.0001, is 0.000102"),
        (TABLE.assign(value=[float("nan"), 1e-4]), "t: model=a metric=bell: value was 0.25, is nan"),
        (TABLE.assign(n=[3, 4]), "t: model=a metric=top_share: n was 3, is 4"),
        (TABLE.assign(note=["", "many"]), "t: model=a metric=top_share: note was 'few', is 'many'"),
        (TABLE.iloc[:1], "t: row model=a metric=top_share is gone"),
        (TABLE.drop(columns="note"), "t: column 'note' is gone"),
        (pd.concat([TABLE, TABLE.iloc[:1]]), "t: row model=a metric=bell #2 is new"),
    ],
)
def test_a_difference_is_named_with_row_column_and_both_values(changed, sentence):
    assert compare_tables("t", TABLE, changed, 1e-5) == [sentence]


def test_a_rename_needs_no_new_values(monkeypatch):
    now = TABLE.rename(columns={"policy": "tokens", "n": "points"}).replace({"metric": {"bell": "profile_bell"}})
    monkeypatch.setattr(renames, "COLUMNS", {"n": "points"})
    monkeypatch.setattr(renames, "VALUES", {"metric": {"bell": "profile_bell"}})
    monkeypatch.setattr(renames, "COMMANDS", {"drift": "association", "measure --rotated": "measure --after-rotary"})
    assert compare_tables("t", TABLE, now, 1e-12) == []
    chart = pd.DataFrame({"figure": ["f"], "column": ["n"], "words": ["a | bell"]})
    assert compare_tables("t", chart, chart.assign(column="points", words="a | profile_bell"), 1e-12) == []
    assert renames.rename_value("metric", "bell@godey2024") == "profile_bell@godey2024"
    assert compare_words("w", {"a.bell.n": 3, "metric": "bell"}, {"a.profile_bell.points": 3, "metric": "profile_bell"}, 1e-12) == []
    commands = ["drift", "drift --json", "measure --rotated", "measure --json"]
    assert [renames.rename_command(one) for one in commands] == [
        "association",
        "association --json",
        "measure --after-rotary",
        "measure --json",
    ]


def test_numbers_in_sentences_may_differ_by_their_last_digit():
    assert same_text("rose by 0.124 [0.09, 1.2e-3] in 3 of 9", "rose by 0.125 [0.08, 1.3e-3] in 3 of 9")
    assert not same_text("rose by 0.124", "rose by 0.126")
    assert not same_text("rose in 3 of 9", "rose in 4 of 9")
    assert not same_text("rose by 0.124", "fell by 0.124")


def test_prose_is_stored_again_without_touching_numbers(tmp_path):
    write_outcome("m", Outcome({"rows": TABLE}, {"effect": 0.5, "said": "old"}, ["drift"]), tmp_path)
    new = Outcome({"rows": TABLE.assign(value=9.0, note=["", "x"])}, {"effect": 0.7, "said": "new"}, ["drift"])
    write_outcome("m", new, tmp_path, only_sentences=True)
    after = read_outcome("m", tmp_path)
    assert after.words == {"effect": 0.5, "said": "new"}
    assert after.tables["rows"]["value"].tolist() == TABLE["value"].tolist()
    assert after.tables["rows"]["note"].tolist() == ["", "x"]
    assert len(compare_outcomes("m", after, new, 1e-5)) == 3


def test_every_measurement_is_stored_and_nothing_else_and_it_is_small():
    assert {path.name.partition(".")[0] for path in STORED.iterdir()} == set(measurements)
    assert sum(path.stat().st_size for path in STORED.iterdir()) < LIMIT


def test_every_group_has_its_file_of_tests():
    assert {path.stem.removeprefix("test_golden_") for path in STORED.parent.glob("test_golden_*.py")} == set(GROUPS)


def collect(stored, column):
    """All words of a column in all stored tables, under the names of today."""
    words = {
        renames.rename_value(name, word)
        for outcome in stored.values()
        for table in outcome.tables.values()
        for name in table
        if renames.rename_column(name) == column
        for word in table[name].dropna().unique()
    }
    return {str(word) for word in words}


def listed(stored, what, field=1):
    """What `isoscope list` lists, from the stored listing."""
    return {path.split(".")[field] for path in stored["listing"].words if path.startswith(f"{what}.")}


def test_no_stored_metric_or_series_is_lost(stored):
    """New ones need no stored value: tests/metrics holds them to brute force until outcomes are stored again."""
    there = collect(stored, "metric") | collect(stored, "name")
    known = set(names.list_metrics())
    assert known - list_new_metrics() == known & there
    assert len(known & there) >= STORED_METRICS


def test_rows_and_words_of_a_new_metric_are_not_compared():
    new = pd.concat([TABLE, TABLE.iloc[:1].assign(metric="just_written")])
    assert compare_tables("t", TABLE, new, 1e-12, frozenset({"just_written"})) == []
    assert compare_tables("t", TABLE, new.iloc[1:], 1e-12, frozenset({"just_written"})) == ["t: row model=a metric=bell is gone"]
    assert compare_words("w", {"a": 1}, {"a": 1, "metrics.just_written.title": "T"}, 1e-12, frozenset({"just_written"})) == []


def test_every_figure_is_stored(stored):
    assert set(names.list_figures()) - collect(stored, "figure") == set()


def test_every_architecture_and_family_is_stored(stored):
    cells = stored["architectures"].words
    there = {value for path, value in cells.items() if path.startswith("cells.") and path.endswith(".family")}
    assert {family for _, family in names.list_architectures()} == there
    assert {title.replace(" ", "-") for title, _ in names.list_architectures()} <= collect({"a": stored["architectures"]}, "model")


def test_every_kind_of_site_is_stored(stored):
    assert set(names.list_kinds()) - collect(stored, "kind") == set()


def test_every_source_and_recipe_is_used(stored):
    assert set(SOURCES.values()) <= set(measurements)
    assert listed(stored, "sources") == {*SOURCES, *ELSEWHERE}
    assert listed(stored, "recipes") == collect({"r": stored["recipes"]}, "name")


def test_every_claim_has_a_verdict(stored):
    from isoscope.claims import claims

    assert {claim.name for claim in claims()} - collect({"c": stored["claims_of_models"]}, "name") == set()


def test_every_verb_and_option_is_touched(stored):
    touched = {renames.rename_command(command) for outcome in stored.values() for command in outcome.touched}
    wanted = {f"{verb} {option}" for verb, options in names.list_commands().items() for option in options if option not in UNTOUCHED}
    assert set(names.list_commands()) - touched == set()
    # The options of measuring are one set that three verbs share.
    shared = {option for option in names.list_commands()["measure"] if f"measure {option}" in touched}
    missing = {one for one in wanted - touched if not (one.split()[0] in ("sweep", "reproduce") and one.split()[1] in shared)}
    assert missing == set()
